import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import {
  ContainerStatsRequest,
  ContainerStatsResponse,
  PodSandboxStatusRequest,
  PodSandboxStatusResponse,
} from "../../../proto/cri/gen/api.ts";
import type { StatsSummary } from "../../../proto/kubelet/stats-summary.ts";
import { callCri } from "../../bed/containerd/cri-call.ts";
import { unpackPackages } from "../../bed/packages.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { evaluateRules, formatSeries } from "../../differential/metrics/evaluate-rules.ts";
import {
  isKnownSeries,
  mixinRules,
  type NodePages,
  partOfRules,
  recordedRulePages,
} from "../../differential/metrics/mixin-rules.ts";
import {
  fieldsOfBerthAlone,
  isKnown,
  metricsOfKubeletAlone,
} from "../../differential/stats/known-stats-differences.ts";
import { decodeBatch, usageBetween } from "../../differential/stats/metrics-server.ts";
import { fieldPaths, metricShapes, missingIn, recordedPage } from "../../differential/stats/page-shape.ts";
import { statsPods } from "../../differential/stats/stats-pods.ts";
import { createApiClient } from "../../fakes/api-client.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { busyPod } from "./busy-pod.ts";
import { type ClusterNode, startClusterNode } from "./node.ts";

setDefaultTimeout(600_000);

const skip = skipWithoutPrograms("the stats of a node beside the kubelet's");
const METRICS_SERVER = "metrics-server";
/** Go's client of HTTP/2 sends these; metrics-server adds no `Accept`. */
const METRICS_SERVER_HEADERS = { "accept-encoding": "gzip", "user-agent": "metrics-server/v0.8.0" };
/** The time between two scrapes of metrics-server as it is deployed. */
const RESOLUTION_MS = 15_000;
/** All containers of the tests are younger. */
const MAX_AGE_MS = 600_000;

describe.skipIf(skip !== undefined)("the stats of a node", () => {
  let cluster: ClusterNode;
  const page = (path: string) => cluster.kubectl("get", "--raw", `/api/v1/nodes/${cluster.node.name}/proxy${path}`);
  const summaryOf = async (query = "") => JSON.parse(await page(`/stats/summary${query}`)) as StatsSummary;

  beforeAll(async () => {
    cluster = await startClusterNode();
    await cluster.create(statsPods);
    await cluster.kubectl("wait", "--for=condition=Ready", "pod", "--all", "--timeout=180s");
  }, BUILD_TIMEOUT_MS);
  afterAll(() => cluster?.tearDown());

  for (const [file, query] of [
    ["summary.json", ""],
    ["summary-cpu-and-memory.json", "?only_cpu_and_memory=true"],
  ] as const)
    test(`/stats/summary${query} has the fields of the kubelet's for the same pods`, async () => {
      const [kubelet, berth] = [JSON.parse(recordedPage(file)), await summaryOf(query)].map((each) => fieldPaths(each));
      const [ofKubelet, ofBerth] = [kubelet ?? [], berth ?? []];
      expect(missingIn(ofKubelet, ofBerth)).toEqual([]);
      expect(missingIn(ofBerth, ofKubelet).filter((path) => !isKnown(fieldsOfBerthAlone, path))).toEqual([]);
    });

  test("the metrics of resources have the kubelet's names, texts, types and labels", async () => {
    expect(metricShapes(await page("/metrics/resource"))).toEqual(metricShapes(recordedPage("resource.txt")));
  });

  test("the metrics of cAdvisor are the kubelet's, but for those that are listed with a reason", async () => {
    const isRoot = ({ id = "/" }: Readonly<Record<string, string>>) => id === "/";
    const kubelet = metricShapes(recordedPage("cadvisor.txt"), isRoot);
    const text = await page("/metrics/cadvisor");
    const berth = metricShapes(text, isRoot);
    expect(missingIn(kubelet.keys(), berth.keys()).filter((name) => !isKnown(metricsOfKubeletAlone, name))).toEqual([]);
    expect(Object.keys(metricsOfKubeletAlone).filter((name) => berth.has(name) || !kubelet.has(name))).toEqual([]);
    for (const [name, { help, type, isTimed }] of metricShapes(text)) {
      const expected = metricShapes(recordedPage("cadvisor.txt")).get(name);
      if (expected !== undefined)
        expect({ name, help, type, isTimed }).toMatchObject({
          ...{ help: expected.help, type: expected.type, isTimed: expected.isTimed },
        });
    }
    expect(text).toMatch(
      /container_cpu_usage_seconds_total\{container="second",.*namespace="default",pod="guaranteed"\}/,
    );
    expect(text).toMatch(/container_network_receive_bytes_total\{container="",.*interface="eth0",.*pod="burstable"\}/);
  });

  test("CPU time, memory and traffic lie between direct readings", async () => {
    const { containers, sandbox } = await readDirectly(cluster, "guaranteed");
    const pod = (await summaryOf()).pods.find(({ podRef }) => podRef.name === "guaranteed");
    const after = await readDirectly(cluster, "guaranteed");
    expect(containers.size).toBe(2);
    for (const [name, before] of containers) {
      const { cpu, memory } = pod?.containers.find((each) => each.name === name) ?? {};
      expect(cpu?.usageCoreNanoSeconds).toBeWithin(before.cpuNs, (after.containers.get(name)?.cpuNs ?? 0) + 1);
      expect(cpu?.usageNanoCores).toBeWithin(0, 2e9);
      // A gauge moves: the kernel takes back pages of a container of half a megabyte at any time.
      const readings = [before.memoryBytes, after.containers.get(name)?.memoryBytes ?? 0];
      expect(memory?.workingSetBytes).toBeWithin(Math.min(...readings) * 0.5, Math.max(...readings) * 1.5);
    }
    expect(pod?.network?.rxBytes).toBeWithin(sandbox.rxBytes, after.sandbox.rxBytes + 1);
    const writes = pod?.containers.map(({ logs, rootfs }) => [logs?.usedBytes, rootfs?.capacityBytes]);
    for (const [logs, capacity] of writes ?? []) {
      expect(logs).toBeGreaterThan(0);
      expect(capacity).toBeGreaterThan(0);
    }
  });

  test("metrics-server, with its rights alone, gets the CPU and memory of the node and of every container", async () => {
    const clients = await metricsServerClients(cluster);
    const scrape = async (client: (typeof clients)[number]) => {
      const { status, text } = await client.requestHttp2("GET", "/metrics/resource", undefined, METRICS_SERVER_HEADERS);
      expect(status).toBe(200);
      return decodeBatch(text, Date.now());
    };
    const containers = ["burstable/main", "guaranteed/main", "guaranteed/second", "host-network/main"];
    const measured = [...containers.map((name) => `default/${name}`), "node"];
    for (const client of clients) {
      const first = await scrape(client);
      for (const point of [...first.pods.values()].flatMap((pod) => [...pod.values()]))
        expect(point.startMs).toBeWithin(Date.now() - MAX_AGE_MS, point.atMs);
      // Each container works a little every second.
      const usage = await pollUntil("CPU time of every container", 15_000, async () => {
        const found = usageBetween(first, await scrape(client), RESOLUTION_MS);
        return measured.every((name) => (found.get(name)?.cpuNanoCores ?? 0) > 0) && found;
      });
      expect([...usage.keys()].toSorted()).toEqual(measured);
      for (const name of containers) {
        expect(usage.get(`default/${name}`)?.cpuNanoCores).toBeLessThan(1e9);
        expect(usage.get(`default/${name}`)?.memoryBytes).toBeWithin(100_000, 64 << 20);
      }
      expect((await client.request("GET", "/stats/summary")).status).toBe(403);
    }
  });

  test("the recording rules of the kubernetes-mixin give the series of the kubelet's pages", async () => {
    const read = async (): Promise<NodePages> => ({
      metrics: partOfRules(await page("/metrics")),
      cadvisor: partOfRules(await page("/metrics/cadvisor")),
    });
    const berth = [await read(), await read()] as const;
    const series = await evaluateRules({ kubelet: recordedRulePages(), berth }, mixinRules);
    const linesOf = (name: string) => (series.get(name) ?? []).map(formatSeries).toSorted();
    const [ofKubelet, ofBerth] = [linesOf("kubelet"), linesOf("berth")];
    expect(ofKubelet.length).toBeGreaterThan(30);
    expect(missingIn(ofBerth, ofKubelet)).toEqual([]);
    expect(missingIn(ofKubelet, ofBerth).filter((line) => !isKnownSeries(line))).toEqual([]);
  });

  test("both pages of metrics pass promtool's check, but for names that are the kubelet's", async () => {
    const { root } = await unpackPackages("bookworm-prometheus", console.log);
    for (const [path, file] of [
      ["/metrics/resource", "resource.txt"],
      ["/metrics/cadvisor", "cadvisor.txt"],
    ] as const) {
      const known = metricShapes(recordedPage(file));
      const input = `${await page(path)}\n`;
      const promtool = join(root, "usr/bin/promtool");
      const { stdout, stderr } = await execa(promtool, ["check", "metrics"], { input, reject: false });
      const lines = `${stdout}\n${stderr}`.split("\n").filter((line) => line !== "");
      expect(lines.filter((line) => !known.has(line.split(" ")[0] ?? ""))).toEqual([]);
    }
  });

  test("the rate of CPU time and a steady working set are those of direct readings", async () => {
    const name = "busy";
    await cluster.create([busyPod({ cpuLimit: "300m", heldMb: 100 })]);
    await cluster.kubectl("wait", "--for=condition=Ready", "pod", name, "--timeout=180s");
    const measure = async () => {
      const [before, fromMs] = [await readDirectly(cluster, name), performance.now()];
      const pod = (await summaryOf()).pods.find(({ podRef }) => podRef.name === name);
      const [toMs, after] = [performance.now(), await readDirectly(cluster, name)];
      const containerOf = (container: string) => pod?.containers.find((each) => each.name === container);
      return { before: before.containers, fromMs, containerOf, toMs, after: after.containers };
    };
    const cpuNs = (containers: Awaited<ReturnType<typeof readDirectly>>["containers"]) =>
      containers.get("calculates")?.cpuNs ?? Number.NaN;
    const first = await measure();
    const isMeasurable = async () => cpuNs((await readDirectly(cluster, name)).containers) > cpuNs(first.after) + 5e8;
    await pollUntil("half a second of CPU time", 60_000, isMeasurable);
    const second = await measure();

    const nanoCores = (usedNs: number, ms: number) => (usedNs * 1_000) / ms;
    const least = nanoCores(cpuNs(second.before) - cpuNs(first.after), second.toMs - first.fromMs);
    const most = nanoCores(cpuNs(second.after) - cpuNs(first.before), second.fromMs - first.toMs);
    expect(second.containerOf("calculates")?.cpu?.usageNanoCores).toBeWithin(least * 0.95, most * 1.05);
    const memoryBytes = second.before.get("remembers")?.memoryBytes ?? Number.NaN;
    expect(memoryBytes).toBeGreaterThan(100e6);
    const shown = second.containerOf("remembers")?.memory?.workingSetBytes;
    expect(shown).toBeWithin(memoryBytes * 0.95, memoryBytes * 1.05);
    await cluster.kubectl("delete", "pod", name, "--grace-period=0", "--force");
  });
});

/** Clients of the node's API that may read its metrics, as metrics-server may: one with a token, one with a certificate. */
async function metricsServerClients({ kubectl, plane, node }: ClusterNode) {
  await kubectl("create", "serviceaccount", METRICS_SERVER);
  await kubectl("create", "clusterrole", METRICS_SERVER, "--verb=get", "--resource=nodes/metrics");
  const subjects = [`--serviceaccount=default:${METRICS_SERVER}`, `--user=${METRICS_SERVER}`];
  await kubectl("create", "clusterrolebinding", METRICS_SERVER, `--clusterrole=${METRICS_SERVER}`, ...subjects);
  const token = (await kubectl("create", "token", METRICS_SERVER)).trim();
  const pair = plane.authority.issue({ commonName: METRICS_SERVER });
  const { port } = JSON.parse(await readFile(node.paths.agentConfig, "utf8")) as { readonly port: number };
  return [{ token }, { pair }].map((credentials) => createApiClient({ port, ca: undefined, ...credentials }));
}

/** What the runtime and the kernel say of a pod. */
async function readDirectly({ node }: ClusterNode, podName: string) {
  const { endpoint } = node.containerd;
  const sandbox = (await node.sandboxes()).find(({ metadata }) => metadata?.name === podName);
  if (sandbox === undefined) throw new Error(`no sandbox of ${podName}`);
  const own = (await node.containers()).filter(({ podSandboxId }) => podSandboxId === sandbox.id);
  const stats = own.map(async ({ id, metadata }) => {
    const request = [ContainerStatsRequest, { containerId: id }] as const;
    const { stats: found } = await callCri(endpoint, "RuntimeService/ContainerStats", request, ContainerStatsResponse);
    const cpuNs = Number(found?.cpu?.usageCoreNanoSeconds?.value ?? 0n);
    return [metadata?.name ?? "", { cpuNs, memoryBytes: Number(found?.memory?.workingSetBytes?.value ?? 0n) }] as const;
  });
  const request = [PodSandboxStatusRequest, { podSandboxId: sandbox.id, verbose: true }] as const;
  const status = await callCri(endpoint, "RuntimeService/PodSandboxStatus", request, PodSandboxStatusResponse);
  const { pid } = JSON.parse(status.info["info"] ?? "{}") as { readonly pid: number };
  const dev = await readFile(`/proc/${pid}/net/dev`, "utf8");
  const rxBytes = Number(/eth0:\s*(\d+)/.exec(dev)?.[1] ?? Number.NaN);
  return { containers: new Map(await Promise.all(stats)), sandbox: { rxBytes } };
}
