import { isSidecar } from "../../../proto/kubernetes/containers.ts";
import type { ContainerStatus, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { type Excuse, type ExcuseRule, explain, type Interruptions } from "./excuses.ts";
import { findCause, type HookFailure } from "./hook-failures.ts";
import type { Kill } from "./kills.ts";
import type { Kind, Notes, RandomPod } from "./random-workload.ts";

/** How a random pod compares with its expected outcome. */
export type Verdict = { readonly name: string; readonly kind: Kind } & (
  | { readonly outcome: "reached" }
  | { readonly outcome: "excused"; readonly rule: ExcuseRule; readonly sentence: string }
  | { readonly outcome: "deviates"; readonly sentence: string }
);

/** What the test knows of a pod after all faults are over. */
export interface Evidence {
  /** The pod in the API, if it exists. */
  readonly pod: Pod | undefined;
  readonly notes: Notes;
  /** The owners of all containers that run, with their number. */
  readonly runningInstances: ReadonlyMap<string, number>;
  readonly interruptions: Interruptions;
}

/** A deviation that nothing excuses, or what needs excuses; none if the outcome is reached. */
type Finding = string | readonly [Excuse, ...Excuse[]] | undefined;

/**
 * Compares a random pod with its expected outcome. The notes of the containers are the truth. A container without a note
 * of its end was interrupted by a kill: its pod must be Failed, and a kill must explain it. The same holds for a
 * container whose exit code the runtime has lost and reports as `Unknown`. A run of which the runtime does not know needs
 * a kill of the runtime during its start.
 */
export function judge({ name, kind }: RandomPod, evidence: Evidence): Verdict {
  const { pod, notes, runningInstances, interruptions } = evidence;
  const alive = [...runningInstances].filter(([of]) => of.startsWith(`${name} `)).map(([of, n]) => `${n} × ${of}`);
  const found = compare(kind, pod, notes, alive.length);
  if (found === undefined) return { name, kind, outcome: "reached" };
  const seen = `notes ${JSON.stringify(notes)}, running instances [${alive}], status ${summaryOf(pod)}`;
  const deviates = (deviation: string) =>
    ({ name, kind, outcome: "deviates", sentence: `${name}: ${deviation}; ${seen}` }) as const;
  if (typeof found === "string") return deviates(found);
  const sentences: string[] = [];
  let { kills } = interruptions;
  for (const excuse of found) {
    const explanation = explain(excuse, pod, { ...interruptions, kills });
    if ("unexplained" in explanation) return deviates(explanation.unexplained);
    // Each excuse needs a kill of its own.
    kills = kills.filter((kill) => !explanation.kills.includes(kill));
    sentences.push(`${excuse.rule} (${explanation.kills.map(describeKill).join(", ")})`);
  }
  const sentence = `${name}: ${sentences.join(", ")}; ${seen}`;
  return { name, kind, outcome: "excused", rule: found[0].rule, sentence };
}

const describeKill = ({ what, fromMs }: Kill) => `${what} killed at ${new Date(fromMs).toISOString().slice(11, -1)}`;

function compare(kind: Kind, pod: Pod | undefined, notes: Notes, alive: number): Finding {
  if (GONE.has(kind)) return pod !== undefined || alive > 0 ? "it is still there" : undefined;
  if (pod === undefined) return "it is gone";
  const main = pod.status?.containerStatuses?.[0];
  if (KEEP_RUNNING.has(kind)) {
    // A failed start also counts as a restart and leaves no note. A changed manifest resets the restart count.
    const surplusRuns = kind === "changed" ? 0 : countStarts(notes) - 1 - (main?.restartCount ?? 0);
    return withSecondRuns(main, surplusRuns, compareRunning(kind, pod, notes, alive));
  }
  if (kind === "retries") return compareCompleted(kind, pod, notes, alive);
  const runs = withoutUnfinishedRuns(notes, "main");
  const finding =
    kind === "restartall" ? compareRestartAll(pod, runs, alive) : compareCompleted(kind, pod, runs, alive);
  return withSecondRuns(main, notes.length - runs.length, finding);
}

/** Adds the excuse of a container that has run more often than the runtime and the status say. */
function withSecondRuns(container: ContainerStatus | undefined, surplusRuns: number, finding: Finding): Finding {
  if (surplusRuns <= 0 || typeof finding === "string") return finding;
  return [{ rule: "ran twice", container, surplusRuns }, ...(finding ?? [])];
}

/** The notes without the beginnings of runs that noted nothing else before the container began again. */
function withoutUnfinishedRuns(notes: Notes, name: string): Notes {
  return notes.filter((line, at) => {
    const next = notes.slice(at + 1).find((each) => each.startsWith(`${name} `));
    return line !== `${name} began` || next !== line;
  });
}

const GONE: ReadonlySet<Kind> = new Set(["deleted", "forced", "removed"]);
const KEEP_RUNNING: ReadonlySet<Kind> = new Set([
  "stays",
  "pulled",
  "crashes",
  "readiness",
  "liveness",
  "debugged",
  "static",
  "changed",
]);

/** The kinds whose pods end, or whose ephemeral container does. */
const ENDS: ReadonlySet<Kind> = new Set([
  "once",
  "retries",
  "initialized",
  "sidecar",
  "poststart",
  "prestop",
  "restartall",
  "debugged",
]);

/** True if a pod of this kind reaches its outcome only by a container that notes its own end. */
export const notesItsEnd = (kind: Kind): boolean => ENDS.has(kind);

/** The kinds in the API whose main container has no reason to be restarted once it runs. */
const RUN_ON: ReadonlySet<Kind> = new Set(["stays", "pulled", "readiness", "debugged"]);

/** True if a pod of this kind runs its main container once, whatever is killed after the start. */
export const runsOn = (kind: Kind): boolean => RUN_ON.has(kind);

const countStarts = (notes: Notes, name = "main") => notes.filter((line) => line === `${name} began`).length;
const isTrue = (pod: Pod, type: string) =>
  pod.status?.conditions?.find((condition) => condition.type === type)?.status === "True";

function compareRunning(kind: Kind, pod: Pod, notes: Notes, alive: number): Finding {
  const main = pod.status?.containerStatuses?.[0];
  const restarts = main?.restartCount ?? 0;
  if (kind === "crashes") {
    if (pod.status?.phase !== "Running" || alive > 1 || countStarts(notes) < 2) return "it is not in a crash loop";
    const isInLoop = main?.state?.running !== undefined || main?.state?.waiting?.reason === "CrashLoopBackOff";
    return isInLoop && main.lastState?.terminated !== undefined ? undefined : "its status shows no crash loop";
  }
  if (pod.status?.phase !== "Running" || !main?.ready || alive !== 1) return "it does not run exactly once";
  if (!isTrue(pod, "Ready") || !isTrue(pod, "ContainersReady")) return "its Ready conditions are not True";
  if (kind === "changed") return notes.at(-1) === "main changed" ? undefined : "it does not run the changed manifest";
  if (kind === "debugged") return compareEphemeral(pod, notes);
  return kind === "liveness" && restarts === 0 ? "it was not restarted" : undefined;
}

/** Checks that the ephemeral container ran once and has ended. */
function compareEphemeral(pod: Pod, notes: Notes): Finding {
  const ephemeral = pod.status?.ephemeralContainerStatuses?.[0];
  if (ephemeral?.state?.terminated === undefined) return "its ephemeral container has not ended";
  const runs = withoutUnfinishedRuns(notes, "debug");
  if (countStarts(runs, "debug") > 1) return "its ephemeral container ran twice";
  const finding = compareExitCode(ephemeral, notedExitCode(runs, "debug"), countStarts(runs, "debug") > 0);
  return withSecondRuns(ephemeral, notes.length - runs.length, finding);
}

/** Checks that RestartAllContainers restarted all containers once, in their order, and that the pod then succeeded. */
function compareRestartAll(pod: Pod, notes: Notes, alive: number): Finding {
  if (alive > 0) return "it runs but should have ended";
  const main = pod.status?.containerStatuses?.[0];
  if (countStarts(notes) > 2) return "its containers were restarted twice";
  const early = notes.findIndex((line, at) => {
    const before = notes.slice(0, at);
    const initialized = before.filter((each) => each === "first ended 0").length;
    return line === "main began" && initialized <= countStarts(before);
  });
  if (early >= 0) return "it started before its init containers had completed";
  if (main?.state?.terminated?.exitCode === 88) return "its containers were not restarted";
  // An interrupted start leaves no note: then 88 is the exit code of the instance before it.
  const noted = notedExitCode(notes.slice(notes.lastIndexOf("main began")), "main");
  const code = noted === "88" ? undefined : noted;
  const expected = code === "0" && !isLost(main) ? "Succeeded" : "Failed";
  if (pod.status?.phase !== expected) return `its phase should be ${expected}`;
  const isInterrupted = notes.findLast((line) => line.startsWith("main ")) === "main began";
  return compareExitCode(failedContainer(pod), code, isInterrupted);
}

/** The last exit code that a container has noted. */
const notedExitCode = (notes: Notes, name: string): string | undefined =>
  notes
    .findLast((line) => line.startsWith(`${name} ended`))
    ?.split(" ")
    .at(-1);

/** True if the runtime has lost the exit code of a container that ran while it was away. */
function isLost(status: ContainerStatus | undefined): boolean {
  const { exitCode, reason } = status?.state?.terminated ?? {};
  return reason === "Unknown" && exitCode === 255;
}

/** Compares the reported exit code with the noted one. A container without a note must not be reported with 0. */
function compareExitCode(
  container: ContainerStatus | undefined,
  noted: string | undefined,
  hasStarted: boolean,
): Finding {
  if (noted !== undefined && isLost(container)) return [{ rule: "exit code lost", container }];
  const reported = container?.state?.terminated?.exitCode;
  if (noted !== undefined) return String(reported) === noted ? undefined : `its exit code should be ${noted}`;
  if (reported === 0) return "it is reported with exit code 0 without a note";
  return [{ rule: hasStarted ? "interrupted" : "never began", container }];
}

/**
 * The main container if it has ended, else the init container that has failed, which no sidecar does: it is stopped.
 * `ContainerStatusUnknown` is the reason of a container that did not exist when its pod failed.
 */
function failedContainer({ spec, status }: Pod): ContainerStatus | undefined {
  const main = status?.containerStatuses?.[0];
  const sidecars = new Set((spec.initContainers ?? []).filter(isSidecar).map(({ name }) => name));
  const hasFailed = ({ name, state }: ContainerStatus) =>
    !sidecars.has(name) && (state?.terminated?.exitCode ?? 0) !== 0;
  const { terminated } = main?.state ?? {};
  if (terminated !== undefined && terminated.reason !== "ContainerStatusUnknown") return main;
  return status?.initContainerStatuses?.find(hasFailed) ?? main;
}

function compareCompleted(kind: Kind, pod: Pod, notes: Notes, alive: number): Finding {
  if (alive > 0) return "it runs but should have ended";
  const main = pod.status?.containerStatuses?.[0];
  const { phase } = pod.status ?? {};
  const code = notedExitCode(notes, "main");
  if (isTrue(pod, "Ready") || main?.ready) return "it is reported as ready";
  if (kind === "retries")
    return phase === "Succeeded" && code === "0" && !isLost(main) ? undefined : "it has not succeeded";
  if (countStarts(notes) > 1) return "its work ran twice";
  if (countStarts(notes) === 1 && kind === "initialized" && !notes.includes("second ended 0"))
    return "it started before its init containers had completed";
  const expected = code === "0" && kind !== "prestop" && !isLost(main) ? "Succeeded" : "Failed";
  if (phase !== expected) return `its phase should be ${expected}`;
  if (notes.includes("main drained") && pod.status?.reason !== "DeadlineExceeded")
    return "its reason is not DeadlineExceeded";
  if (phase === "Succeeded" && kind === "initialized" && !pod.status?.initContainerStatuses?.every(hasSucceeded))
    return "its init containers are not reported as completed";
  return compareExitCode(failedContainer(pod), code, countStarts(notes) > 0);
}

/**
 * Returns the pods that ended at their deadline while they ran and whose `preStop` hook neither ran, by their notes,
 * nor failed, by the agent's log, while the runtime was away. `notes` are by pod name.
 */
export function podsWithoutPreStop(
  pods: readonly Pod[],
  notes: ReadonlyMap<string, Notes>,
  hookFailures: readonly HookFailure[],
  kills: readonly Kill[],
): readonly string[] {
  const failed = hookFailures.filter((each) => each.what === "preStop" && findCause(each, kills) !== undefined);
  return pods
    .filter(({ spec }) => spec.containers[0]?.lifecycle?.preStop)
    .filter(hasReachedDeadline)
    .map(({ metadata }) => metadata.name ?? "")
    .filter((name) => notes.get(name)?.includes("main began") && !notes.get(name)?.includes("main drained"))
    .filter((name) => !failed.some(({ pod }) => pod === `default/${name}`));
}

/** False for a pod whose container a fault killed before the deadline: it was not stopped. */
function hasReachedDeadline({ spec, status }: Pod): boolean {
  const { reason, startTime, containerStatuses } = status ?? {};
  const finishedAt = containerStatuses?.[0]?.state?.terminated?.finishedAt;
  if (reason !== "DeadlineExceeded" || !startTime || !finishedAt) return false;
  return Date.parse(finishedAt) >= Date.parse(startTime) + (spec.activeDeadlineSeconds ?? 0) * 1000;
}

const hasSucceeded = ({ state }: ContainerStatus) => state?.terminated?.exitCode === 0;

function summaryOf(pod: Pod | undefined): string {
  const describeContainer = ({ name, state, restartCount }: ContainerStatus) =>
    `${name} #${restartCount} ${JSON.stringify(state)}`;
  const { phase = "gone", reason = "", initContainerStatuses = [], containerStatuses = [] } = pod?.status ?? {};
  const containers = [...initContainerStatuses, ...containerStatuses].map(describeContainer);
  return `${phase} ${reason} ${containers.join(", ")}`;
}
