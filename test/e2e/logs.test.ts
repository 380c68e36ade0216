import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { spawn } from "node:child_process";
import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { execa } from "execa";
import { MIN_LOOK_INTERVAL_MS } from "../../agent/decide/logs/log-rotation.ts";
import { builtBinary } from "../bed/agent.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { podOf, script } from "./manifest.ts";
import { startNode, type TestNode } from "./node.ts";

const MAX_BYTES = 1024 * 1024;
const MAX_FILES = 3;

setDefaultTimeout(600_000);

let node: TestNode;

beforeAll(async () => {
  node = await startNode({ configuration: { containerLogMaxSize: "1Mi", containerLogMaxFiles: MAX_FILES } });
});
afterAll(() => node.tearDown());

const argv = (...args: readonly string[]) => ["logs", "--root-dir", node.paths.agentRoot, ...args];

/** Runs `berth logs` to its end. */
async function berthLogs(...args: readonly string[]) {
  const { stdout, stderr, exitCode } = await execa(builtBinary, argv(...args), { reject: false, maxBuffer: 1e9 });
  return { stdout, stderr, exitCode };
}

/** Runs `berth logs -f`, and collects what it prints. */
function follow(...args: readonly string[]) {
  const child = spawn(builtBinary, argv("-f", ...args), { stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (more: string) => {
    text += more;
  });
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  return { text: () => text, ended };
}

const folderOf = async (name: string) => {
  const pods = await readdir(node.paths.podLogs);
  const found = pods.find((each) => each.startsWith(`default_${name}-`)) ?? "";
  return join(node.paths.podLogs, found, "main");
};

test("the log of a container, of its last instance, and its end", async () => {
  const prints =
    'echo "to stderr" >&2; sleep 0.2; echo "run $(cat /proc/sys/kernel/random/uuid)"; for i in 1 2 3; do echo line $i; done';
  // The second instance stays: a third one would take the place of its log.
  const command = script(`${prints}; test -e /notes/once && exec sleep 1000000; touch /notes/once; exit 1`);
  const volumeMounts = [{ name: "notes", mountPath: "/notes" }];
  await node.putManifest(podOf("twice", { command, volumeMounts }, { volumes: [{ name: "notes", emptyDir: {} }] }));
  await node.waitForPod("twice", "restarted", ({ restarts, ready }) => restarts > 0 && ready === "1/1");
  const name = `twice-${node.name}`;
  const now = await pollUntil("its last line", 10_000, async () => {
    const shown = await berthLogs(name);
    return shown.stdout.includes("line 3") ? shown : undefined;
  });
  const before = await berthLogs(name, "--previous");
  for (const { stdout, exitCode } of [now, before]) {
    expect(stdout).toMatch(/to stderr/);
    expect(stdout).toMatch(/^run [0-9a-f-]{36}$/m);
    expect(stdout).toEndWith("line 1\nline 2\nline 3");
    expect(exitCode).toBe(0);
  }
  expect(now.stdout).not.toBe(before.stdout);
  expect(await berthLogs(name, "--tail", "2")).toMatchObject({ stdout: "line 2\nline 3" });
  expect((await berthLogs(name, "--tail", "1", "--timestamps")).stdout).toMatch(
    /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z line 3$/,
  );
  expect((await berthLogs(name, "--since", "1h")).stdout).toContain("line 3");
  const [time = ""] = (await berthLogs(name, "--tail", "2", "--timestamps")).stdout.split(" ");
  expect(await berthLogs(name, "--since-time", time)).toMatchObject({ stdout: "line 2\nline 3" });
  expect(await berthLogs(name, "--limit-bytes", "9")).toMatchObject({ stdout: "to stderr" });
  await node.removeFile("twice.yaml");
});

test("what has no log is refused in one line", async () => {
  await node.putManifest(podOf("idle"));
  await node.waitUntilRunning("idle");
  const refused = (text: string) => ({ stdout: "", stderr: `berth logs: ${text}`, exitCode: 1 });
  const name = `idle-${node.name}`;
  expect(await berthLogs("idle")).toEqual(refused(`no pod "idle" in namespace "default", did you mean ${name}?`));
  expect(await berthLogs(name, "-c", "x")).toEqual(refused(`container "x" not found in pod "${name}"; it has main`));
  expect(await berthLogs(name, "-p")).toEqual(
    refused(`previous terminated container "main" in pod "${name}" not found`),
  );
  await rm(join(await folderOf("idle"), "0.log"));
  // The runtime is asked to create it again.
  await pollUntil("the log", 10_000, async () => (await readdir(await folderOf("idle"))).includes("0.log"));
  expect(await berthLogs(name)).toEqual({ stdout: "", stderr: "", exitCode: 0 });
  await node.removeFile("idle.yaml");
});

test("a follower gets every line over rotations, and its command ends with the container", async () => {
  const count = 60_000;
  const command = script(
    `i=0; while [ $i -lt ${count} ]; do i=$((i+1)); echo "line $i of a log that is rotated some times"; done; sleep 1`,
  );
  await node.putManifest(podOf("rotated", { command }, { restartPolicy: "Never" }));
  const name = `rotated-${node.name}`;
  await node.waitForPod("rotated", "started", ({ phase }) => phase !== "Pending");
  const follower = follow(name);
  expect(await follower.ended).toBe(0);
  const [torn = "", ...others] = follower.text().trimEnd().split("\n");
  const lineOf = (number: number) => `line ${number} of a log that is rotated some times`;
  const second = Number(/^line (\d+) /.exec(others[0] ?? "")?.[1]);
  const numbers = others.map((line) => Number(/^line (\d+) /.exec(line)?.[1]));
  expect(others.toSorted((a, b) => a.localeCompare(b, "en", { numeric: true }))).toEqual(
    Array.from({ length: count - second + 1 }, (_, n) => lineOf(n + second)),
  );
  const bytesOf = (late: readonly number[]) => late.reduce((sum, number) => sum + lineOf(number).length + 1, 0);
  for (const late of lateLines(numbers)) expect(bytesOf(late)).toBeLessThanOrEqual(BUFFERED_BYTES);
  // At a rotation containerd may end its output amid a line: a follower that begins then gets the rest of that line first.
  expect(lineOf(second - 1)).toEndWith(torn);
  expect((await readdir(await folderOf("rotated"))).length).toBeGreaterThan(1);
  await node.removeFile("rotated.yaml");
});

/**
 * What containerd reads of a stream at once (`defaultBufSize`): at a rotation it writes these lines to the old file while
 * another goroutine writes the next ones to the new file.
 */
const BUFFERED_BYTES = 4096;

/** The runs of numbers that come after a larger one. */
function lateLines(numbers: readonly number[]): readonly (readonly number[])[] {
  const runs: number[][] = [];
  let largest = 0;
  let isLate = false;
  for (const number of numbers) {
    if (number > largest) {
      largest = number;
      isLate = false;
    } else {
      if (!isLate) runs.push([]);
      runs.at(-1)?.push(number);
      isLate = true;
    }
  }
  return runs;
}

async function sizeOf(path: string): Promise<number> {
  try {
    return (await stat(path)).size;
  } catch {
    // A rotation has renamed or removed it since it was listed.
    return 0;
  }
}

test("a container that writes 50 MB/s is held to its limit, and its rotated logs are whole", async () => {
  const line = "0123456789".repeat(6);
  const command = script(`for i in $(seq 60); do yes ${line} | head -c 5000000; sleep 0.1; done`);
  await node.putManifest(podOf("busy", { command }, { restartPolicy: "Never" }));
  await node.waitForPod("busy", "started", ({ phase }) => phase !== "Pending");
  const folder = await folderOf("busy");
  let largest = 0;
  let isEnded = false;
  const ended = node
    .waitForPod("busy", "Succeeded", ({ phase }) => phase === "Succeeded", 120_000)
    .finally(() => {
      isEnded = true;
    });
  await pollUntil("the end", 120_000, async () => {
    const sizes = await Promise.all((await readdir(folder)).map(async (file) => await sizeOf(join(folder, file))));
    largest = Math.max(
      largest,
      sizes.reduce((sum, size) => sum + size, 0),
    );
    return isEnded;
  });
  await ended;
  // Each file passes its limit by what is written between two looks; two looks more may be late on a busy machine: 27 MiB.
  const betweenLooks = 50_000 * MIN_LOOK_INTERVAL_MS;
  console.log(`the logs of a container that writes 50 MB/s take up to ${Math.round(largest / MAX_BYTES)} MiB`);
  expect(largest).toBeLessThan(MAX_FILES * (MAX_BYTES + betweenLooks) + 2 * betweenLooks);
  const compressed = await pollUntil("the rotated logs", 60_000, async () => {
    const files = (await readdir(folder)).filter((file) => file !== "0.log");
    return files.length === 2 && files.every((file) => file.endsWith(".gz")) ? files : undefined;
  });
  for (const file of compressed) {
    const text = gunzipSync(await Bun.file(join(folder, file)).bytes()).toString();
    // The runtime may cut a line when it reopens the log.
    const broken = text
      .trimEnd()
      .split("\n")
      .filter((line) => !/^\S+Z stdout [FP] \d*$/.test(line));
    expect(broken).toEqual([]);
  }
  expect(await node.log()).not.toContain("cannot rotate");
  await node.removeFile("busy.yaml");
});
