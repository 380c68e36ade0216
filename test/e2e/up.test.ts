import { afterEach, beforeEach, expect, test } from "bun:test";
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { execa } from "execa";
import { newTraces, traces } from "../bed/cleanup/leaked-resources.ts";
import { listProcesses } from "../bed/cleanup/processes.ts";
import { until } from "../bed/poll-until.ts";
import { readmeManifest } from "../readme-manifest.ts";

const repository = fileURLToPath(new URL("../..", import.meta.url));
let stateDir = "";
let before: readonly string[] = [];

beforeEach(async () => {
  stateDir = await mkdtemp(join(tmpdir(), "berth-up-test-"));
  before = await traces();
});

afterEach(() => rm(stateDir, { recursive: true }));

/** Starts `npm run up` without npm, as a terminal would in a group of its own, and collects what it prints. */
function up(...args: readonly string[]) {
  const child = spawn(process.execPath, ["test/bed/up.ts", ...args], {
    cwd: repository,
    env: { ...process.env, BERTH_STATE: stateDir },
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const pid = child.pid!;
  let text = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (more: string) => {
      text += more;
    });
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  return {
    text: () => text,
    printed: (words: string | RegExp) =>
      until(`"${words}"`, 60_000, () => {
        if (child.exitCode !== null) throw new Error(`it ended before "${words}":\n${text}`);
        return typeof words === "string" ? text.includes(words) : words.test(text);
      }),
    /** Who would get a Ctrl-C from the terminal beside it. */
    beside: async () => (await listProcesses()).filter(({ pid: own, group }) => group === pid && own !== pid),
    ctrlC: () => process.kill(-pid, "SIGINT"),
    /** Its exit code, with its output where that is not as expected. */
    ends: async (expected: number) => expect([await ended, text]).toEqual([expected, expect.any(String)]),
  };
}

/** Runs the command that was printed behind `title`, and returns what it says. */
async function runPrinted(text: string, title: string): Promise<string> {
  const [program = "", ...args] = new RegExp(`^${title} +(.+)$`, "m").exec(text)?.[1]?.split(" ") ?? [];
  const { stdout } = await execa(program, args, { cwd: repository });
  return stdout;
}

const manifest = (name: string) => join(stateDir, "manifests", name);

test("the examples come up, a change is shown, and Ctrl-C leaves nothing", async () => {
  const { printed, text, beside, ctrlC, ends } = up();
  await printed(/^default +web-berth .*\n\n/m);
  expect(text()).toMatch(/web-berth +1\/1 +Running +0 +10\.\d+\.\d+\.\d+ .*sandbox \d+, httpd: create \d+ start \d+/);
  expect(text()).toMatch(/shared-folder-berth +2\/2 +Running/);
  expect(text()).toMatch(/crash-berth +0\/1 +CrashLoopBackOff/);
  expect(text()).toMatch(/once-berth +0\/1 +Succeeded/);
  expect(text()).toMatch(/GET http:\/\/10\.\d+\.\d+\.\d+:8080\/ → 200 "Hello from a pod that Berth runs\."/);
  expect(await runPrinted(text(), "show pods")).toContain("web-berth");
  expect(await runPrinted(text(), "look inside")).toContain("berth.test/web:1");
  const logs = /^read logs +(\S+?)\/NAMESPACE/m.exec(text())?.[1] ?? "";
  expect([...new Bun.Glob("default_once-berth_*/main/0.log").scanSync(logs)]).toHaveLength(1);

  await writeFile(manifest("hello.yaml"), await readmeManifest());
  await printed(/hello-berth +1\/1 +Running/);

  expect(await beside()).toEqual([]);
  ctrlC();
  await ends(0);
  expect(text()).not.toMatch(/^berth: /m);
  expect(text()).toContain("looked again: nothing is left");
  expect(await newTraces(before)).toEqual([]);
}, 120_000);

test("what the user made of the manifests is kept the next time, unless the examples are asked for", async () => {
  const first = up("--once");
  await first.ends(0);
  expect(first.text()).toContain("→ 200");

  const mine = (await readFile(manifest("web.yaml"), "utf8")).replace("name: web", "name: mine");
  await writeFile(manifest("web.yaml"), mine);
  await writeFile(manifest("broken.yaml"), mine.replace("image:", "imag:"));
  await rm(manifest("crash.yaml"));
  const second = up("--once");
  await second.ends(1);
  expect(second.text()).toContain("broken.yaml, once.yaml, shared-folder.yaml, web.yaml: kept from last time");
  expect(second.text()).toContain("npm run up -- --fresh");
  expect(second.text()).toMatch(/mine-berth +1\/1 +Running/);
  expect(second.text()).not.toMatch(/(crash|web)-berth/);
  // Nobody waits for what is refused until patience is at an end, after 20 s.
  expect(second.text()).toMatch(/^pods +(\d+ ms|1?\d\.\d s) .*; not all have come up$/m);
  expect(second.text()).toMatch(/^broken\.yaml: refused: line \d+: .*imag: Unknown field/m);

  const third = up("--fresh", "--once");
  await third.ends(0);
  expect(third.text()).toContain("crash.yaml, once.yaml, shared-folder.yaml, web.yaml from examples/");
  expect(await newTraces(before)).toEqual([]);
}, 180_000);

test("an agent that is killed ends it all, and it says how the agent ended and what it had said", async () => {
  const { printed, text, ends } = up();
  await printed(/^default +web-berth .*\n\n/m);
  process.kill(Number(/^agent .* process (\d+);/m.exec(text())?.[1]), "SIGKILL");
  await ends(1);
  const lines = (await readFile(join(stateDir, "berth.log"), "utf8")).trimEnd().split("\n");
  expect(text()).toContain(
    [`berth: the agent was ended by SIGKILL; the end of ${stateDir}/berth.log:`, ...lines.slice(-3)].join("\n  "),
  );
  expect(text()).toContain("looked again: nothing is left");
  expect(await newTraces(before)).toEqual([]);
}, 120_000);

test("a Ctrl-C on the way up ends it between two steps and leaves nothing", async () => {
  const { printed, text, ctrlC, ends } = up();
  await printed("runs privately");
  ctrlC();
  await ends(130);
  expect(text()).not.toMatch(/^berth: /m);
  expect(await newTraces(before)).toEqual([]);
}, 120_000);
