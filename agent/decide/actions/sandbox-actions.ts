import type { SandboxId } from "../../../proto/ids.ts";
import { killFailedEvent, sandboxChangedEvents, warning } from "../events/pod-event.ts";
import type { ActionRecord, ActionRecords } from "./action-record.ts";

/** What the agent does to the sandboxes of a pod. */
export type SandboxAction = RunSandbox | StopSandbox | RemoveSandbox;

interface RunSandbox {
  readonly kind: "runSandbox";
  readonly attempt: number;
  /** Stored in the sandbox's annotations, so that the back-off survives a restart of the agent. */
  readonly crashes: number;
  readonly why: string;
}

interface StopSandbox {
  readonly kind: "stopSandbox";
  readonly id: SandboxId;
  readonly why: string;
}

interface RemoveSandbox {
  readonly kind: "removeSandbox";
  readonly id: SandboxId;
  readonly why: string;
}

/** runc's words for a `cgroup_parent` in the form of the other cgroup driver. */
const DRIVER_MISMATCH = {
  pattern: /expected cgroupsPath to be of format|cgroupsPath .*\.slice:/,
  text: "the container runtime and this agent use different cgroup drivers: set cgroupDriver to the runtime's (systemd if its configuration has SystemdCgroup = true, else cgroupfs), or change the runtime's and restart it; berth doctor shows both",
};

const runSandbox: ActionRecord<RunSandbox> = {
  describe: ({ attempt, why }) => `run sandbox (attempt ${attempt}): ${why}`,
  failureKey: () => ({ of: "sandbox" }),
  actionClass: "start",
  failure: () => ({
    reason: "CreatePodSandboxError",
    runtimeText: "rpc error",
    messagePrefix: "Failed to create pod sandbox: ",
    cures: [DRIVER_MISMATCH],
  }),
  uses: ["dns"],
  timingStep: () => ({ what: "sandbox" }),
  eventsAtStart: ({ attempt }) => (attempt === 0 ? [] : sandboxChangedEvents()),
  eventsAtFailure: (_action, { message }) => [warning("FailedCreatePodSandBox", message)],
};

const stopSandbox: ActionRecord<StopSandbox> = {
  describe: ({ why }) => `stop sandbox: ${why}`,
  failureKey: ({ id }) => ({ of: "endOfSandbox", id }),
  actionClass: "end",
  failure: () => ({ reason: "KillPodSandboxError", runtimeText: "rpc error" }),
  eventsAtFailure: (_action, { uid, reason, message }) => [killFailedEvent("KillPodSandbox", uid, reason, message)],
  memoryWhenSucceeded: (memory, { id }) => ({
    ...memory,
    stoppedSandboxes: new Set([...memory.stoppedSandboxes, id]),
  }),
};

const removeSandbox: ActionRecord<RemoveSandbox> = {
  describe: ({ why }) => `remove sandbox: ${why}`,
  failureKey: ({ id }) => ({ of: "endOfSandbox", id }),
  actionClass: "end",
  failure: () => ({ reason: "KillPodSandboxError", runtimeText: "rpc error" }),
};

export const sandboxActions: ActionRecords<SandboxAction> = { runSandbox, stopSandbox, removeSandbox };
