import type { ContainerStatus, Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { Kind, Notes, RandomPod } from "./random-workload.ts";

/**
 * Compares a random pod with its expected outcome, after all faults are over. Returns the deviation as a sentence, or
 * undefined. The notes of the containers are the truth. A container without a note of its end was killed by a fault:
 * its pod must be Failed. The same holds for a container whose exit code the runtime has lost and reports as `Unknown`.
 */
export function findDeviation(
  { name, kind }: RandomPod,
  pod: Pod | undefined,
  notes: Notes,
  runningInstances: ReadonlyMap<string, number>,
): string | undefined {
  const alive = [...runningInstances].filter(([of]) => of.startsWith(`${name} `)).map(([of, n]) => `${n} × ${of}`);
  const deviation = deviationOf(kind, pod, notes, alive.length);
  return (
    deviation &&
    `${name}: ${deviation}; notes ${JSON.stringify(notes)}, running instances [${alive}], status ${summaryOf(pod)}`
  );
}

function deviationOf(kind: Kind, pod: Pod | undefined, notes: Notes, alive: number): string | undefined {
  if (GONE.has(kind)) return pod !== undefined || alive > 0 ? "it is still there" : undefined;
  if (pod === undefined) return "it is gone";
  if (kind === "restartall") return deviationOfRestartAll(pod, notes, alive);
  return KEEP_RUNNING.has(kind)
    ? deviationOfRunning(kind, pod, notes, alive)
    : deviationOfCompleted(kind, pod, notes, alive);
}

const GONE: ReadonlySet<Kind> = new Set(["deleted", "forced", "removed"]);
const KEEP_RUNNING: ReadonlySet<Kind> = new Set([
  "stays",
  "crashes",
  "readiness",
  "liveness",
  "debugged",
  "static",
  "changed",
]);

const countStarts = (notes: Notes, name = "main") => notes.filter((line) => line === `${name} began`).length;
const isTrue = (pod: Pod, type: string) =>
  pod.status?.conditions?.find((condition) => condition.type === type)?.status === "True";

function deviationOfRunning(kind: Kind, pod: Pod, notes: Notes, alive: number): string | undefined {
  const main = pod.status?.containerStatuses?.[0];
  const restarts = main?.restartCount ?? 0;
  // A failed start also counts as a restart and leaves no note. A changed manifest resets the restart count.
  if (kind !== "changed" && restarts < countStarts(notes) - 1) return `it started ${countStarts(notes)} times`;
  if (kind === "crashes") {
    if (pod.status?.phase !== "Running" || alive > 1 || countStarts(notes) < 2) return "it is not in a crash loop";
    const isInLoop = main?.state?.running !== undefined || main?.state?.waiting?.reason === "CrashLoopBackOff";
    return isInLoop && main.lastState?.terminated !== undefined ? undefined : "its status shows no crash loop";
  }
  if (pod.status?.phase !== "Running" || !main?.ready || alive !== 1) return "it does not run exactly once";
  if (!isTrue(pod, "Ready") || !isTrue(pod, "ContainersReady")) return "its Ready conditions are not True";
  if (kind === "changed") return notes.at(-1) === "main changed" ? undefined : "it does not run the changed manifest";
  if (kind === "debugged") return deviationOfEphemeral(pod, notes);
  return kind === "liveness" && restarts === 0 ? "it was not restarted" : undefined;
}

/** Checks that the ephemeral container ran once and has ended. */
function deviationOfEphemeral(pod: Pod, notes: Notes): string | undefined {
  const ephemeral = pod.status?.ephemeralContainerStatuses?.[0];
  if (countStarts(notes, "debug") > 1) return "its ephemeral container ran twice";
  if (ephemeral?.state?.terminated === undefined) return "its ephemeral container has not ended";
  return exitCodeDeviation(ephemeral, notedExitCode(ephemeral, notes, "debug"));
}

/** Checks that RestartAllContainers restarted all containers once, in their order, and that the pod then succeeded. */
function deviationOfRestartAll(pod: Pod, notes: Notes, alive: number): string | undefined {
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
  const noted = notedExitCode(main, notes.slice(notes.lastIndexOf("main began")), "main");
  // An interrupted start leaves no note: then 88 is the exit code of the instance before it.
  const code = noted === "88" ? undefined : noted;
  const expected = code === "0" ? "Succeeded" : "Failed";
  return pod.status?.phase === expected ? exitCodeDeviation(main, code) : `its phase should be ${expected}`;
}

/** The exit code that a container has noted; "255" if the runtime has lost it, undefined without a note. */
function notedExitCode(status: ContainerStatus | undefined, notes: Notes, name: string): string | undefined {
  const { exitCode, reason } = status?.state?.terminated ?? {};
  if (reason === "Unknown" && exitCode === 255) return "255";
  return notes
    .findLast((line) => line.startsWith(`${name} ended`))
    ?.split(" ")
    .at(-1);
}

/** Compares the reported exit code with the noted one. A container without a note must not be reported with 0. */
function exitCodeDeviation(status: ContainerStatus | undefined, code: string | undefined): string | undefined {
  const reportedCode = String(status?.state?.terminated?.exitCode);
  if (code === undefined) return reportedCode === "0" ? "it is reported with exit code 0 without a note" : undefined;
  return reportedCode === code ? undefined : `its exit code should be ${code}`;
}

function deviationOfCompleted(kind: Kind, pod: Pod, notes: Notes, alive: number): string | undefined {
  if (alive > 0) return "it runs but should have ended";
  const main = pod.status?.containerStatuses?.[0];
  const { phase } = pod.status ?? {};
  const code = notedExitCode(main, notes, "main");
  if (isTrue(pod, "Ready") || main?.ready) return "it is reported as ready";
  if (kind === "retries") return phase === "Succeeded" && code === "0" ? undefined : "it has not succeeded";
  if (countStarts(notes) > 1) return "its work ran twice";
  if (countStarts(notes) === 1 && kind === "initialized" && !notes.includes("second ended 0"))
    return "it started before its init containers had completed";
  const expected = code === "0" && kind !== "prestop" ? "Succeeded" : "Failed";
  if (phase !== expected) return `its phase should be ${expected}`;
  if (notes.includes("main drained") && pod.status?.reason !== "DeadlineExceeded")
    return "its reason is not DeadlineExceeded";
  if (phase === "Succeeded" && kind === "initialized" && !pod.status?.initContainerStatuses?.every(hasSucceeded))
    return "its init containers are not reported as completed";
  return exitCodeDeviation(main, code);
}

/**
 * Returns the pods that ended at their deadline while they ran and whose `preStop` hook neither ran, by their notes,
 * nor failed, by the agent's log. `notes` are by pod name.
 */
export function podsWithoutPreStop(
  pods: readonly Pod[],
  notes: ReadonlyMap<string, Notes>,
  log: string,
): readonly string[] {
  const failed = log.split("\n").filter((line) => line.includes("the preStop hook has failed"));
  return pods
    .filter(({ spec }) => spec.containers[0]?.lifecycle?.preStop)
    .filter(hasReachedDeadline)
    .map(({ metadata }) => metadata.name ?? "")
    .filter((name) => notes.get(name)?.includes("main began") && !notes.get(name)?.includes("main drained"))
    .filter((name) => !failed.some((line) => line.includes(`default/${name} `)));
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
  return `${pod?.status?.phase ?? "gone"} ${(pod?.status?.containerStatuses ?? []).map(describeContainer).join(", ")}`;
}
