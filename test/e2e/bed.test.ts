import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { execa } from "execa";
import { listRecords } from "../bed/cleanup/bed-record.ts";
import { describeBedResources, findBedResources } from "../bed/cleanup/bed-resources.ts";
import { findLeakedResources, listMachineResources } from "../bed/cleanup/leaked-resources.ts";
import { listProcesses, processStart } from "../bed/cleanup/processes.ts";
import { type ContainerdVersion, startContainerd } from "../bed/containerd/containerd.ts";
import { runWebPod } from "../bed/containerd/web-pod.ts";
import { importImages, webPage } from "../bed/images/images.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { resetBeds } from "../bed/reset.ts";
import { versionsUnderTest } from "./versions-under-test.ts";

let folder = "";
let before: readonly string[] = [];

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-bed-test-"));
  before = await listMachineResources();
});

afterEach(async () => {
  expect((await listRecords()).filter((record) => record.stateDir.startsWith(folder))).toEqual([]);
  await rm(folder, { recursive: true });
});

const page = async (url: string) =>
  await pollUntil(url, 5000, () =>
    fetch(url).then(
      (answer) => answer.text(),
      () => undefined,
    ),
  );

/** Starts a test bed with a pod in another process, and kills that process once the pod runs. */
async function abandonBed(version: ContainerdVersion): Promise<void> {
  const harness = fileURLToPath(new URL("../bed/crash-fixture.ts", import.meta.url));
  const child = execa(process.execPath, [harness, folder, version], { stdin: "pipe", reject: false });
  await new Promise<void>((ready, failed) => {
    child.stdout.once("data", () => ready());
    child.then((result) => failed(new Error(`the harness ended: ${result.stderr}`)), failed);
  });
  child.kill("SIGKILL");
  await child;
}

describe.each(versionsUnderTest)("containerd %s", (version) => {
  test("runs a pod that answers on its own address and on the host port, survives a kill -9, and leaves nothing", async () => {
    const containerd = await startContainerd({ version, stateDir: folder });
    try {
      expect(await containerd.ctr(["version"])).toContain(`Version:  ${version}.`);
      await importImages(containerd);
      const pod = await runWebPod(containerd.endpoint, "web", 18099);
      const hostUrl = `http://${containerd.subnet.replace("0/24", "1")}:18099/`;
      expect(await page(`http://${pod.ip}:8080/`)).toBe(webPage);
      expect(await page(hostUrl)).toBe(webPage);

      await containerd.kill9();
      expect(containerd.pid).toBe(0);
      expect(await page(hostUrl)).toBe(webPage);

      await containerd.restart();
      expect(containerd.pid).toBeGreaterThan(0);
      expect(await containerd.ctr(["-n", "k8s.io", "tasks", "ls"])).toMatch(new RegExp(`${pod.containerId}.*RUNNING`));
      const left = await findBedResources(containerd.record);
      expect(
        [left.processes, left.mounts, left.links, left.rules, left.cgroups, left.files].map((one) => one.length > 0),
      ).toEqual([true, true, true, true, true, true]);
    } finally {
      await containerd.stop();
    }
    expect(await findLeakedResources(before)).toEqual([]);
  }, 600_000);

  test("leaves nothing of a pod whose shim was killed", async () => {
    const containerd = await startContainerd({ version, stateDir: folder });
    try {
      await importImages(containerd);
      const { sandboxId } = await runWebPod(containerd.endpoint, "orphan", 0);
      const shim = (await listProcesses()).find(({ argv }) => argv.includes(sandboxId))!;
      process.kill(shim.pid, "SIGKILL");
      await pollUntil("the end of the shim", 5000, async () => (await processStart(shim.pid)) === undefined);
    } finally {
      await containerd.stop();
    }
    expect(await findLeakedResources(before)).toEqual([]);
  }, 600_000);

  test("leaves nothing of a pod that a killed runc has left frozen", async () => {
    const containerd = await startContainerd({ version, stateDir: folder });
    try {
      await importImages(containerd);
      await runWebPod(containerd.endpoint, "frozen", 0);
      const { cgroups } = await findBedResources(containerd.record);
      const isV1 = cgroups.some((path) => path.startsWith("/sys/fs/cgroup/freezer/"));
      const [pattern, file, state] = isV1 ? [/\/freezer\//, "freezer.state", "FROZEN"] : [/./, "cgroup.freeze", "1"];
      for (const path of cgroups.filter((one) => pattern.test(one))) await writeFile(join(path, file), state);
    } finally {
      await containerd.stop();
    }
    expect(await findLeakedResources(before)).toEqual([]);
  }, 600_000);

  test("removes what a killed owner left in the same folder before it starts there", async () => {
    await abandonBed(version);
    const containerd = await startContainerd({ version, stateDir: folder });
    try {
      expect(await containerd.ctr(["-n", "k8s.io", "tasks", "ls", "-q"])).toBe("");
      expect((await listRecords()).map((record) => record.stateDir)).toContain(folder);
    } finally {
      await containerd.stop();
    }
    expect(await findLeakedResources(before)).toEqual([]);
  }, 600_000);

  test("is removed by npm run reset when its owner was killed", async () => {
    await abandonBed(version);
    const bed = (await listRecords()).find((record) => record.stateDir === folder)!;
    const found = await findBedResources(bed);
    expect(describeBedResources(found).length).toBe(6);
    const lock = found.files.find((file) => file.startsWith("/run/berth/"))!;
    expect(await readFile(lock, "utf8")).toContain(`root directory ${folder}/kubelet`);

    const printed: string[] = [];
    expect(await resetBeds(false, (line) => printed.push(line))).toBe(0);
    const [title, ...lines] = printed.slice(printed.findIndex((line) => line.startsWith(folder)));
    expect(title).toBe(`${folder}: removed what was left of it`);
    expect(lines.slice(0, 7)).toEqual([
      ...["processes", "mounts?", "interfaces?", "rules?", "cgroups", "files?"].map((kind) =>
        expect.stringMatching(new RegExp(`^  \\d+ ${kind}: .{1,180}$`)),
      ),
      "  the files in the folder stay: manifests, logs and volumes",
    ]);
    expect(existsSync(lock)).toBe(false);
    expect(await findLeakedResources(before)).toEqual([]);
  }, 600_000);
});

test("the clean-up of one containerd does not touch another one on the same machine", async () => {
  const [one, two] = await Promise.all(
    (["1.6", "2.1"] as const).map((version) => startContainerd({ version, stateDir: join(folder, version) })),
  );
  try {
    await Promise.all([importImages(one!), importImages(two!)]);
    // One after the other: the portmap plugin checks for its chain and then creates it, and two of them would race.
    await runWebPod(one!.endpoint, "a", 18101);
    const second = await runWebPod(two!.endpoint, "b", 18102);
    expect(one!.subnet).not.toBe(two!.subnet);
    await one!.stop();
    expect(await page(`http://${second.ip}:8080/`)).toBe(webPage);
    expect(await page(`http://${two!.subnet.replace("0/24", "1")}:18102/`)).toBe(webPage);
  } finally {
    await Promise.all([one!.stop(), two!.stop()]);
  }
  expect(await findLeakedResources(before)).toEqual([]);
}, 600_000);

test("a folder in use is refused with its owner's pid, and npm run reset leaves it alone", async () => {
  const containerd = await startContainerd({ stateDir: folder });
  try {
    await expect(startContainerd({ stateDir: folder })).rejects.toThrow(
      `in use by process ${process.pid}: stop that process with Ctrl-C, or use another clone`,
    );
    const printed: string[] = [];
    await resetBeds(false, (line) => printed.push(line));
    expect(printed.find((line) => line.startsWith(folder))).toContain("left alone");
    expect(containerd.pid).toBeGreaterThan(0);
  } finally {
    await containerd.stop();
  }
}, 600_000);
