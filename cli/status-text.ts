import type { AgentStatus, ClusterStatus, ConnectionStatus, PeriodicTask } from "../agent/serve/local/agent-status.ts";
import { escapeControlChars } from "../host/log/escape-control.ts";
import { ageOf } from "./age.ts";
import { hangingLines } from "./terminal-text.ts";

type Row = readonly [name: string, text: string];

/**
 * The text of `berth status`: one line per item, or several on a terminal of so few columns. `podsCommand`: the command that shows
 * the pods of the same agent.
 */
export function formatStatus(
  {
    node,
    runtime,
    networkProblem,
    cluster,
    api,
    pods,
    states = pods,
    notReady = {},
    failed = {},
    kept = 0,
    pulls = [],
    refused,
  }: AgentStatus,
  now = Date.now(),
  columns = Number.POSITIVE_INFINITY,
  podsCommand = "berth pods",
): string {
  const rows: readonly Row[] = [
    ["node", `${node.name}, ${node.version}`],
    ["runtime", runtimeText(runtime, now)],
    ...(networkProblem === undefined ? [] : [["network", `not ready: ${networkProblem}`] as const]),
    ...(cluster === undefined ? [["cluster", "no cluster: pods come from files"] as const] : clusterRows(cluster, now)),
    ...(api === undefined ? [] : [["API", `served on ${api}`] as const]),
    ["pods", countsText(states)],
    ...whyRow("not ready", notReady, podsCommand),
    ...whyRow("failed", failed, podsCommand),
    ...(kept === 0
      ? []
      : [
          [
            "kept",
            `${countOf(kept, "object")} of pods come from the disk: the API server has not answered yet`,
          ] as const,
        ]),
    ...(pulls.length === 0 ? [] : [["pulls", pullsText(pulls, now)] as const]),
    ["refused", refused === 0 ? "none" : `${countOf(refused, "manifest")} (${podsCommand} shows why)`],
  ];
  const width = Math.max(...rows.map(([name]) => name.length));
  const lines = rows.flatMap(([name, text]) =>
    hangingLines(`${name.padEnd(width)}  `, escapeControlChars(text), columns),
  );
  return `${lines.join("\n")}\n`;
}

function whyRow(name: string, counts: Readonly<Record<string, number>>, podsCommand: string): readonly Row[] {
  return Object.keys(counts).length === 0 ? [] : [[name, `${countsText(counts)} (${podsCommand} shows why)`]];
}

function clusterRows({ server, connection, lease, nodeStatus, watch }: ClusterStatus, now: number): readonly Row[] {
  // While the server is away all tasks fail for the same reason, which the connection already shows.
  const isAway = connection.state === "away";
  const row = (name: string, verb: string, task: PeriodicTask): Row => [name, taskText(verb, task, isAway, now)];
  return [
    ["cluster", `${server}, ${connectionText(connection, now)}`],
    ...lastErrorRow(connection, now),
    row("lease", "renewed", lease),
    row("node status", "reported", nodeStatus),
    row("watch of pods", "updated", watch),
  ];
}

/** Why the connection is away, or why it last was. */
function lastErrorRow(connection: ConnectionStatus, now: number): readonly Row[] {
  if (connection.state === "connecting" || connection.lastError === undefined) return [];
  const { at, message } = connection.lastError;
  return [["last error", `${ageOf(at, now)} ago${connection.state === "away" ? "" : ", resolved"}: ${message}`]];
}

/** `renewed 4s ago`, `renewed 55s ago, failing since: forbidden (2s ago, trying again)`, `not renewed yet` */
function taskText(verb: string, { last, error }: PeriodicTask, isAway: boolean, now: number): string {
  const why = error === undefined || isAway ? "" : `: ${error.message} (${ageOf(error.at, now)} ago, trying again)`;
  if (last === undefined) return `not ${verb} yet${why}`;
  return `${verb} ${ageOf(last, now)} ago${why === "" ? "" : `, failing since${why}`}`;
}

function connectionText(connection: ConnectionStatus, now: number): string {
  switch (connection.state) {
    case "connecting":
      return "not connected yet";
    case "connected":
      return `connected since ${sinceText(connection.since, now)}`;
    case "away":
      return `away since ${sinceText(connection.since, now)}, trying again`;
  }
}

function runtimeText(runtime: AgentStatus["runtime"], now: number): string {
  switch (runtime.state) {
    case "ready":
      return "ready";
    case "connecting":
      return `has not answered yet, trying since ${sinceText(runtime.since, now)}`;
    case "away":
      return `away since ${sinceText(runtime.since, now)}: ${runtime.message}`;
    case "notReady":
      return `not ready since ${sinceText(runtime.since, now)}: ${runtime.message}`;
  }
}

/** `3: 2 Running, 1 Pending` */
function countsText(counts: Readonly<Record<string, number>>): string {
  const words = Object.entries(counts).toSorted(([a, many], [b, more]) => more - many || (a < b ? -1 : 1));
  const all = words.reduce((sum, [, count]) => sum + count, 0);
  return all === 0 ? "none" : `${all}: ${words.map(([word, count]) => `${count} ${word}`).join(", ")}`;
}

const MAX_SHOWN = 3;

/** `2 images: app:1 for 3m, app:2 for 4s` */
function pullsText(pulls: NonNullable<AgentStatus["pulls"]>, now: number): string {
  const shown = pulls.slice(0, MAX_SHOWN).map(({ image, since }) => `${image} for ${ageOf(since, now)}`);
  const rest = pulls.length - shown.length;
  return `${countOf(pulls.length, "image")}: ${shown.join(", ")}${rest === 0 ? "" : ` and ${rest} more`}`;
}

const sinceText = (time: string, now: number) => `${time} (${ageOf(time, now)})`;
const countOf = (count: number, what: string) => `${count} ${what}${count === 1 ? "" : "s"}`;
