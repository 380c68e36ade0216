import { get } from "node:https";
import { gunzipSync } from "node:zlib";
import type { NodeServer } from "../api/node-api.ts";

/** What agents count of their calls: how many there were, and how long all of them took. */
export interface CallTotal {
  readonly count: number;
  readonly ms: number;
}

/** The series of a page of metrics that have durations: the name of the histogram, and labels of the series. */
const series = {
  runSandbox: ["kubelet_runtime_operations_duration_seconds", { operation_type: "run_podsandbox" }],
  stopSandbox: ["kubelet_runtime_operations_duration_seconds", { operation_type: "stop_podsandbox" }],
  ADD: ["berth_cni_call_duration_seconds", { verb: "ADD" }],
  DEL: ["berth_cni_call_duration_seconds", { verb: "DEL" }],
  pluginADD: ["berth_cni_plugin_duration_seconds", { plugin: "berth", verb: "ADD" }],
  pluginDEL: ["berth_cni_plugin_duration_seconds", { plugin: "berth", verb: "DEL" }],
} as const satisfies Record<string, readonly [string, Readonly<Record<string, string>>]>;

export type CallKind = keyof typeof series;
export type CallTotals = Readonly<Record<CallKind, CallTotal>>;
const kinds = Object.keys(series) as CallKind[];

/** Reads how long calls took so far from the agent's `/metrics`. The sums are exact, whatever the buckets are. */
export async function readCallTotals(server: NodeServer): Promise<CallTotals> {
  return callTotalsIn(await readPage(server, "/metrics"));
}

/** Calls of which the page has none count 0. */
export function callTotalsIn(page: string): CallTotals {
  const lines = page.split("\n");
  const sumOf = (name: string, labels: Readonly<Record<string, string>>) =>
    lines
      .filter((line) => line.startsWith(`${name}{`))
      .filter((line) => Object.entries(labels).every(([label, value]) => line.includes(`${label}="${value}"`)))
      .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
  const total = (kind: CallKind): CallTotal => {
    const [name, labels] = series[kind];
    return { count: sumOf(`${name}_count`, labels), ms: 1000 * sumOf(`${name}_sum`, labels) };
  };
  return Object.fromEntries(kinds.map((kind) => [kind, total(kind)])) as Record<CallKind, CallTotal>;
}

/** The milliseconds of all calls of a kind for one pod, which may be several: runtimes call DEL twice. */
export type CallTimes = Readonly<Record<CallKind, number>>;

/** Throws unless exactly one sandbox was created in the meantime. */
export function callTimesBetween(before: CallTotals, after: CallTotals): CallTimes {
  const started = after.runSandbox.count - before.runSandbox.count;
  if (started !== 1) throw new Error(`${started} sandboxes were created instead of one`);
  return Object.fromEntries(kinds.map((kind) => [kind, after[kind].ms - before[kind].ms])) as Record<CallKind, number>;
}

function readPage({ host, port, cert, key, rejectUnauthorized }: NodeServer, path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = { host, port, cert, key, rejectUnauthorized, path, agent: false } as const;
    const sent = get({ ...options, headers: { "accept-encoding": "gzip" } }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () => {
        const body = Buffer.concat(chunks);
        const text = (response.headers["content-encoding"] === "gzip" ? gunzipSync(body) : body).toString();
        if (response.statusCode === 200) resolve(text);
        else reject(new Error(`GET ${path} from ${host}:${port}: ${response.statusCode} ${text}`));
      });
    });
    sent.on("error", reject);
  });
}
