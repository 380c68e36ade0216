// Records which metrics the reference kubelet has, at /metrics and /metrics/probes, into test/golden/kubelet-metrics.
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bedPaths } from "../../bed/cleanup/bed-record.ts";
import { startContainerd } from "../../bed/containerd/containerd.ts";
import { importImages } from "../../bed/images/images.ts";
import { startControlPlane } from "../../upstream/control-plane.ts";
import { builtVersion } from "../../upstream/programs.ts";
import { startReferenceKubelet } from "../../upstream/reference-kubelet.ts";
import { containerdRelease } from "../bed-settings.ts";
import { readMetricsPage } from "./metrics-page.ts";
import { createMetricsPods, metricsNode } from "./metrics-pods.ts";

process.chdir(join(import.meta.dirname, "../../.."));
const folder = await mkdtemp(join(tmpdir(), "berth-metrics-"));
const plane = await startControlPlane({ stateDir: join(folder, "plane"), print: console.log });
const stateDir = join(folder, "node");
const containerd = await startContainerd({ stateDir, version: containerdRelease });
try {
  await importImages(containerd);
  const { manifests } = bedPaths(stateDir);
  await mkdir(manifests);
  const kubelet = await startReferenceKubelet({
    controlPlane: plane,
    nodeName: metricsNode,
    endpoint: containerd.endpoint,
    stateDir,
    configuration: { staticPodPath: manifests },
  });
  try {
    await createMetricsPods(plane, manifests);
    const page = (path: string) => plane.kubectl(["get", "--raw", `/api/v1/nodes/${metricsNode}/proxy${path}`]);
    for (const [name, path] of [
      ["metrics", "/metrics"],
      ["probes", "/metrics/probes"],
    ] as const) {
      const metrics = readMetricsPage(await page(path));
      const recording = { kubelet: builtVersion(), metrics };
      await writeFile(`test/golden/kubelet-metrics/${name}.json`, `${JSON.stringify(recording, null, 1)}\n`);
      console.log(`${name}: ${Object.keys(metrics).length} metrics`);
    }
  } finally {
    await kubelet.kill9();
  }
} finally {
  await containerd.stop();
  await plane.stop();
  await rm(folder, { recursive: true, force: true });
}
