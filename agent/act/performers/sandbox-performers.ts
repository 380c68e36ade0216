import { podCgroupName } from "../../../proto/cgroup/cgroup-name.ts";
import type { SandboxId } from "../../../proto/ids.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { SandboxAction } from "../../decide/actions/sandbox-actions.ts";
import { unsupportedInSandbox } from "../../decide/admission/unsupported-features.ts";
import { qosClassOf } from "../../decide/status/qos.ts";
import { runtimeHandlerOf } from "../../translate/runtime-handler.ts";
import { sandboxConfig } from "../../translate/sandbox-config.ts";
import { checkUserNamespaceSupport, usesUserNamespace } from "../../translate/security/user-namespace.ts";
import { allocateIds } from "../user-namespaces.ts";
import { type ActDeps, type ActInput, type Performers, podOf, refuseUnsupported } from "./performer.ts";

export const sandboxPerformers: Performers<SandboxAction> = {
  runSandbox: {
    perform: async (...call) => ({ sandboxId: await runSandbox(...call) }),
    effect: (_action, { sandboxId: id }) => (id === undefined ? { kind: "everything" } : { kind: "sandbox", id }),
  },
  stopSandbox: {
    async perform({ runtime }, _input, { id }, signal) {
      await runtime.stopPodSandbox(id, { signal });
      return {};
    },
    effect: ({ id }) => ({ kind: "sandbox", id }),
    teardown: "normal",
  },
  removeSandbox: {
    async perform({ runtime }, _input, { id }, signal) {
      await runtime.removePodSandbox(id, { signal });
      return {};
    },
    effect: ({ id }) => ({ kind: "sandbox", id }),
    teardown: "urgent",
    needsSavedStatus: true,
  },
};

/** The `cgroup_parent` of a pod's sandbox and containers; undefined while the runtime chooses it. */
export function cgroupParentOf(cgroups: ActDeps["cgroups"], pod: Pod): string | undefined {
  return cgroups?.criParent(podCgroupName(pod.metadata.uid ?? "", qosClassOf(pod)));
}

async function runSandbox(
  { runtime, facts, userNamespaces, cgroups }: ActDeps,
  input: ActInput,
  action: Extract<SandboxAction, { kind: "runSandbox" }>,
  signal: AbortSignal,
): Promise<SandboxId> {
  const [pod, node] = [podOf(input), facts()];
  refuseUnsupported("CreatePodSandboxError", unsupportedInSandbox(pod));
  const handler = runtimeHandlerOf(pod, node);
  if (usesUserNamespace(pod)) checkUserNamespaceSupport(handler, node.handlersWithUsers ?? new Map());
  const ids = await allocateIds(userNamespaces, pod);
  const config = sandboxConfig(pod, action, node, { ids, cgroupParent: cgroupParentOf(cgroups, pod) });
  return await runtime.runPodSandbox(config, handler, { signal });
}
