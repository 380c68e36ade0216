import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { unpackPackages } from "../../bed/packages.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { pickPorts } from "../../bed/ports.ts";
import { startDaemon, waitUntilReady } from "../../upstream/daemon.ts";
import type { NodePages, RecordingRule } from "./mixin-rules.ts";

/** The labels of one series, with `__name__`. */
type Series = Readonly<Record<string, string>>;

/** A series as one line, without what differs between two nodes with the same pods. */
export function formatSeries({ __name__ = "", ...labels }: Series): string {
  const shown = Object.entries({ ...labels, ...("id" in labels && { id: "…", name: "…" }) }).toSorted();
  return `${__name__}{${shown.map(([name, value]) => `${name}="${value}"`).join(",")}}`;
}

const INTERVAL = "500ms";
const TIMEOUT_MS = 20_000;

/**
 * Lets Prometheus scrape the pages of several nodes, each in a cluster of its own: the first pages once, then the second.
 * Returns the series that the rules record from them, by the name of the cluster and without its label.
 */
export async function evaluateRules(
  nodes: Readonly<Record<string, readonly [NodePages, NodePages]>>,
  rules: readonly RecordingRule[],
): Promise<ReadonlyMap<string, readonly Series[]>> {
  const { root } = await unpackPackages("bookworm-prometheus", console.log);
  const folder = await mkdtemp(join(tmpdir(), "berth-rules-"));
  const pages = await servePages(nodes);
  const [port = 0] = await pickPorts(1);
  const configFile = join(folder, "prometheus.json");
  const ruleFile = join(folder, "rules.json");
  await writeFile(ruleFile, JSON.stringify({ groups: [{ name: "mixin", interval: INTERVAL, rules }] }));
  await writeFile(configFile, JSON.stringify(configurationOf(Object.keys(nodes), pages.address, ruleFile)));
  const args = [`--config.file=${configFile}`, `--storage.tsdb.path=${folder}/data`];
  const listen = `127.0.0.1:${port}`;
  const prometheus = startDaemon(
    join(root, "usr/bin/prometheus"),
    [...args, `--web.listen-address=${listen}`],
    join(folder, "prometheus.log"),
  );
  try {
    await waitUntilReady(prometheus, `http://${listen}/-/ready`);
    await waitForEvaluation(listen, pages.reads);
    const names = [...new Set(rules.map(({ record }) => record))].join("|");
    const { result } = await ask<QueryResult>(listen, `query?query=${encodeURIComponent(`{__name__=~"${names}"}`)}`);
    const all = result.map(({ metric: { cluster, ...series } }) => ({ cluster, series }));
    const seriesOf = (name: string) => all.flatMap(({ cluster, series }) => (cluster === name ? [series] : []));
    return new Map(Object.keys(nodes).map((name) => [name, seriesOf(name)]));
  } finally {
    await prometheus.end("SIGTERM");
    pages.close();
    await rm(folder, { recursive: true });
  }
}

interface QueryResult {
  readonly result: readonly { readonly metric: Series }[];
}

/** The labels are those of kube-prometheus; times are those of the scrapes, since a page may be an old one. */
function configurationOf(clusters: readonly string[], address: string, ruleFile: string) {
  const kubelet = { job: "kubelet", instance: "node" };
  const targets = {
    metrics: { ...kubelet, metrics_path: "/metrics" },
    cadvisor: { ...kubelet, metrics_path: "/metrics/cadvisor" },
    pods: { job: "kube-state-metrics" },
  };
  const jobs = clusters.flatMap((cluster) =>
    Object.entries(targets).map(([page, labels]) => ({
      job_name: `${cluster} ${page}`,
      metrics_path: `/${cluster}/${page}`,
      honor_timestamps: false,
      static_configs: [{ targets: [address], labels: { ...labels, cluster } }],
    })),
  );
  const global = { scrape_interval: INTERVAL, scrape_timeout: INTERVAL, evaluation_interval: INTERVAL };
  return { global, rule_files: [ruleFile], scrape_configs: jobs };
}

/** Serves the pages, and one with the pods of each cluster, as kube-state-metrics has them. */
async function servePages(nodes: Parameters<typeof evaluateRules>[0]) {
  const reads = new Map<string, number>();
  for (const cluster of Object.keys(nodes))
    for (const page of ["metrics", "cadvisor", "pods"]) reads.set(`/${cluster}/${page}`, 0);
  const server = createServer(({ url = "" }, response) => {
    const [, cluster = "", page = ""] = url.split("/");
    const read = reads.get(url) ?? 0;
    const pages = nodes[cluster]?.[read === 0 ? 0 : 1];
    reads.set(url, read + 1);
    const text = page === "pods" ? podPage(pages?.cadvisor ?? "") : pages?.[page as keyof NodePages];
    response.writeHead(text === undefined ? 404 : 200, { "content-type": "text/plain; version=0.0.4" }).end(text);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    address: `127.0.0.1:${port}`,
    /** How often each page has been read. */
    reads: () => [...reads.values()],
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

function podPage(cadvisor: string): string {
  const pods = [...cadvisor.matchAll(/(namespace="[^"]+",pod="[^"]+")/g)].map(([, labels = ""]) => labels);
  return [...new Set(pods)].map((labels) => `kube_pod_info{${labels},node="node-a"} 1\n`).join("");
}

/** Waits until the second pages are stored, and the rules have been evaluated after that. */
async function waitForEvaluation(listen: string, reads: () => readonly number[]): Promise<void> {
  // A page that is read for the third time has been stored twice.
  await pollUntil("the scrapes", TIMEOUT_MS, async () => reads().every((count) => count >= 3));
  const storedAt = Date.now();
  await pollUntil("the evaluation of the rules", TIMEOUT_MS, async () => {
    const { groups } = await ask<{ readonly groups: readonly EvaluatedGroup[] }>(listen, "rules");
    for (const { lastError, name } of groups.flatMap(({ rules }) => rules))
      if (lastError !== undefined) throw new Error(`${name}: ${lastError}`);
    return groups.length > 0 && groups.every(({ lastEvaluation }) => Date.parse(lastEvaluation) > storedAt);
  });
}

interface EvaluatedGroup {
  /** The time at which the last evaluation began. */
  readonly lastEvaluation: string;
  readonly rules: readonly { readonly name: string; readonly lastError?: string }[];
}

async function ask<Result>(listen: string, query: string): Promise<Result> {
  const response = await fetch(`http://${listen}/api/v1/${query}`);
  const { data, error } = (await response.json()) as { readonly data?: Result; readonly error?: string };
  if (data === undefined) throw new Error(`Prometheus: ${error}`);
  return data;
}
