import { basename } from "node:path/posix";
import type { PodListing, PodSummary } from "../agent/serve/local/pod-list.ts";
import { podState } from "../agent/serve/local/pod-state.ts";
import { escapeControlChars } from "../host/log/escape-control.ts";
import { ageOf } from "./age.ts";
import { type FittedTable, fitColumns } from "./columns.ts";
import { cutMiddle, hangingLines, hiddenNote } from "./terminal-text.ts";

const HEADER = ["NAMESPACE", "POD", "READY", "STATE", "RESTARTS", "IP", "AGE", "START (ms)"];

export interface PodTableOptions {
  readonly now?: number;
  /** Only the pods of this namespace are listed. */
  readonly namespace?: string | undefined;
  /** The width of the terminal; infinite for a file or a pipe. */
  readonly columns?: number;
  /** The command that shows this table, which a note repeats; `berth pods` by default. */
  readonly command?: string;
  /** What happens to a note that is longer than a line. */
  readonly longNotes?: "break" | "cut";
}

/** The longest state of a healthy pod: with room for it, the columns of a table that is updated stay the same. */
const USUAL_STATE = "ContainerCreating";

type RejectedManifest = NonNullable<PodListing["refused"]>[number];

/**
 * The text of `berth pods`: a table of the pods, then why pods are not ready, the rejected manifests and the runtime's
 * outage. Messages may come from a container, so control characters are escaped (CVE-2021-25743).
 */
export function formatPods({ pods, refused = [], runtime }: PodListing, options: PodTableOptions = {}): string {
  const { now = Date.now(), namespace, columns = Number.POSITIVE_INFINITY, longNotes = "break" } = options;
  const { command = "berth pods" } = options;
  const linesOf = (note: string) =>
    longNotes === "cut" ? [cutMiddle(note, columns)] : hangingLines("", note, columns);
  const isRuntimeUnavailable = runtime !== undefined && runtime.state !== "ready";
  const none = `no pods${isRuntimeUnavailable ? " are known yet" : ""}${namespace === undefined ? "" : ` in namespace ${namespace}`}`;
  const { lines, hidden } = pods.length > 0 ? tableOf(pods, now, columns) : { lines: [none], hidden: [] };
  const notes = [
    pods.flatMap((pod) => reasonLines(pod, now)),
    refused.map(rejectedLine),
    isRuntimeUnavailable ? [runtimeLine(runtime)] : [],
    hidden.length === 0 ? [] : [hiddenNote(hidden, columns, command)],
  ].map((block) => block.flatMap((note) => linesOf(escapeControlChars(note))));
  return `${[lines.map(escapeControlChars), ...notes]
    .filter((block) => block.length > 0)
    .map((block) => block.join("\n"))
    .join("\n\n")}\n`;
}

const LONG_PULL_MS = 60_000;

/**
 * Why a pod is not ready, and how long it waits for its images. The failure that keeps it from starting has the name by which
 * `berth status` counts it.
 */
function reasonLines(pod: PodSummary, now: number): readonly string[] {
  const { name, failure, reason, explanation, pulls = [] } = pod;
  const isBlocked = failure !== undefined && reason === "ContainerCreating" && pod.message !== "" && pulls.length === 0;
  const words = explanation === undefined ? pod.message : `${pod.message} (${explanation})`;
  const message = isBlocked ? `${failure}: ${words}` : words;
  const durations = pulls.map(({ image, since, attempt }) => {
    const attemptText = attempt === 1 ? "" : `, attempt ${attempt}`;
    return `${pulls.length === 1 ? "" : `${image} `}for ${ageOf(since, now)}${attemptText}`;
  });
  if (durations.length === 0) return message === "" ? [] : [`${name}: ${message}`];
  const isLong = pulls.some(({ since }) => now - Date.parse(since) >= LONG_PULL_MS);
  const hint = isLong ? "; the container runtime reports no progress" : "";
  return [`${name}: ${message || "images are being pulled"} (${durations.join(", ")}${hint})`];
}

/** The base name identifies a manifest, because all are in one directory. */
function rejectedLine({ file, problem }: RejectedManifest): string {
  return `${file.startsWith("/") ? basename(file) : file}: refused: ${problem}`;
}

function runtimeLine(runtime: Exclude<NonNullable<PodListing["runtime"]>, { readonly state: "ready" }>): string {
  if (runtime.state === "connecting") return "the container runtime has not answered yet";
  const state = runtime.state === "away" ? "away" : "not ready";
  return `the container runtime is ${state} since ${runtime.since}: ${runtime.message}`;
}

function tableOf(pods: readonly PodSummary[], now: number, columns: number): FittedTable {
  const [first] = pods;
  const isOneNamespace = pods.every(({ namespace }) => namespace === first?.namespace);
  const isFitted = columns < Number.POSITIVE_INFINITY;
  const header = HEADER.map((heading) =>
    isFitted && heading === "STATE" ? heading.padEnd(USUAL_STATE.length) : heading,
  );
  return fitColumns([header, ...pods.map((pod) => cellsOf(pod, now))], {
    columns,
    optional: isOneNamespace ? ["NAMESPACE", "AGE"] : ["AGE"],
    shortened: "POD",
  });
}

function cellsOf(pod: PodSummary, now: number): readonly string[] {
  const { namespace, name, ready, restarts, ip, startTime, steps } = pod;
  return [namespace, name, ready, podState(pod), String(restarts), ip || "-", ageOf(startTime, now), stepsOf(steps)];
}

/**
 * `volumes 1, sandbox 85, main: create 6 start 35`. Volumes come first in every row: the agent makes the sandbox meanwhile, and
 * either may end first.
 */
function stepsOf(steps: PodSummary["steps"]): string {
  const stepText = ({ what, ms }: PodSummary["steps"][number]) => `${what} ${Math.round(ms)}`;
  const podSteps = steps
    .filter(({ container }) => container === undefined)
    .toSorted((a, b) => Number(b.what === "volumes") - Number(a.what === "volumes"))
    .map(stepText);
  const byContainer = Map.groupBy(
    steps.filter(({ container }) => container !== undefined),
    ({ container }) => container,
  );
  const containerSteps = [...byContainer].map(([container, all]) => `${container}: ${all.map(stepText).join(" ")}`);
  return [...podSteps, ...containerSteps].join(", ") || "-";
}
