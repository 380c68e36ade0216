import type { PodListing, PodSummary } from "../agent/serve/pod-list.ts";

const HEADER = ["NAMESPACE", "POD", "READY", "STATE", "RESTARTS", "IP", "AGE", "START (ms)"];

/** The pods as a table, and below it, for those that are not well, why. */
export function podTable({ pods }: PodListing, now = Date.now()): string {
  if (pods.length === 0) return "no pods\n";
  const rows = [HEADER, ...pods.map((pod) => cellsOf(pod, now))];
  const widths = HEADER.map((_, column) => Math.max(...rows.map((row) => (row[column] ?? "").length)));
  const lines = rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd(),
  );
  const notes = pods.filter(({ message }) => message !== "").map(({ name, message }) => `${name}: ${message}`);
  return `${[...lines, ...(notes.length === 0 ? [] : ["", ...notes])].join("\n")}\n`;
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

function ageOf(startTime: string, now: number): string {
  const seconds = Math.max(0, Math.round((now - Date.parse(startTime)) / 1000));
  if (Number.isNaN(seconds)) return "-";
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)}h` : `${Math.floor(seconds / 86_400)}d`;
}
