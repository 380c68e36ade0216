import { afterEach, beforeEach, expect, test } from "bun:test";
import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { newTraces, traces } from "../bed/traces.ts";
import { until } from "../bed/until.ts";

const program = fileURLToPath(new URL("../bed/up.ts", import.meta.url));
let stateDir = "";
let before: readonly string[] = [];

beforeEach(async () => {
  stateDir = await mkdtemp(join(tmpdir(), "berth-up-test-"));
  before = await traces();
});

afterEach(() => rm(stateDir, { recursive: true }));

/** Starts `npm run up` without npm, and collects what it prints. */
function up(...args: readonly string[]) {
  const env = { ...process.env, BERTH_STATE: stateDir };
  const child = spawn(process.execPath, [program, ...args], { env, stdio: ["ignore", "pipe", "pipe"] });
  let text = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (more: string) => {
      text += more;
    });
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  return {
    text: () => text,
    printed: (words: string) =>
      until(`"${words}"`, 60_000, () => {
        if (child.exitCode !== null) throw new Error(`it ended before "${words}":\n${text}`);
        return text.includes(words);
      }),
    interrupt: () => child.kill("SIGINT"),
    /** Its exit code, with its output where that is not as expected. */
    ends: async (expected: number) => expect([await ended, text]).toEqual([expected, expect.any(String)]),
  };
}

test("the examples come up, a change is shown, and Ctrl-C leaves nothing", async () => {
  const { printed, text, interrupt, ends } = up();
  await printed("Ctrl-C ends it all");
  expect(text()).toMatch(/web-berth +1\/1 +Running +0 +10\.\d+\.\d+\.\d+ .*sandbox \d+, httpd: create \d+ start \d+/);
  expect(text()).toMatch(/shared-folder-berth +2\/2 +Running/);
  expect(text()).toMatch(/crash-berth +0\/1 +CrashLoopBackOff/);
  expect(text()).toMatch(/once-berth +0\/1 +Succeeded/);
  expect(text()).toMatch(/GET http:\/\/10\.\d+\.\d+\.\d+:8080\/ → 200 "Hello from a pod that Berth runs\."/);

  const container = { name: "main", image: "berth.test/busybox:1", command: ["catatonit", "--", "sleep", "600"] };
  const pod = { apiVersion: "v1", kind: "Pod", metadata: { name: "newcomer" }, spec: { containers: [container] } };
  await writeFile(join(stateDir, "manifests", "newcomer.json"), JSON.stringify(pod));
  await printed("newcomer-berth");

  interrupt();
  await ends(0);
  expect(text()).toContain("looked again: nothing is left");
  expect(await newTraces(before)).toEqual([]);
}, 120_000);

test("--once ends by itself after the first answer", async () => {
  const { text, ends } = up("--once");
  await ends(0);
  expect(text()).toContain("→ 200");
  expect(await newTraces(before)).toEqual([]);
}, 120_000);

test("a Ctrl-C on the way up ends it between two steps and leaves nothing", async () => {
  const { printed, interrupt, ends } = up();
  await printed("runs privately");
  interrupt();
  await ends(130);
  expect(await newTraces(before)).toEqual([]);
}, 120_000);
