import type { Action, ActionKind } from "../../agent/decide/pod/action.ts";
import type { ContainerId, SandboxId } from "../../proto/ids.ts";

const id = "c" as ContainerId;
const sandboxId = "s" as SandboxId;
const why = "why";

/** One action of each kind. The compiler reports a kind without a row. */
export const exampleActions: { readonly [K in ActionKind]: Extract<Action, { readonly kind: K }> } = {
  makeResource: { kind: "makeResource", resource: { of: "volume", name: "v" } },
  mountVolume: { kind: "mountVolume", name: "v" },
  updateVolume: { kind: "updateVolume", name: "v", content: "1", why },
  writePodCgroup: { kind: "writePodCgroup", limits: { cpuWeight: 1 }, why },
  pullImage: { kind: "pullImage", image: "i", why },
  runSandbox: { kind: "runSandbox", attempt: 1, crashes: 0, why },
  createContainer: {
    kind: "createContainer",
    name: "a",
    attempt: 0,
    sandboxId,
    podIPs: [],
    image: "i",
    imageRef: "r",
    crashes: 0,
    why,
  },
  startContainer: { kind: "startContainer", name: "a", id, attempt: 0 },
  runPostStart: { kind: "runPostStart", name: "a", id, attempt: 0 },
  runPreStop: { kind: "runPreStop", name: "a", id, gracePeriodSeconds: 1, why },
  stopContainer: { kind: "stopContainer", name: "a", id, gracePeriodSeconds: 1, why },
  removeContainer: { kind: "removeContainer", name: "a", id, why },
  updateContainerResources: {
    kind: "updateContainerResources",
    name: "a",
    id,
    amounts: { cpuRequest: 100, cpuLimit: 0, memoryRequest: 0, memoryLimit: 0 },
  },
  updatePodSandboxResources: {
    kind: "updatePodSandboxResources",
    sandboxId,
    limits: { cpuWeight: 1, cpuMax: { quotaUs: "max", periodUs: 100_000 }, memoryMax: "max" },
  },
  stopSandbox: { kind: "stopSandbox", id: sandboxId, why },
  removeSandbox: { kind: "removeSandbox", id: sandboxId, why },
  removeResource: { kind: "removeResource", resource: { of: "podDirs" }, why },
};
