import {
  ListPodSandboxRequest,
  ListPodSandboxResponse,
  ListPodSandboxStatsRequest,
  ListPodSandboxStatsResponse,
  PodSandboxStatusRequest,
  PodSandboxStatusResponse,
  RemovePodSandboxRequest,
  RemovePodSandboxResponse,
  RunPodSandboxRequest,
  RunPodSandboxResponse,
  StopPodSandboxRequest,
  StopPodSandboxResponse,
  UpdatePodSandboxResourcesRequest,
  UpdatePodSandboxResourcesResponse,
} from "../proto/cri/gen/api.ts";
import type { SandboxId } from "../proto/ids.ts";
import { podUidLabel } from "../proto/kubernetes/well-known-names.ts";
import type { Channel } from "./channel.ts";
import { removeSandboxWithLeftoverTask } from "./containerd-leftover-task.ts";
import { CriError, ignoreNotFound } from "./error.ts";
import { runtimeMethod } from "./rpc-method.ts";
import type { Runtime, SandboxProcess } from "./runtime.ts";

const methods = {
  run: runtimeMethod("RunPodSandbox", RunPodSandboxRequest, RunPodSandboxResponse),
  stop: runtimeMethod("StopPodSandbox", StopPodSandboxRequest, StopPodSandboxResponse),
  remove: runtimeMethod("RemovePodSandbox", RemovePodSandboxRequest, RemovePodSandboxResponse),
  updateResources: runtimeMethod(
    "UpdatePodSandboxResources",
    UpdatePodSandboxResourcesRequest,
    UpdatePodSandboxResourcesResponse,
  ),
  status: runtimeMethod("PodSandboxStatus", PodSandboxStatusRequest, PodSandboxStatusResponse),
  list: runtimeMethod("ListPodSandbox", ListPodSandboxRequest, ListPodSandboxResponse),
  listStats: runtimeMethod("ListPodSandboxStats", ListPodSandboxStatsRequest, ListPodSandboxStatsResponse),
};

export type Sandboxes = Pick<
  Runtime,
  | "runPodSandbox"
  | "stopPodSandbox"
  | "removePodSandbox"
  | "updatePodSandboxResources"
  | "podSandboxStatus"
  | "listPodSandbox"
  | "listPodSandboxStats"
  | "podSandboxProcess"
>;

/**
 * The pod sandbox methods. `requestTimeoutMs` is the deadline; RunPodSandbox, which may run slow CNI plugins, has twice
 * that.
 */
export function createSandboxes({ call }: Channel, requestTimeoutMs: number): Sandboxes {
  /** Sandboxes whose RunPodSandbox succeeded in this process: they cannot have a leftover containerd task. */
  const completeSandboxes = new Set<SandboxId>();
  return {
    async runPodSandbox(config, runtimeHandler, options) {
      const limits = { deadlineMs: 2 * requestTimeoutMs, ...options };
      const id = (await call(methods.run, { config, runtimeHandler }, limits)).podSandboxId as SandboxId;
      completeSandboxes.add(id);
      return id;
    },
    async stopPodSandbox(podSandboxId, options) {
      await call(methods.stop, { podSandboxId }, { deadlineMs: requestTimeoutMs, ...options }).catch(ignoreNotFound);
    },
    async removePodSandbox(podSandboxId, options) {
      const limits = { deadlineMs: requestTimeoutMs, ...options };
      const remove = () => call(methods.remove, { podSandboxId }, limits).catch(ignoreNotFound);
      if (completeSandboxes.has(podSandboxId)) await remove();
      else await removeSandboxWithLeftoverTask({ call }, podSandboxId, limits, remove);
      completeSandboxes.delete(podSandboxId);
    },
    async updatePodSandboxResources(podSandboxId, { resources, overhead }, options) {
      const request = { podSandboxId, resources, overhead };
      const limits = { deadlineMs: requestTimeoutMs, ...options };
      await call(methods.updateResources, request, limits).catch(rethrowAsUnimplemented);
    },
    async podSandboxStatus(podSandboxId, options) {
      const request = { podSandboxId, verbose: false };
      const { status } = await call(methods.status, request, { deadlineMs: requestTimeoutMs, ...options });
      if (status === undefined) throw new CriError("INTERNAL", methods.status.name, `no status for ${podSandboxId}`);
      return status;
    },
    async listPodSandbox({ id = "", podUid }, options) {
      const labelSelector = podUid === undefined ? {} : { [podUidLabel]: podUid };
      const request = { filter: { id, state: undefined, labelSelector } };
      return (await call(methods.list, request, { deadlineMs: requestTimeoutMs, ...options })).items;
    },
    async listPodSandboxStats({ id = "", podUid }, options) {
      const labelSelector = podUid === undefined ? {} : { [podUidLabel]: podUid };
      const limits = { deadlineMs: requestTimeoutMs, ...options };
      return (await call(methods.listStats, { filter: { id, labelSelector } }, limits)).stats;
    },
    async podSandboxProcess(podSandboxId, options) {
      const request = { podSandboxId, verbose: true };
      const { info } = await call(methods.status, request, { deadlineMs: requestTimeoutMs, ...options });
      return processIn(info["info"]);
    },
  };
}

/** No standard defines the `info` of a verbose status: containerd and CRI-O write JSON, with a `pid` of 0 without a process. */
function processIn(info: string | undefined): SandboxProcess {
  try {
    const { pid, image } = JSON.parse(info ?? "{}") as Readonly<Record<"pid" | "image", unknown>>;
    return {
      pid: typeof pid === "number" && Number.isInteger(pid) && pid > 0 ? pid : undefined,
      image: typeof image === "string" && image !== "" ? image : undefined,
    };
  } catch {
    // A runtime that writes something else does not report the process.
    return { pid: undefined, image: undefined };
  }
}

/** containerd 2.0 to 2.2 answers UNKNOWN with the text "not implemented". */
function rethrowAsUnimplemented(error: unknown): never {
  if (!(error instanceof CriError && error.code === "UNKNOWN" && error.details.includes("not implemented")))
    throw error;
  throw new CriError("UNIMPLEMENTED", error.verb, error.details, { cause: error });
}
