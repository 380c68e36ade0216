import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { type ChildProcess, spawn } from "node:child_process";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { execa } from "execa";
import type { PodListing } from "../../agent/serve/local/pod-list.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { podOf } from "./manifest.ts";
import { isReady, startNode, type TestNode } from "./node.ts";

setDefaultTimeout(600_000);

const names = Array.from({ length: 30 }, (_, at) => `pod-${String(at).padStart(2, "0")}`);
let node: TestNode;
let watchProcess: ChildProcess;
const listings: PodListing[] = [];
let quietSince = 0;

beforeAll(async () => {
  node = await startNode();
  const [program = "", ...args] = node.agent.podsArgv;
  watchProcess = spawn(program, [...args, "-o", "json", "--watch"], { stdio: ["ignore", "pipe", "inherit"] });
  createInterface({ input: watchProcess.stdout! }).on("line", (line) => {
    listings.push(JSON.parse(line) as PodListing);
    quietSince = performance.now();
  });
  await pollUntil("the first listing", 10_000, () => listings.length > 0);
});

afterAll(async () => {
  watchProcess.kill();
  await node.tearDown();
});

test("thirty manifests at once become thirty running pods, each with its own address", async () => {
  await Promise.all(names.map((name) => node.putManifest(podOf(name))));
  const pods = await node.waitUntilRunning(...names);
  expect(new Set(pods.map(({ ip }) => ip)).size).toBe(30);
  expect(pods.every(({ ip }) => ip.startsWith(node.containerd.subnet.replace("0/24", "")))).toBe(true);
  expect(await node.sandboxes()).toHaveLength(30);
  expect(await node.containers()).toHaveLength(30);
});

test("berth pods shows a table of the pods with the duration of each start step, sorted by name", async () => {
  const { stdout } = await execa(node.agent.podsArgv[0]!, node.agent.podsArgv.slice(1));
  const [header, ...rows] = stdout.split("\n");
  expect(header).toMatch(/^NAMESPACE +POD +READY +STATE +RESTARTS +IP +AGE +START \(ms\)$/);
  expect(rows.map((row) => row.split(/ +/)[1])).toEqual(names.map((name) => `${name}-berth`));
  for (const row of rows)
    expect(row).toMatch(
      /^default +pod-\d\d-berth +1\/1 +Running +0 +10\.[\d.]+ +(\d+m(\d+s)?|\d+s) +volumes \d+, sandbox \d+, main: create \d+ start \d+$/,
    );
});

test("berth pods -o json shows each pod with its API status", async () => {
  const [program = "", ...args] = node.agent.podsArgv;
  const { stdout } = await execa(program, [...args, "-o", "json"]);
  const { pods } = JSON.parse(stdout) as PodListing;
  expect(pods.map(({ name }) => name)).toEqual(names.map((name) => `${name}-berth`));
  for (const { namespace, phase, ready, restarts, status } of pods) {
    expect({ namespace, phase, ready, restarts }).toEqual({
      namespace: "default",
      phase: "Running",
      ready: "1/1",
      restarts: 0,
    });
    expect(status.conditions?.map(({ type, status: value }) => `${type}=${value}`)).toEqual([
      "PodReadyToStartContainers=True",
      "Initialized=True",
      "Ready=True",
      "ContainersReady=True",
      "PodScheduled=True",
    ]);
  }
});

test("only root may use the socket of berth pods", async () => {
  expect((await stat(join(node.paths.agentRoot, "berth.sock"))).mode & 0o777).toBe(0o600);
});

test("berth pods --watch prints every change once, also after more than ten quiet seconds", async () => {
  await pollUntil("the watch to have seen all run", 10_000, () => listings.at(-1)?.pods.filter(isReady).length === 30);
  await pollUntil("twelve seconds without a change", 30_000, () => performance.now() - quietSince > 12_000);
  const before = listings.length;
  await node.putManifest(podOf("late"));
  await pollUntil("the watch to show the late pod", 60_000, () => listings.at(-1)?.pods.filter(isReady).length === 31);
  expect(listings.length).toBeGreaterThan(before);
  expect(watchProcess.exitCode).toBeNull();
  const repeated = listings.filter((one, at) => JSON.stringify(one) === JSON.stringify(listings[at - 1]));
  expect(repeated).toEqual([]);
});

test("removing the manifests leaves no container, sandbox, folder, log or checkpoint of the pods", async () => {
  for (const name of [...names, "late"]) await node.removeFile(`${name}.yaml`);
  await node.waitUntilEmpty();
  expect(await node.containerd.ctr(["-n", "k8s.io", "tasks", "ls", "-q"])).toBe("");
  await pollUntil("the watch to show no pod", 10_000, () => listings.at(-1)?.pods.length === 0);
});
