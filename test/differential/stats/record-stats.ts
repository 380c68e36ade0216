// Records the stats pages of the reference kubelet into test/golden/kubelet-stats, in a minute or two:
// `bun test/differential/stats/record-stats.ts`, as root.
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { request } from "node:https";
import { release, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { execa } from "execa";
import { bedPaths } from "../../bed/cleanup/bed-record.ts";
import { startContainerd } from "../../bed/containerd/containerd.ts";
import { importImages } from "../../bed/images/images.ts";
import { type ControlPlane, startControlPlane } from "../../upstream/control-plane.ts";
import { createPods } from "../../upstream/create-pods.ts";
import { ensurePrograms } from "../../upstream/programs.ts";
import { startReferenceKubelet } from "../../upstream/reference-kubelet.ts";
import { containerdRelease } from "../bed-settings.ts";
import { statsPods } from "./stats-pods.ts";

const pages = {
  "summary.json": "/stats/summary",
  "summary-cpu-and-memory.json": "/stats/summary?only_cpu_and_memory=true",
  "resource.txt": "/metrics/resource",
  "cadvisor.txt": "/metrics/cadvisor",
};
/** cAdvisor reads each cgroup every 10 to 15 seconds, and computes rates from two readings. The kubelet measures volumes in the first minute. */
const HOUSEKEEPING_MS = 70_000;

process.chdir(join(import.meta.dirname, "../../.."));
const folder = await mkdtemp(join(tmpdir(), "berth-stats-"));
const stateDir = join(folder, "kubelet");
const plane = await startControlPlane({ stateDir: join(folder, "plane"), print: console.log });
const containerd = await startContainerd({ stateDir, version: containerdRelease });
try {
  await importImages(containerd);
  const kubelet = await startReferenceKubelet({
    controlPlane: plane,
    nodeName: "node-a",
    endpoint: containerd.endpoint,
    stateDir,
    configuration: { localStorageCapacityIsolation: true },
  });
  try {
    await createPods(plane, statsPods);
    await plane.kubectl(["wait", "--for=condition=Ready", "pod", "--all", "--timeout=120s"]);
    await sleep(HOUSEKEEPING_MS);
    const config = JSON.parse(await readFile(bedPaths(stateDir).kubeletConfig, "utf8")) as {
      readonly address: string;
      readonly port: number;
    };
    const golden = "test/golden/kubelet-stats";
    await mkdir(golden, { recursive: true });
    for (const [file, path] of Object.entries(pages)) {
      const { headers, body } = await get(plane, config, path);
      await writeFile(join(golden, file), body);
      console.log(path, JSON.stringify(headers));
    }
    const { stdout } = await execa(join(await ensurePrograms(["kubelet"]), "kubelet"), ["--version"]);
    const versions = {
      kubelet: stdout,
      containerd: containerdRelease,
      kernel: release(),
      cgroups: "v1, cgroupsPerQOS: false",
    };
    await writeFile(join(golden, "versions.json"), `${JSON.stringify(versions, null, 2)}\n`);
  } finally {
    await kubelet.kill9();
  }
} finally {
  await containerd.stop();
  await plane.stop();
  await rm(folder, { recursive: true, force: true });
}

/** One page of the kubelet, with an administrator's client certificate. */
function get(
  { authority }: ControlPlane,
  { address, port }: { readonly address: string; readonly port: number },
  path: string,
): Promise<{ readonly headers: unknown; readonly body: string }> {
  const { cert, key } = authority.issue({ commonName: "recorder", organizations: ["system:masters"] });
  return new Promise((resolve, reject) => {
    // The kubelet's serving certificate is self-signed.
    request({ host: address, port, path, cert, key, rejectUnauthorized: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("end", () => {
        const body = Buffer.concat(chunks).toString();
        if (response.statusCode === 200) resolve({ headers: response.headers, body });
        else reject(new Error(`${path}: ${response.statusCode} ${body.slice(0, 500)}`));
      });
    })
      .on("error", reject)
      .end();
  });
}
