// Records what the recording rules read of the reference kubelet's pages into test/golden/kubelet-metrics/rule-pages.json, twice,
// in a minute and a half: `bun test/differential/metrics/record-rule-pages.ts`, as root.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { startContainerd } from "../../bed/containerd/containerd.ts";
import { importImages } from "../../bed/images/images.ts";
import { startControlPlane } from "../../upstream/control-plane.ts";
import { createPods } from "../../upstream/create-pods.ts";
import { builtVersion } from "../../upstream/programs.ts";
import { startReferenceKubelet } from "../../upstream/reference-kubelet.ts";
import { containerdRelease } from "../bed-settings.ts";
import { statsPods } from "../stats/stats-pods.ts";
import { type NodePages, partOfRules, rulePagesFile } from "./mixin-rules.ts";

const nodeName = "node-a";
/** cAdvisor reads each cgroup every 10 to 15 seconds. */
const HOUSEKEEPING_MS = 30_000;

process.chdir(join(import.meta.dirname, "../../.."));
const folder = await mkdtemp(join(tmpdir(), "berth-rules-"));
const stateDir = join(folder, "kubelet");
const plane = await startControlPlane({ stateDir: join(folder, "plane"), print: console.log });
const containerd = await startContainerd({ stateDir, version: containerdRelease });
try {
  await importImages(containerd);
  const kubelet = await startReferenceKubelet({
    controlPlane: plane,
    nodeName,
    endpoint: containerd.endpoint,
    stateDir,
    // cAdvisor asks this socket which container a cgroup is.
    flags: [`--containerd=${containerd.endpoint.replace("unix://", "")}`],
  });
  try {
    await createPods(plane, statsPods);
    await plane.kubectl(["wait", "--for=condition=Ready", "pod", "--all", "--timeout=120s"]);
    const page = async (path: string) =>
      partOfRules(await plane.kubectl(["get", "--raw", `/api/v1/nodes/${nodeName}/proxy${path}`]));
    const scrapes: NodePages[] = [];
    for (let scrape = 0; scrape < 2; scrape++) {
      await pause(HOUSEKEEPING_MS);
      scrapes.push({ metrics: await page("/metrics"), cadvisor: await page("/metrics/cadvisor") });
    }
    const recording = { kubelet: builtVersion(), containerd: containerdRelease, scrapes };
    await writeFile(rulePagesFile, `${JSON.stringify(recording, null, 1)}\n`);
  } finally {
    await kubelet.kill9();
  }
} finally {
  await containerd.stop();
  await plane.stop();
  await rm(folder, { recursive: true, force: true });
}
