import { CriError } from "../../../cri/error.ts";
import { requirementsOf } from "../../../proto/kubernetes/container-amounts.ts";
import { containerNamed } from "../../../proto/kubernetes/containers.ts";
import type { ResizeAction } from "../../decide/actions/resize-actions.ts";
import { qosClassOf } from "../../decide/status/qos.ts";
import { containerResources } from "../../translate/resources/container-resources.ts";
import { sandboxUpdate } from "../../translate/resources/sandbox-update.ts";
import { TranslateError } from "../../translate/translate-error.ts";
import { type ActDeps, type ActInput, type Performers, podOf } from "./performer.ts";

export const resizePerformers: Performers<ResizeAction> = {
  updateContainerResources: {
    async perform(...call) {
      await updateContainerResources(...call);
      return {};
    },
    // The runtime's status shows the new resources.
    effect: ({ id }) => ({ kind: "container", id }),
  },
  updatePodSandboxResources: {
    async perform(...call) {
      await updatePodSandboxResources(...call);
      return {};
    },
    effect: () => ({ kind: "nothing" }),
  },
};

async function updateContainerResources(
  { runtime, facts }: ActDeps,
  input: ActInput,
  { name, id, amounts }: Extract<ResizeAction, { kind: "updateContainerResources" }>,
  signal: AbortSignal,
): Promise<void> {
  const pod = podOf(input);
  const container = containerNamed(pod, name);
  if (container === undefined) throw new TranslateError("ResizePodInPlaceError", `the pod has no container ${name}`);
  const { requests, limits } = requirementsOf(amounts);
  const resources = {
    ...container.resources,
    requests: { ...container.resources?.requests, ...requests },
    limits: { ...container.resources?.limits, ...limits },
  };
  const linux = containerResources(pod, { ...container, resources }, qosClassOf(pod), facts());
  await runtime.updateContainerResources(id, linux, { signal });
}

/**
 * Informs the runtime. A runtime that cannot be informed does not refuse, so that the resize goes on. Rule: the kubelet's
 * updatePodSandboxResources.
 */
async function updatePodSandboxResources(
  { runtime, facts }: ActDeps,
  input: ActInput,
  { sandboxId, limits }: Extract<ResizeAction, { kind: "updatePodSandboxResources" }>,
  signal: AbortSignal,
): Promise<void> {
  const update = sandboxUpdate(podOf(input), limits, facts());
  await runtime.updatePodSandboxResources(sandboxId, update, { signal }).catch((error: unknown) => {
    if (!(error instanceof CriError && error.code === "UNIMPLEMENTED")) throw error;
  });
}
