import { isDeepStrictEqual } from "node:util";
import type { Clock } from "../../../host/clock.ts";
import type { Log } from "../../../host/log.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import type { Unwell } from "../../decide/container/probe.ts";
import { longPullEvent, type PodEvent } from "../../decide/events/pod-events.ts";
import { formatGoDuration } from "../../decide/go-duration.ts";
import { type Action, describe, subjectOf } from "../../decide/pod/action.ts";
import type { Beginning, Taken } from "../../decide/pod/action-call.ts";
import { type DesiredPod, fullNameOf } from "../../decide/pod/desired.ts";
import type { Obstacle } from "../../decide/pod/plan.ts";
import type { StageKind } from "../../decide/pod/stage.ts";
import type { Step } from "../../decide/pod/start-timing.ts";
import { createUnwellContainers } from "../unwell.ts";
import { createPullsUnderWay, type PullUnderWay } from "./active-pulls.ts";
import { createListeners } from "./subscribers.ts";

/** What the agent says of a pod: its status, and how long each step of its latest start took. */
export interface PodReport {
  readonly pod: Pod;
  readonly status: PodStatus;
  readonly stage: StageKind;
  /** Somebody took the pod away; false for one that comes to its end by itself. */
  readonly isTakenAway: boolean;
  readonly steps: readonly Step[];
  /** What keeps the pod, or something of it, from ending. */
  readonly obstacle: Obstacle | undefined;
  /** The pulls that it waits for now. */
  readonly pulls: readonly PullUnderWay[];
  /** What probes have said last of those containers that were not as they should be. */
  readonly unwell: readonly Unwell[];
}

export interface PodStoriesSettings {
  readonly log: Log;
  readonly clock: Clock;
  /** For what is to be told of a pod, `namespace/name`, besides what is done to it. */
  readonly tellOfPod: (uid: PodUid, pod: string, event: PodEvent) => void;
}

export interface PodStories {
  report(uid: PodUid, desired: DesiredPod, status: PodStatus, stage: StageKind, obstacle?: Obstacle): void;
  /** A probe of a pod, `namespace/name`, was not answered as it should be. */
  unwell(uid: PodUid, pod: string, event: PodEvent, said: Unwell): void;
  begins(beginning: Beginning): void;
  took(taken: Taken): void;
  finished(uid: PodUid): void;
  /** Sorted by namespace and name. */
  all(): readonly PodReport[];
  /** Calls back after anything has changed; the function it returns ends that. */
  subscribe(changed: () => void): () => void;
}

interface Story {
  readonly uid: PodUid;
  desired: DesiredPod | undefined;
  status: PodStatus | undefined;
  stage: StageKind;
  obstacle: Obstacle | undefined;
  readonly steps: Map<string, Step>;
}

/** Keeps the latest word on each pod, and tells the log what was done to it, one sentence an action. */
export function createPodStories({ log, clock, tellOfPod }: PodStoriesSettings): PodStories {
  const stories = new Map<PodUid, Story>();
  const { tell, subscribe } = createListeners();
  const failures = createToldFailures();
  const unwell = createUnwellContainers();
  const pulls = createPullsUnderWay({
    clock,
    long({ uid, pod }, { image, attempt }, lastedMs) {
      const fields = { ...(pod === "" ? {} : { pod }), uid, image, attempt };
      log.info(fields, `an image is still being pulled after ${formatGoDuration(lastedMs)}`);
      tellOfPod(uid, pod, longPullEvent(stories.get(uid)?.desired?.pod, image, lastedMs));
    },
  });

  function storyOf(uid: PodUid): Story {
    const known = stories.get(uid);
    if (known !== undefined) return known;
    const story = emptyStory(uid);
    stories.set(uid, story);
    return story;
  }

  return {
    report(uid, desired, status, stage, obstacle) {
      const story = storyOf(uid);
      const isNew = story.stage !== stage || !isDeepStrictEqual([story.status, story.obstacle], [status, obstacle]);
      if (isNew) tellPhase(log, story, desired, status);
      Object.assign(story, { desired, status, stage, obstacle });
      if (isNew) tell();
    },
    unwell(uid, pod, event, said) {
      tellOfPod(uid, pod, event);
      if (unwell.heard(uid, said, stories.get(uid)?.status)) tell();
    },
    begins: pulls.begins,
    took(taken) {
      pulls.took(taken);
      tellTaken(log, failures, taken);
      const { uid, action, startedAt, endedAt, result } = taken;
      const story = stories.get(uid);
      if (story !== undefined && typeof result !== "string" && result.ok) keepStep(story, action, endedAt - startedAt);
    },
    finished(uid) {
      failures.forget(uid);
      pulls.finished(uid);
      unwell.finished(uid);
      const story = stories.get(uid);
      if (!stories.delete(uid) || story?.desired === undefined) return;
      log.info(whose(story), "the pod is gone");
      tell();
    },
    all: () =>
      [...stories.values()]
        .flatMap(({ uid, desired, status, stage, obstacle, steps }) =>
          desired === undefined || status === undefined
            ? []
            : [
                {
                  pod: desired.pod,
                  status,
                  stage,
                  isTakenAway: desired.termination !== undefined,
                  steps: [...steps.values()],
                  obstacle,
                  pulls: pulls.of(uid),
                  unwell: unwell.of(uid, status),
                },
              ],
        )
        .toSorted((a, b) => (fullNameOf(a.pod) < fullNameOf(b.pod) ? -1 : 1)),
    subscribe,
  };
}

function emptyStory(uid: PodUid): Story {
  return {
    uid,
    desired: undefined,
    status: undefined,
    stage: "syncing",
    obstacle: undefined,
    steps: new Map(),
  };
}

/** One sentence for what was done, and how it went. */
function tellTaken(log: Log, failures: ReturnType<typeof createToldFailures>, taken: Taken): void {
  const { uid, pod, action, startedAt, endedAt, result } = taken;
  const fields = { ...(pod === "" ? {} : { pod }), uid, ms: Math.round(endedAt - startedAt) };
  const sentence = describe(action);
  const isNews = typeof result !== "string" && failures.isNews(uid, action, result);
  if (result === "given up") log.debug(fields, `given up: ${sentence}`);
  else if (result.ok) log.info(fields, sentence);
  else if (result.isOutage) log.debug(fields, `waits for the container runtime: ${sentence}`);
  else {
    // It may be tried again every few seconds for days: that it fails in the same way again is no warning.
    const level = isNews ? "warn" : "debug";
    log[level]({ ...fields, reason: result.reason }, `failed to ${sentence}: ${result.message}`);
  }
  if (typeof result !== "string" && result.ok && result.hookFailure !== undefined)
    log.warn(fields, `the preStop hook has failed: ${result.hookFailure}`);
}

/** The failures that were told and not followed by a success, pod by pod; also of pods that nobody wants, which have no story. */
function createToldFailures() {
  const pods = new Map<PodUid, Map<string, string>>();
  return {
    /** True when the action has not failed in this way before, or not since it last succeeded. */
    isNews(uid: PodUid, action: Action, result: Exclude<Taken["result"], string>): boolean {
      const key = `${action.kind} ${subjectOf(action)}`;
      const told = pods.get(uid) ?? new Map<string, string>();
      if (result.ok) told.delete(key);
      if (result.ok || result.isOutage || told.get(key) === result.message) return false;
      pods.set(uid, told.set(key, result.message));
      return true;
    },
    forget: (uid: PodUid) => pods.delete(uid),
  };
}

/**
 * A pod's phase and its end are worth a line of their own; everything else is told by the actions, and so is the end of a pod that was
 * taken away: that its containers exit as they were told to is no failure.
 */
function tellPhase(log: Log, story: Story, desired: DesiredPod, status: PodStatus): void {
  if (desired.termination !== undefined) return;
  if (story.status?.phase === status.phase || (story.status === undefined && status.phase === "Pending")) return;
  const { reason, message } = status;
  const why = message === undefined ? "" : `: ${message}`;
  const fields = { pod: fullNameOf(desired.pod), uid: story.uid, ...(reason === undefined ? {} : { reason }) };
  if (status.phase === "Failed") log.warn(fields, `the pod has failed${why}`);
  else log.info(fields, `the pod is ${status.phase}${why}`);
}

function whose({ uid, desired }: Story): Readonly<Record<string, unknown>> {
  return { ...(desired === undefined ? {} : { pod: fullNameOf(desired.pod) }), uid };
}

/** The steps are those of the latest start: a new sandbox begins them anew, a restart replaces its container's. */
function keepStep({ steps }: Story, action: Action, ms: number): void {
  const step = stepOf(action, ms);
  if (step === undefined) return;
  if (step.what === "sandbox")
    for (const [key, { what }] of steps) if (what !== "volumes" && what !== "pull") steps.delete(key);
  steps.set(`${step.what} ${step.container ?? ""}`, step);
}

function stepOf(action: Action, ms: number): Step | undefined {
  switch (action.kind) {
    case "prepareVolumes":
      return { what: "volumes", ms };
    case "pullImage":
      return { what: "pull", ms };
    case "runSandbox":
      return { what: "sandbox", ms };
    case "createContainer":
      return { what: "create", container: action.name, ms };
    case "startContainer":
      return { what: "start", container: action.name, ms };
    case "runHook":
      return { what: "postStart", container: action.name, ms };
    case "runPreStop":
    case "stopContainer":
    case "removeContainer":
    case "stopSandbox":
    case "removeSandbox":
    case "removeVolumes":
    case "releaseIds":
    case "removePodFiles":
      return undefined;
  }
}
