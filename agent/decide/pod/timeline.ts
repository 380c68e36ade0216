import { type Action, describe, recordOf } from "./action.ts";
import type { ActionFinished } from "./action-call.ts";
import { retryTimeOf } from "./backoff.ts";

/**
 * What was done for a pod, and when: each step of its start once, with its latest result, and as it was in the first attempt of
 * its container or sandbox. In the order of the first tries.
 */
export type Timeline = ReadonlyMap<string, TimelineStep>;

/** Times are epoch milliseconds. If a container or a sandbox has several attempts, this is the step of the latest one. */
export interface TimelineStep {
  /** The sentence of the latest action. */
  readonly what: string;
  readonly container?: string;
  /** When it was tried first. */
  readonly firstAt: number;
  /** When it was tried last, and how long that took. */
  readonly at: number;
  readonly ms: number;
  /** How often it was tried. */
  readonly times: number;
  /** Set if the latest try has failed. */
  readonly failure?: StepFailure;
  /** The attempt of the container or sandbox that it creates or starts. */
  readonly attempt?: number;
  /** The step of the first attempt, if this is a later one. Those between are not kept. */
  readonly ofFirstAttempt?: Omit<TimelineStep, "ofFirstAttempt">;
}

export interface StepFailure {
  readonly reason: string;
  readonly message: string;
  /** How often in a row. */
  readonly times: number;
  /** When it may be tried again. */
  readonly retryAt: number;
}

/** Bounds what a pod with a hundred volumes costs. Most pods have about ten steps, of two hundred bytes each. */
const MAX_STEPS = 64;

/** Adds an action that has ended. A cancelled one, and the removal of something, is no step of a start. */
export function withAction(timeline: Timeline, { action, startedAt, endedAt, result }: ActionFinished): Timeline {
  const target = targetOf(action);
  if (target === undefined || result === "cancelled") return timeline;
  const before = timeline.get(target.key);
  if (before === undefined && timeline.size >= MAX_STEPS) return timeline;
  const times = (before?.failure?.times ?? 0) + 1;
  const failure = result.ok
    ? undefined
    : {
        reason: result.reason,
        message: result.message,
        times,
        retryAt: retryTimeOf(recordOf(action).failure(action).backoff, { at: endedAt, count: times }, endedAt),
      };
  const attempt = "attempt" in action ? action.attempt : undefined;
  const sameAttempt = before?.attempt === attempt ? before : undefined;
  const ofFirstAttempt = sameAttempt === undefined ? firstAttemptOf(before) : sameAttempt.ofFirstAttempt;
  const step: TimelineStep = {
    what: describe(action),
    ...(target.container !== undefined && { container: target.container }),
    firstAt: sameAttempt?.firstAt ?? startedAt,
    at: startedAt,
    ms: endedAt - startedAt,
    times: (sameAttempt?.times ?? 0) + 1,
    ...(failure && { failure }),
    ...(attempt !== undefined && { attempt }),
    ...(ofFirstAttempt && { ofFirstAttempt }),
  };
  return new Map(timeline).set(target.key, step);
}

function firstAttemptOf(step: TimelineStep | undefined): TimelineStep["ofFirstAttempt"] {
  return step?.ofFirstAttempt ?? step;
}

interface StepTarget {
  readonly key: string;
  readonly container?: string;
}

/** What an action is about, whatever its attempt; undefined for one that is no step of a start. */
function targetOf(action: Action): StepTarget | undefined {
  switch (action.kind) {
    case "makeResource": {
      const { resource } = action;
      return { key: `${resource.of} ${resource.of === "volume" ? resource.name : ""}` };
    }
    case "mountVolume":
      return { key: `volume ${action.name}` };
    case "runSandbox":
      return { key: "sandbox" };
    case "pullImage":
      return { key: `pull ${action.image}` };
    case "createContainer":
    case "startContainer":
    case "runPostStart":
    case "stopContainer":
      return { key: `${action.kind} ${action.name}`, container: action.name };
    case "updateVolume":
    case "writePodCgroup":
    case "removeResource":
    case "removeContainer":
    case "stopSandbox":
    case "removeSandbox":
    case "runPreStop":
    case "updateContainerResources":
    case "updatePodSandboxResources":
      return undefined;
  }
}
