import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ENVIRONMENT } from "../../cli/reexecute.ts";
import { arm64Binary, buildArm64IfStale } from "../bed/build.ts";
import { unpackPackages } from "../bed/packages.ts";
import { podOf, script } from "./manifest.ts";
import { containerId, linesContaining, startNode, type TestNode, waitForOutput } from "./node.ts";

setDefaultTimeout(600_000);

/**
 * The agent for arm64. On another processor it is a script that runs it in an emulator. An emulated program cannot
 * execute itself again, so the settings that it would set are in its environment.
 */
async function prepareAgent(folder: string): Promise<string> {
  await buildArm64IfStale();
  if (process.arch === "arm64") return arm64Binary;
  const [emulator, libraries] = [await unpackPackages("bookworm-emulator"), await unpackPackages("bookworm-arm64")];
  const settings = Object.entries(ENVIRONMENT)
    .map(([name, value]) => `${name}=${value}`)
    .join(" ");
  const qemu = join(emulator.root, "usr/bin/qemu-aarch64-static");
  const path = join(folder, "berth-emulated");
  const command = `${settings} exec ${qemu} -L ${libraries.root} ${arm64Binary} "$@"`;
  await writeFile(path, `#!/bin/sh\n${command}\n`, { mode: 0o755 });
  return path;
}

let folder = "";
let node: TestNode;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-arm64-"));
  node = await startNode({ binary: await prepareAgent(folder) });
});
afterAll(async () => {
  await node.tearDown();
  await rm(folder, { recursive: true });
});

test("the program for arm64 starts a pod, probes it by a command, and removes it", async () => {
  // https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.eheader.html: e_machine, 183 for AArch64.
  expect(new DataView(await Bun.file(arm64Binary).slice(0, 20).arrayBuffer()).getUint16(18, true)).toBe(183);
  const readinessProbe = { exec: { command: ["test", "-e", "/tmp/ok"] }, periodSeconds: 1, timeoutSeconds: 20 };
  const command = script("echo up; until test -e /tmp/go; do sleep 0.1; done; touch /tmp/ok; exec sleep 1000000");
  await node.putManifest(podOf("emulated", { command, readinessProbe }));
  const pod = await node.waitForPod("emulated", "it runs", ({ phase }) => phase === "Running");
  expect(pod.ready).toBe("0/1");
  await waitForOutput(node, pod, "up");
  const exec = ["tasks", "exec", "--exec-id", "go", containerId(pod), "touch", "/tmp/go"];
  await node.containerd.ctr(["-n", "k8s.io", ...exec]);
  await node.waitUntilRunning("emulated");
  await node.removeFile("emulated.yaml");
  await node.waitUntilEmpty();
  const warnings = linesContaining(await node.log(), " warn ");
  expect(warnings.filter((line) => !line.includes("this machine has cgroup v1"))).toEqual([]);
});
