import type { ContainerId } from "../../../proto/ids.ts";
import { killFailedEvent, normal, type PodEvent, sandboxChangedEvents, warning } from "../events/pod-event.ts";
import type { PodMemory } from "../pod/memory.ts";
import type { ActionRecord, ActionRecords, SuccessInput } from "./action-record.ts";

/** The hooks and the stop of containers. */
export type LifecycleAction = RunPostStart | RunPreStop | StopContainer;

/** Run the `postStart` hook of a container that has just started. */
interface RunPostStart {
  readonly kind: "runPostStart";
  readonly name: string;
  readonly id: ContainerId;
  readonly attempt: number;
}

/** Run the `preStop` hook of a container that cannot be stopped yet (a sidecar). It uses the pod's one grace period. */
interface RunPreStop {
  readonly kind: "runPreStop";
  readonly name: string;
  readonly id: ContainerId;
  readonly gracePeriodSeconds: number;
  /** The part of the grace period that is over. */
  readonly usedGraceSeconds?: number;
  readonly why: string;
  readonly isSandboxReplacement?: true;
}

interface StopContainer {
  readonly kind: "stopContainer";
  readonly name: string;
  readonly id: ContainerId;
  readonly gracePeriodSeconds: number;
  /** The part of the grace period that is over. */
  readonly usedGraceSeconds?: number;
  /** Run its `preStop` hook first, within the same grace period. */
  readonly preStop?: true;
  readonly why: string;
  /** The message of the `Killing` event, where it is not the default one. */
  readonly eventMessage?: string;
  /** The stop is part of a sandbox replacement: emit `SandboxChanged` first. */
  readonly isSandboxReplacement?: true;
}

const runPostStart: ActionRecord<RunPostStart> = {
  describe: ({ name, attempt }) => `run the postStart hook of container ${name} (attempt ${attempt})`,
  failureKey: ({ id }) => ({ of: "postStart", id }),
  actionClass: "background",
  failure: () => ({ reason: "PostStartHookError", hasOnlyThisReason: true, runtimeText: "rpc error" }),
  timingStep: ({ name }) => ({ what: "postStart", container: name }),
  eventsAtSuccess: (_action, { result }) => plainHttpEvents(result),
  eventsAtFailure: ({ name }) => [warning("FailedPostStartHook", "PostStartHook failed", name)],
  memoryWhenStarted: (memory, { id }) => ({
    ...memory,
    runningPostStartHooks: new Set([...memory.runningPostStartHooks, id]),
  }),
  memoryWhenEnded: (memory, { id }) => ({
    ...memory,
    runningPostStartHooks: new Set([...memory.runningPostStartHooks].filter((running) => running !== id)),
  }),
};

/** The same for the stop of a container and for its hook, if that runs ahead. */
const anyStop = {
  failureKey: ({ id }) => ({ of: "endOfContainer", id }),
  actionClass: "stop",
  failure: () => ({ reason: "KillContainerError", runtimeText: "rpc error" }),
  eventsAtStart: killingEvents,
  eventsAtSuccess: ({ name }, { result }) => [
    ...plainHttpEvents(result),
    ...(result.preStopFailure === undefined ? [] : [warning("FailedPreStopHook", "PreStopHook failed", name)]),
  ],
  eventsAtFailure: ({ name }, { reason, message }) => [killFailedEvent("KillContainer", name, reason, message)],
  isInProgress: ({ stopping }, { id }) => stopping.has(id),
  memoryWhenStarted: (memory, { id }) => withStopping(memory, [...memory.stopping, id]),
  memoryWhenEnded: (memory, { id }) =>
    withStopping(
      memory,
      [...memory.stopping].filter((stopping) => stopping !== id),
    ),
} satisfies Omit<ActionRecord<RunPreStop | StopContainer>, "describe">;

const runPreStop: ActionRecord<RunPreStop> = {
  ...anyStop,
  describe: ({ name, gracePeriodSeconds, why }) =>
    `run the preStop hook of container ${name} within ${gracePeriodSeconds}s: ${why}`,
  memoryWhenSucceeded: (memory, { id }) => ({ ...memory, preStopDone: new Set([...memory.preStopDone, id]) }),
};

const stopContainer: ActionRecord<StopContainer> = {
  ...anyStop,
  describe: ({ name, preStop, gracePeriodSeconds, why }) =>
    `stop container ${name}${preStop ? ", its preStop hook first," : ""} within ${gracePeriodSeconds}s: ${why}`,
};

export const lifecycleActions: ActionRecords<LifecycleAction> = { runPostStart, runPreStop, stopContainer };

function withStopping(memory: PodMemory, stopping: readonly ContainerId[]): PodMemory {
  return { ...memory, stopping: new Set(stopping) };
}

/** Recorded with the first action that stops a container: its hook, if that runs ahead, or the stop itself. */
function killingEvents(action: RunPreStop | StopContainer): readonly PodEvent[] {
  const { name, isSandboxReplacement } = action;
  const { eventMessage = `Stopping container ${name}` } = action.kind === "stopContainer" ? action : {};
  return [...(isSandboxReplacement ? sandboxChangedEvents() : []), normal("Killing", eventMessage, name)];
}

function plainHttpEvents({ plainHttpHost }: SuccessInput["result"]): readonly PodEvent[] {
  if (plainHttpHost === undefined) return [];
  const what = `request to HTTPS lifecycle hook ${plainHttpHost} got HTTP response, retry with HTTP succeeded`;
  return [warning("LifecycleHTTPFallback", what)];
}
