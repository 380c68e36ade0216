import { basename } from "node:path/posix";
import type { PodListing, PodSummary } from "../agent/serve/local/pod-list.ts";
import { inOneLine } from "../host/escape-control.ts";
import { ageOf } from "./age.ts";

const HEADER = ["NAMESPACE", "POD", "READY", "STATE", "RESTARTS", "IP", "AGE", "START (ms)"];

type Refusal = NonNullable<PodListing["refused"]>[number];

/**
 * The pods as a table; below it why those that are not well are not, what is refused, and whether the runtime is away. Among the words are
 * a container's own: whatever they hold, they stay in their line and steer no terminal (CVE-2021-25743). `namespace`: the
 * pods of others were left out.
 */
export function podTable({ pods, refused = [], runtime }: PodListing, now = Date.now(), namespace?: string): string {
  const isBlind = runtime !== undefined && runtime.state !== "ready";
  const blocks = [
    pods.length > 0
      ? tableOf(pods, now)
      : [`no pods${isBlind ? " are known yet" : ""}${namespace === undefined ? "" : ` in namespace ${namespace}`}`],
    pods.flatMap((pod) => whyLines(pod, now)),
    refused.map(refusalLine),
    isBlind ? [runtimeLine(runtime)] : [],
  ];
  return `${blocks
    .filter((lines) => lines.length > 0)
    .map((lines) => lines.map(inOneLine).join("\n"))
    .join("\n\n")}\n`;
}

const LONG_MS = 60_000;

/** Why a pod is not as it should be, and how long it waits for its images. */
function whyLines({ name, message, pulls = [] }: PodSummary, now: number): readonly string[] {
  const words = pulls.map(({ image, since, attempt }) => {
    const tries = attempt === 1 ? "" : `, try ${attempt}`;
    return `${pulls.length === 1 ? "" : `${image} `}for ${ageOf(since, now)}${tries}`;
  });
  if (words.length === 0) return message === "" ? [] : [`${name}: ${message}`];
  const isLong = pulls.some(({ since }) => now - Date.parse(since) >= LONG_MS);
  const hint = isLong ? "; the container runtime does not tell how much of it is here" : "";
  return [`${name}: ${message || "images are being pulled"} (${words.join(", ")}${hint})`];
}

/** A manifest is known by its name: all of them are in one folder. */
function refusalLine({ file, problem }: Refusal): string {
  return `${file.startsWith("/") ? basename(file) : file}: refused: ${problem}`;
}

function runtimeLine(runtime: Exclude<NonNullable<PodListing["runtime"]>, { readonly state: "ready" }>): string {
  return runtime.state === "connecting"
    ? "the container runtime has not answered yet"
    : `the container runtime is away since ${runtime.since}: ${runtime.message}`;
}

function tableOf(pods: readonly PodSummary[], now: number): readonly string[] {
  const rows = [HEADER, ...pods.map((pod) => cellsOf(pod, now))];
  const widths = HEADER.map((_, column) => Math.max(...rows.map((row) => (row[column] ?? "").length)));
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd(),
  );
}

function cellsOf(pod: PodSummary, now: number): readonly string[] {
  const { namespace, name, ready, phase, reason, restarts, ip, startTime, steps } = pod;
  const state = reason === "" || reason === "Completed" ? phase : reason;
  return [namespace, name, ready, state, String(restarts), ip || "-", ageOf(startTime, now), stepsOf(steps)];
}

/** `volumes 1, sandbox 85, main: create 6 start 35` */
function stepsOf(steps: PodSummary["steps"]): string {
  const word = ({ what, ms }: PodSummary["steps"][number]) => `${what} ${Math.round(ms)}`;
  const own = steps.filter(({ container }) => container === undefined).map(word);
  const byContainer = Map.groupBy(
    steps.filter(({ container }) => container !== undefined),
    ({ container }) => container,
  );
  const theirs = [...byContainer].map(([container, all]) => `${container}: ${all.map(word).join(" ")}`);
  return [...own, ...theirs].join(", ") || "-";
}
