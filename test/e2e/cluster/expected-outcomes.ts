import type { ContainerStatus, Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { Kind, Notes, RandomLife } from "./random-workload.ts";

/**
 * What is wrong with a life now that all is calm, in a sentence; undefined: nothing. What a container has noted is the truth. One that
 * could not note its end was ended from outside, by the death of what it depends on: its pod counts as failed. So does one whose end the
 * runtime has forgotten together with its own life, and calls `Unknown`.
 */
export function whatIsWrong(
  { name, kind }: RandomLife,
  pod: Pod | undefined,
  notes: Notes,
  living: ReadonlyMap<string, number>,
): string | undefined {
  const alive = [...living].filter(([of]) => of.startsWith(`${name} `)).map(([of, n]) => `${n} × ${of}`);
  const wrong = wrongOf(kind, pod, notes, alive.length);
  return (
    wrong &&
    `${name}: ${wrong}; it noted ${JSON.stringify(notes)}, lives as [${alive}], and is shown as ${summaryOf(pod)}`
  );
}

function wrongOf(kind: Kind, pod: Pod | undefined, notes: Notes, alive: number): string | undefined {
  if (GONE.has(kind)) return pod !== undefined || alive > 0 ? "it is still there" : undefined;
  if (pod === undefined) return "it is gone";
  if (kind === "renewed") return wrongOfRenewed(pod, notes, alive);
  return LASTING.has(kind) ? wrongOfLasting(kind, pod, notes, alive) : wrongOfEnding(kind, pod, notes, alive);
}

const GONE: ReadonlySet<Kind> = new Set(["deleted", "forced", "withdrawn"]);
const LASTING: ReadonlySet<Kind> = new Set(["stays", "crashes", "warms", "restarts", "looked", "static", "rewritten"]);

const begun = (notes: Notes, name = "main") => notes.filter((line) => line === `${name} began`).length;
const isTrue = (pod: Pod, type: string) =>
  pod.status?.conditions?.find((condition) => condition.type === type)?.status === "True";

function wrongOfLasting(kind: Kind, pod: Pod, notes: Notes, alive: number): string | undefined {
  const main = pod.status?.containerStatuses?.[0];
  const restarts = main?.restartCount ?? 0;
  // An instance that could not be started counts too, and notes nothing. A manifest that has changed begins to count anew.
  if (kind !== "rewritten" && restarts < begun(notes) - 1) return `it began ${begun(notes)} times`;
  if (kind === "crashes") {
    if (pod.status?.phase !== "Running" || alive > 1 || begun(notes) < 2) return "it is not in its loop";
    const isInLoop = main?.state?.running !== undefined || main?.state?.waiting?.reason === "CrashLoopBackOff";
    return isInLoop && main.lastState?.terminated !== undefined ? undefined : "it is not shown as in its loop";
  }
  if (pod.status?.phase !== "Running" || !main?.ready || alive !== 1) return "it does not run once";
  if (!isTrue(pod, "Ready") || !isTrue(pod, "ContainersReady")) return "its conditions do not say that it is ready";
  if (kind === "rewritten")
    return notes.at(-1) === "main changed" ? undefined : "it is not the one of the new manifest";
  if (kind === "looked") return wrongOfLook(pod, notes);
  return kind === "restarts" && restarts === 0 ? "it was not restarted" : undefined;
}

/** An ephemeral container runs once, to its end. */
function wrongOfLook(pod: Pod, notes: Notes): string | undefined {
  const look = pod.status?.ephemeralContainerStatuses?.[0];
  if (begun(notes, "look") > 1) return "it was looked into twice";
  if (look?.state?.terminated === undefined) return "who looks into it has not ended";
  return wrongCode(look, codeOf(look, notes, "look"));
}

/** All of it begins anew once, in its order, and comes to its success then. */
function wrongOfRenewed(pod: Pod, notes: Notes, alive: number): string | undefined {
  if (alive > 0) return "it runs, and should have ended";
  const main = pod.status?.containerStatuses?.[0];
  if (begun(notes) > 2) return "it began anew twice";
  const early = notes.findIndex((line, at) => {
    const before = notes.slice(0, at);
    const initialized = before.filter((each) => each === "first ended 0").length;
    return line === "main began" && initialized <= begun(before);
  });
  if (early >= 0) return "it began before it was initialized";
  if (main?.state?.terminated?.exitCode === 88) return "it was not begun anew";
  const noted = codeOf(main, notes.slice(notes.lastIndexOf("main began")), "main");
  // Of an instance whose start was cut short nothing is noted: that end is the one before it.
  const code = noted === "88" ? undefined : noted;
  const expected = code === "0" ? "Succeeded" : "Failed";
  return pod.status?.phase === expected ? wrongCode(main, code) : `it should be ${expected}`;
}

/** What a container has noted of its end, where the runtime has not forgotten it; undefined where it could not. */
function codeOf(status: ContainerStatus | undefined, notes: Notes, name: string): string | undefined {
  const { exitCode, reason } = status?.state?.terminated ?? {};
  if (reason === "Unknown" && exitCode === 255) return "255";
  return notes
    .findLast((line) => line.startsWith(`${name} ended`))
    ?.split(" ")
    .at(-1);
}

/** Whoever could not note its end has not succeeded. */
function wrongCode(status: ContainerStatus | undefined, code: string | undefined): string | undefined {
  const told = String(status?.state?.terminated?.exitCode);
  if (code === undefined) return told === "0" ? "its end is nobody's" : undefined;
  return told === code ? undefined : `it should have ended with ${code}`;
}

function wrongOfEnding(kind: Kind, pod: Pod, notes: Notes, alive: number): string | undefined {
  if (alive > 0) return "it runs, and should have ended";
  const main = pod.status?.containerStatuses?.[0];
  const { phase } = pod.status ?? {};
  const code = codeOf(main, notes, "main");
  if (isTrue(pod, "Ready") || main?.ready) return "it is called ready";
  if (kind === "tries") return phase === "Succeeded" && code === "0" ? undefined : "it has not come to its success";
  if (begun(notes) > 1) return "its work was done twice";
  if (begun(notes) === 1 && kind === "initialized" && !notes.includes("second ended 0"))
    return "it began before it was initialized";
  const expected = code === "0" && kind !== "drained" ? "Succeeded" : "Failed";
  if (phase !== expected) return `it should be ${expected}`;
  if (notes.includes("main drained") && pod.status?.reason !== "DeadlineExceeded")
    return "it does not say why it ended";
  if (phase === "Succeeded" && kind === "initialized" && !pod.status?.initContainerStatuses?.every(hasSucceeded))
    return "its init containers are not shown as done";
  return wrongCode(main, code);
}

/**
 * Of the lives that were ended for their deadline while they ran, those whose `preStop` hook has neither run nor been said to have failed, by
 * the agent's log. Their `notes` are by their names.
 */
export function withoutTheirHook(
  pods: readonly Pod[],
  notes: ReadonlyMap<string, Notes>,
  log: string,
): readonly string[] {
  const failed = log.split("\n").filter((line) => line.includes("the preStop hook has failed"));
  return pods
    .filter(({ spec }) => spec.containers[0]?.lifecycle?.preStop)
    .filter(hasLivedToItsDeadline)
    .map(({ metadata }) => metadata.name ?? "")
    .filter((name) => notes.get(name)?.includes("main began") && !notes.get(name)?.includes("main drained"))
    .filter((name) => !failed.some((line) => line.includes(`default/${name} `)));
}

/** What has died before, by the death of what it depends on, was not stopped. */
function hasLivedToItsDeadline({ spec, status }: Pod): boolean {
  const { reason, startTime, containerStatuses } = status ?? {};
  const finishedAt = containerStatuses?.[0]?.state?.terminated?.finishedAt;
  if (reason !== "DeadlineExceeded" || !startTime || !finishedAt) return false;
  return Date.parse(finishedAt) >= Date.parse(startTime) + (spec.activeDeadlineSeconds ?? 0) * 1000;
}

const hasSucceeded = ({ state }: ContainerStatus) => state?.terminated?.exitCode === 0;

function summaryOf(pod: Pod | undefined): string {
  const words = ({ name, state, restartCount }: ContainerStatus) => `${name} #${restartCount} ${JSON.stringify(state)}`;
  return `${pod?.status?.phase ?? "gone"} ${(pod?.status?.containerStatuses ?? []).map(words).join(", ")}`;
}
