/** What `berth pods -o json` says of one pod, as far as the table needs it. */
export interface PodRow {
  readonly namespace: string;
  readonly name: string;
  readonly phase: string;
  readonly reason: string;
  /** `1/2`: containers that are ready, and all. */
  readonly ready: string;
  readonly restarts: number;
  readonly ip: string;
  readonly steps: readonly StartStep[];
}

/** One step of a pod's start: `what` was done, for which container if it was one container's, and how long it took. */
export interface StartStep {
  readonly what: string;
  readonly container?: string;
  readonly ms: number;
}

/** Whether nothing more is expected of a pod soon: done, all of it ready, or waiting after a crash. */
export function isSettled({ phase, reason, ready }: PodRow): boolean {
  const [up, all] = ready.split("/");
  return phase === "Succeeded" || phase === "Failed" || reason === "CrashLoopBackOff" || (all !== "0" && up === all);
}

/** The table of pods: state, restarts, address, and the milliseconds of each step of their start. */
export function podTable(pods: readonly PodRow[]): string {
  const rows = pods.map((pod) => [
    pod.name,
    pod.ready,
    pod.reason === "" ? pod.phase : pod.reason,
    String(pod.restarts),
    pod.ip === "" ? "-" : pod.ip,
    describeSteps(pod.steps),
  ]);
  return columns([["POD", "READY", "STATE", "RESTARTS", "IP", "START, MS A STEP"], ...rows]);
}

/** `sandbox 82 · main: pull 3, create 6, start 38`: the pod's own steps, then each container's, in order. */
export function describeSteps(steps: readonly StartStep[]): string {
  const groups = Map.groupBy(steps, ({ container }) => container ?? "");
  return [...groups]
    .map(([container, own]) => {
      const text = own.map(({ what, ms }) => `${what} ${Math.round(ms)}`).join(", ");
      return container === "" ? text : `${container}: ${text}`;
    })
    .join(" · ");
}

function columns(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]?.map((_, at) => Math.max(...rows.map((row) => (row[at] ?? "").length))) ?? [];
  return rows
    .map((row) =>
      row
        .map((cell, at) => cell.padEnd(widths[at] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}
