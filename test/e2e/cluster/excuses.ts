import type { ContainerStatus, Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { RuntimeCall, RuntimeCalls, UnfinishedCall } from "../runtime-calls.ts";
import { findCause, type HookFailure } from "./hook-failures.ts";
import type { Kill } from "./kills.ts";

/** Why a container may deviate from the expected outcome: the agent or the runtime was killed in its midst. */
export type ExcuseRule = "never began" | "interrupted" | "exit code lost" | "ran twice";

/** An outcome that is right only after a kill. */
export interface Excuse {
  readonly rule: ExcuseRule;
  /** The container that has failed or has run twice; none if the pod has failed without it. */
  readonly container: ContainerStatus | undefined;
  /** How many runs are too many, for `ran twice`. */
  readonly surplusRuns?: number;
}

/** The kills that explain an excuse, or why none does. */
export type Explanation = { readonly kills: readonly Kill[] } | { readonly unexplained: string };

/** What was killed, and what this has interrupted. */
export interface Interruptions {
  readonly kills: readonly Kill[];
  readonly calls: Pick<RuntimeCalls, "interrupted" | "failed">;
  readonly hookFailures: readonly HookFailure[];
}

/** By the runtime 128 (not started) and 255 (lost), by SIGKILL 137. A container itself ends with 0, 1, 3, 4 or 88. */
const CODES_OF_KILLS: ReadonlySet<number> = new Set([128, 137, 255]);
/** A status has times in whole seconds. */
const PRECISION_MS = 1_000;
/** An agent may send a call while it is being killed. */
const DEATH_MS = 1_000;

/** Finds the kills that explain an excuse of the pod. */
export function explain(excuse: Excuse, pod: Pod | undefined, interruptions: Interruptions): Explanation {
  const { rule, container } = excuse;
  const podReason = pod?.status?.reason;
  if (podReason !== undefined && podReason !== "DeadlineExceeded")
    return { unexplained: `its pod has failed with ${podReason}` };
  if (rule === "ran twice") return explainSecondRun(excuse, pod, interruptions);
  const terminated = container?.state?.terminated;
  if (container === undefined || terminated === undefined)
    return { unexplained: "its pod has failed without a container" };
  const { exitCode, startedAt, reason } = terminated;
  // After an interrupted start, the code may be that of runc's init process: then containerd reports no time of start.
  const hasNeverStarted = Date.parse(startedAt ?? "") === 0;
  if (!hasNeverStarted && !CODES_OF_KILLS.has(exitCode))
    return { unexplained: `no kill causes its exit code ${exitCode}` };
  const kill =
    rule === "exit code lost"
      ? findKillAtEnd(terminated.finishedAt, interruptions.kills)
      : findInterruption(container, pod, interruptions, canBeAgent(exitCode, reason));
  return kill === undefined ? { unexplained: `no kill explains that it ${SENTENCES[rule]}` } : { kills: [kill] };
}

/** A kill of the agent cancels the start of a container. It ends no container that runs, and loses no exit code. */
const canBeAgent = (exitCode: number, reason: string | undefined) =>
  exitCode !== 255 && (exitCode !== 137 || reason === "ContainerStatusUnknown");

/**
 * Finds a kill for each surplus run of a container: one of the runtime, during a StartContainer of this container.
 *
 *   1. runc's init process becomes the container's, which begins its work
 *   2. containerd is killed; with its connection ends the shim's `runc start`, so that the shim does not see 1
 *   3. the next containerd takes the task for created but never started, kills it, and reports CONTAINER_CREATED
 *
 * The runtime shows no difference to a container that has never run, so it is started (by the kubelet: created) again.
 * Of a container that was restarted, it may have been an earlier instance.
 */
function explainSecondRun(
  { container, surplusRuns = 1 }: Excuse,
  pod: Pod | undefined,
  { kills, calls }: Interruptions,
): Explanation {
  const instance = container && { ...container, ...(container.restartCount > 0 && { containerID: "" }) };
  const starts = calls.interrupted
    .filter((call) => instance !== undefined && call.container !== undefined && isFor(call, instance, pod))
    .filter(({ class: callClass, containerId }) => callClass === "start" && containerId !== undefined);
  const explaining = starts.flatMap((call) => kills.find((kill) => isCutBy(kill, call)) ?? []);
  return explaining.length < surplusRuns
    ? { unexplained: `no kill explains that it ${SENTENCES["ran twice"]}` }
    : { kills: explaining };
}

/**
 * Finds a kill at which the start or the stop of the container or its pod was in flight, or which interrupted its hook. What
 * was interrupted before a start has to be done again, and explains no failure.
 */
function findInterruption(
  container: ContainerStatus,
  pod: Pod | undefined,
  { kills, calls, hookFailures }: Interruptions,
  mayBeAgent: boolean,
): Kill | undefined {
  const finishedMs = Date.parse(container.state?.terminated?.finishedAt ?? "");
  const earlier = kills.filter(({ fromMs }) => !(fromMs > finishedMs + PRECISION_MS));
  const isStart = (call: RuntimeCall) => call.class === "start";
  const own = (call: RuntimeCall) => (isStart(call) || call.class === "stop") && isFor(call, container, pod);
  const atRuntime = calls.interrupted.filter(own);
  const atAgent = calls.failed.filter(isStart).filter(own);
  const meets = (kill: Kill) =>
    kill.what === "runtime"
      ? atRuntime.some((call) => isCutBy(kill, call))
      : mayBeAgent && atAgent.some((call) => isInFlightAt(kill, call));
  const ofHook = hookFailures.filter(
    (failure) => failure.pod === `${pod?.metadata.namespace ?? "default"}/${pod?.metadata.name}`,
  );
  return earlier.find(meets) ?? ofHook.map((failure) => findCause(failure, earlier)).find((kill) => kill !== undefined);
}

/** True if the call was in flight when this kill ended the runtime. */
const isCutBy = (kill: Kill, call: UnfinishedCall) =>
  kill.what === "runtime" && isInFlightAt(kill, call) && call.untilMs <= kill.untilMs;

const isInFlightAt = ({ fromMs }: Kill, call: UnfinishedCall) =>
  call.fromMs <= fromMs + DEATH_MS && call.untilMs >= fromMs;

/** True for a call for this instance of the container, or for its pod as a whole. */
function isFor(call: RuntimeCall, { name, containerID = "" }: ContainerStatus, pod: Pod | undefined): boolean {
  if (call.podUid === undefined || call.podUid !== pod?.metadata.uid) return false;
  if (call.container !== undefined && call.container !== name) return false;
  return call.containerId === undefined || containerID === "" || containerID.endsWith(call.containerId);
}

const findKillAtEnd = (finishedAt: string | undefined, kills: readonly Kill[]) => {
  const finishedMs = Date.parse(finishedAt ?? "");
  return kills.find(
    ({ what, fromMs, untilMs }) =>
      what === "runtime" && fromMs - PRECISION_MS <= finishedMs && finishedMs <= untilMs + PRECISION_MS,
  );
};

const SENTENCES = {
  "never began": "never began",
  interrupted: "was interrupted",
  "exit code lost": "lost its exit code",
  "ran twice": "ran twice",
} as const satisfies Record<ExcuseRule, string>;
