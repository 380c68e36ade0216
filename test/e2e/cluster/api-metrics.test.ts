import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { unpackPackages } from "../../bed/packages.ts";
import { type DeclaredMetric, readMetricsPage } from "../../differential/metrics/metrics-page.ts";
import { createMetricsPods, metricsNode } from "../../differential/metrics/metrics-pods.ts";
import { missingMetrics } from "../../differential/metrics/missing-metrics.ts";
import { type ControlPlane, startControlPlane } from "../../upstream/control-plane.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { startNodeWithoutAgent, type TestNode } from "../node.ts";

setDefaultTimeout(600_000);

const skip = skipWithoutPrograms("the metrics of a node beside the kubelet's");

const recorded = async (page: "metrics" | "probes") =>
  (JSON.parse(await readFile(join("test/golden/kubelet-metrics", `${page}.json`), "utf8")) as Recording).metrics;

interface Recording {
  readonly metrics: Readonly<Record<string, DeclaredMetric>>;
}

describe.skipIf(skip !== undefined)("the metrics of a node", () => {
  let plane: ControlPlane;
  let node: TestNode;
  const page = (path: string) => plane.kubectl(["get", "--raw", `/api/v1/nodes/${metricsNode}/proxy${path}`]);

  beforeAll(async () => {
    const stateDir = join(process.env["TMPDIR"] ?? "/tmp", `berth-metrics-${process.pid}`);
    plane = await startControlPlane({ stateDir, print: console.log });
    const cluster = { kubeconfig: await plane.nodeKubeconfig(metricsNode), nodeName: metricsNode };
    node = await startNodeWithoutAgent({ cluster });
    await node.startAgent();
    await createMetricsPods(plane, node.paths.manifests);
  }, BUILD_TIMEOUT_MS);
  afterAll(async () => {
    await node?.tearDown();
    await plane?.stop();
  });

  for (const [name, path] of [
    ["metrics", "/metrics"],
    ["probes", "/metrics/probes"],
  ] as const)
    test(`at ${path} are the kubelet's, except for those that are listed with a reason`, async () => {
      const [own, kubelets] = [readMetricsPage(await page(path)), await recorded(name)];
      const isExplained = (metric: string) => missingMetrics.some(([pattern]) => pattern.test(metric));
      const missing = Object.keys(kubelets).filter((metric) => !(metric in own));
      expect(missing.filter((metric) => !isExplained(metric))).toEqual([]);
      const different = Object.entries(own).flatMap(([metric, declared]) => {
        const kubelet = kubelets[metric];
        return kubelet === undefined || Bun.deepEquals(declared, kubelet) ? [] : [{ metric, declared, kubelet }];
      });
      expect(different).toEqual([]);
    });

  test("say what has happened", async () => {
    const text = await page("/metrics");
    const seriesValue = (series: string) =>
      Number(
        text
          .split("\n")
          .find((line) => line.startsWith(`${series} `))
          ?.slice(series.length + 1),
      );
    expect(seriesValue("kubelet_running_pods")).toBeGreaterThanOrEqual(3);
    expect(seriesValue('kubelet_running_containers{container_state="running"}')).toBeGreaterThanOrEqual(2);
    expect(seriesValue('kubelet_admission_rejections_total{reason="OutOfcpu"}')).toBe(1);
    expect(seriesValue(`kubelet_node_name{node="${metricsNode}"}`)).toBe(1);
    expect(seriesValue('kubelet_desired_pods{static="true"}')).toBe(1);
    const ends = 'kubelet_terminated_containers_total{container_type="container",exit_code="1",reason="Error"}';
    expect(seriesValue(ends)).toBeGreaterThanOrEqual(1);
    expect(seriesValue("kubelet_pod_start_sli_duration_seconds_count")).toBeGreaterThanOrEqual(1);
    expect(seriesValue("process_resident_memory_bytes")).toBeGreaterThan(10_000_000);
    const host = new URL(plane.server).host;
    expect(seriesValue(`rest_client_requests_total{code="201",host="${host}",method="POST"}`)).toBeGreaterThan(0);
    const probes = await page("/metrics/probes");
    expect(probes).toMatch(
      /prober_probe_total\{container="main",namespace="default",pod="probed",.*"successful"\} \d+/,
    );
  });

  test("pass promtool's check, which objects only to names that are the kubelet's", async () => {
    const { root } = await unpackPackages("bookworm-prometheus", console.log);
    // The recorded kubelet requests no certificates, so its page lacks these.
    const ofRotation = [
      "kubelet_certificate_manager_client_expiration_renew_errors",
      "kubelet_server_expiration_renew_errors",
    ];
    const kubelets = new Set([...Object.keys(await recorded("metrics")), ...ofRotation]);
    for (const path of ["/metrics", "/metrics/probes", "/metrics/slis"]) {
      const input = `${await page(path)}\n`;
      const promtool = join(root, "usr/bin/promtool");
      const { stdout, stderr } = await execa(promtool, ["check", "metrics"], { input, reject: false });
      const lines = `${stdout}\n${stderr}`.split("\n").filter((line) => line !== "");
      expect(lines.filter((line) => !kubelets.has(line.split(" ")[0] ?? ""))).toEqual([]);
    }
  });
});
