import {
  ListPodSandboxRequest,
  ListPodSandboxResponse,
  PodSandboxStatusRequest,
  PodSandboxStatusResponse,
  RemovePodSandboxRequest,
  RemovePodSandboxResponse,
  RunPodSandboxRequest,
  RunPodSandboxResponse,
  StopPodSandboxRequest,
  StopPodSandboxResponse,
} from "../proto/cri/gen/api.ts";
import type { SandboxId } from "../proto/ids.ts";
import { podUidLabel } from "../proto/kubernetes/well-known-names.ts";
import type { Connection } from "./channel.ts";
import { removeSandboxWithLeftTask } from "./containerd-leftover-task.ts";
import { absentIsFine, CriError } from "./error.ts";
import { runtimeVerb } from "./rpc-method.ts";
import type { Runtime } from "./runtime.ts";

const verbs = {
  run: runtimeVerb("RunPodSandbox", RunPodSandboxRequest, RunPodSandboxResponse),
  stop: runtimeVerb("StopPodSandbox", StopPodSandboxRequest, StopPodSandboxResponse),
  remove: runtimeVerb("RemovePodSandbox", RemovePodSandboxRequest, RemovePodSandboxResponse),
  status: runtimeVerb("PodSandboxStatus", PodSandboxStatusRequest, PodSandboxStatusResponse),
  list: runtimeVerb("ListPodSandbox", ListPodSandboxRequest, ListPodSandboxResponse),
};

export type Sandboxes = Pick<
  Runtime,
  "runPodSandbox" | "stopPodSandbox" | "removePodSandbox" | "podSandboxStatus" | "listPodSandbox"
>;

/**
 * The verbs of pod sandboxes. `requestTimeoutMs` is the deadline; RunPodSandbox, which may run slow CNI plugins, has
 * twice that.
 */
export function createSandboxes({ call }: Connection, requestTimeoutMs: number): Sandboxes {
  /** Made whole, as their answer told us: what a cut call leaves behind is not to be looked for. */
  const whole = new Set<SandboxId>();
  return {
    async runPodSandbox(config, runtimeHandler, options) {
      const limits = { deadlineMs: 2 * requestTimeoutMs, ...options };
      const id = (await call(verbs.run, { config, runtimeHandler }, limits)).podSandboxId as SandboxId;
      whole.add(id);
      return id;
    },
    async stopPodSandbox(podSandboxId, options) {
      await call(verbs.stop, { podSandboxId }, { deadlineMs: requestTimeoutMs, ...options }).catch(absentIsFine);
    },
    async removePodSandbox(podSandboxId, options) {
      const limits = { deadlineMs: requestTimeoutMs, ...options };
      const remove = () => call(verbs.remove, { podSandboxId }, limits).catch(absentIsFine);
      if (whole.has(podSandboxId)) await remove();
      else await removeSandboxWithLeftTask({ call }, podSandboxId, limits, remove);
      whole.delete(podSandboxId);
    },
    async podSandboxStatus(podSandboxId, options) {
      const request = { podSandboxId, verbose: false };
      const { status } = await call(verbs.status, request, { deadlineMs: requestTimeoutMs, ...options });
      if (status === undefined) throw new CriError("INTERNAL", verbs.status.name, `no status for ${podSandboxId}`);
      return status;
    },
    async listPodSandbox({ id = "", podUid }, options) {
      const labelSelector = podUid === undefined ? {} : { [podUidLabel]: podUid };
      const request = { filter: { id, state: undefined, labelSelector } };
      return (await call(verbs.list, request, { deadlineMs: requestTimeoutMs, ...options })).items;
    },
  };
}
