import type { ContainerStatus, Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { RuntimeCall, RuntimeCalls, UnfinishedCall } from "../runtime-calls.ts";
import { type HookFailure, isCausedByKill } from "./hook-failures.ts";
import type { Kill } from "./kills.ts";

/** Why a container may have ended without the expected outcome: the agent or the runtime was killed in its midst. */
export type ExcuseRule = "never began" | "interrupted" | "exit code lost";

/** An outcome that is right only after a kill. */
export interface Excuse {
  readonly rule: ExcuseRule;
  /** The container that has failed; none if the pod has failed without it. */
  readonly container: ContainerStatus | undefined;
}

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

/** Returns why no kill explains an excuse of the pod, or undefined. */
export function findUnexplained(
  { rule, container }: Excuse,
  pod: Pod | undefined,
  interruptions: Interruptions,
): string | undefined {
  const podReason = pod?.status?.reason;
  if (podReason !== undefined && podReason !== "DeadlineExceeded") return `its pod has failed with ${podReason}`;
  const terminated = container?.state?.terminated;
  if (container === undefined || terminated === undefined) return "its pod has failed without a container";
  const { exitCode, startedAt, reason } = terminated;
  // After an interrupted start, the code may be that of runc's init process: then containerd reports no time of start.
  const hasNeverStarted = Date.parse(startedAt ?? "") === 0;
  if (!hasNeverStarted && !CODES_OF_KILLS.has(exitCode)) return `no kill causes its exit code ${exitCode}`;
  const isExplained =
    rule === "exit code lost"
      ? endedWhileRuntimeWasAway(terminated.finishedAt, interruptions.kills)
      : wasInterrupted(container, pod, interruptions, canBeAgent(exitCode, reason));
  return isExplained ? undefined : `no kill explains that it ${SENTENCES[rule]}`;
}

/** A kill of the agent cancels the start of a container. It ends no container that runs, and loses no exit code. */
const canBeAgent = (exitCode: number, reason: string | undefined) =>
  exitCode !== 255 && (exitCode !== 137 || reason === "ContainerStatusUnknown");

/** True if a call for the container or its pod was in flight at a kill, or if the kill interrupted its hook. */
function wasInterrupted(
  container: ContainerStatus,
  pod: Pod | undefined,
  { kills, calls, hookFailures }: Interruptions,
  mayBeAgent: boolean,
): boolean {
  const finishedMs = Date.parse(container.state?.terminated?.finishedAt ?? "");
  const earlier = kills.filter(({ fromMs }) => !(fromMs > finishedMs + PRECISION_MS));
  const own = (call: RuntimeCall) => isFor(call, container, pod);
  const atRuntime = calls.interrupted.filter(own);
  const atAgent = calls.failed.filter((call) => call.class === "start").filter(own);
  const meets = (kill: Kill) =>
    kill.what === "runtime"
      ? atRuntime.some((call) => isInFlightAt(kill, call) && call.untilMs <= kill.untilMs)
      : mayBeAgent && atAgent.some((call) => isInFlightAt(kill, call));
  if (earlier.some(meets)) return true;
  return hookFailures
    .filter((failure) => failure.pod === `${pod?.metadata.namespace ?? "default"}/${pod?.metadata.name}`)
    .some((failure) => isCausedByKill(failure, earlier));
}

const isInFlightAt = ({ fromMs }: Kill, call: UnfinishedCall) =>
  call.fromMs <= fromMs + DEATH_MS && call.untilMs >= fromMs;

/** True for a call for this instance of the container, or for its pod as a whole. */
function isFor(call: RuntimeCall, { name, containerID = "" }: ContainerStatus, pod: Pod | undefined): boolean {
  if (call.podUid === undefined || call.podUid !== pod?.metadata.uid) return false;
  if (call.container !== undefined && call.container !== name) return false;
  return call.containerId === undefined || containerID === "" || containerID.endsWith(call.containerId);
}

const endedWhileRuntimeWasAway = (finishedAt: string | undefined, kills: readonly Kill[]) => {
  const finishedMs = Date.parse(finishedAt ?? "");
  return kills.some(
    ({ what, fromMs, untilMs }) =>
      what === "runtime" && fromMs - PRECISION_MS <= finishedMs && finishedMs <= untilMs + PRECISION_MS,
  );
};

const SENTENCES = {
  "never began": "never began",
  interrupted: "was interrupted",
  "exit code lost": "lost its exit code",
} as const satisfies Record<ExcuseRule, string>;
