import { afterAll, beforeAll, expect, test } from "bun:test";
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, constants, openSync, readSync, writeSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { builtBinary, keepsKernelTunables, kubeletConfiguration } from "../bed/agent.ts";
import { pollUntil, startStopwatch } from "../bed/poll-until.ts";
import { podOf } from "./manifest.ts";
import { startNodeWithoutAgent, type TestNode } from "./node.ts";

const PIPE_BYTES = 65_536;
/** The part of the pipe that is free at the start of the agent. */
const FREE_BYTES = 4_096;
const DROPPED = /^\S+ warn {2}dropped log lines: .* lines=(\d+)$/m;
let node: TestNode;
let agent: ChildProcess;
/** Standard error of the agent. */
let pipe: number;

beforeAll(async () => {
  node = await startNodeWithoutAgent();
  const { paths, folder, containerd } = node;
  for (const path of [paths.agentRoot, paths.podLogs]) await mkdir(path, { recursive: true });
  await writeFile(paths.agentConfig, kubeletConfiguration({ ...paths, endpoint: containerd.endpoint }));
  await execa("mkfifo", [join(folder, "stderr")]);
  pipe = openSync(join(folder, "stderr"), "r+");
  writeSync(pipe, new Uint8Array(PIPE_BYTES - FREE_BYTES));
  const flags = [
    "--config",
    paths.agentConfig,
    "--root-dir",
    paths.agentRoot,
    "--hostname-override",
    node.name,
    keepsKernelTunables,
  ];
  agent = spawn(builtBinary, ["run", ...flags, "-v", "10"], { stdio: ["ignore", "ignore", pipe] });
}, 600_000);
afterAll(async () => {
  agent.kill("SIGKILL");
  closeSync(pipe);
  await node.tearDown();
}, 600_000);

/** What the pipe holds. */
function readLog(): string {
  const reader = openSync(join(node.folder, "stderr"), constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const bytes = new Uint8Array(PIPE_BYTES);
    return new TextDecoder().decode(bytes.subarray(0, readSync(reader, bytes)));
  } catch (error) {
    if (!String(error).includes("EAGAIN")) throw error;
    return "";
  } finally {
    closeSync(reader);
  }
}

test("a log that is not read delays neither pods nor the local socket nor the end, and counts what it has dropped", async () => {
  const names = Array.from({ length: 12 }, (_, index) => `pod-${index}`);
  for (const name of names) await node.putManifest(podOf(name));
  await node.waitUntilRunning(...names);
  // Otherwise the pipe had room for all lines, and the test would show nothing. A page of it may have room for a part.
  expect(readLog().length).toBeGreaterThan(PIPE_BYTES - 512);

  await node.removeFile("pod-0.yaml");
  const [, count] = await pollUntil("the number of dropped lines", 10_000, () => DROPPED.exec(readLog()) ?? undefined);
  expect(Number(count)).toBeGreaterThan(10);

  for (const name of names) await node.putManifest(podOf(`more-${name}`));
  await node.waitUntilRunning(...names.map((name) => `more-${name}`));
  const ended = new Promise((resolve) => agent.once("exit", resolve));
  const countedMs = startStopwatch();
  agent.kill("SIGTERM");
  expect(await ended).toBe(0);
  expect(countedMs()).toBeLessThan(2_000);
}, 600_000);
