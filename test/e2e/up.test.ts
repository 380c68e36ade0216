import { afterEach, beforeEach, expect, test } from "bun:test";
import { spawn } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { execa } from "execa";
import { findLeakedResources, listMachineResources } from "../bed/cleanup/leaked-resources.ts";
import { listProcesses } from "../bed/cleanup/processes.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { readmeManifest } from "../readme-manifest.ts";

const repository = fileURLToPath(new URL("../..", import.meta.url));
let stateDir = "";
let before: readonly string[] = [];

beforeEach(async () => {
  stateDir = await mkdtemp(join(tmpdir(), "berth-up-test-"));
  before = await listMachineResources();
});

afterEach(() => rm(stateDir, { recursive: true }));

/** Starts `npm run up` without npm, in its own process group as a terminal does, and collects its output. */
function startUp(...args: readonly string[]) {
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
      pollUntil(`"${words}"`, 60_000, () => {
        if (child.exitCode !== null) throw new Error(`it ended before "${words}":\n${text}`);
        return typeof words === "string" ? text.includes(words) : words.test(text);
      }),
    /** The other processes of its group, which would also receive a Ctrl-C from the terminal. */
    beside: async () => (await listProcesses()).filter(({ pid: own, group }) => group === pid && own !== pid),
    ctrlC: () => process.kill(-pid, "SIGINT"),
    /** Waits for the end and checks the exit code; a failure shows the output. */
    ends: async (expected: number) => expect([await ended, text]).toEqual([expected, expect.any(String)]),
  };
}

/** Runs the command that a program printed after `title`, and returns its output. */
async function runPrinted(text: string, title: string, input = ""): Promise<string> {
  const [program = "", ...args] = new RegExp(`^${title} +(.+)$`, "m").exec(text)?.[1]?.split(" ") ?? [];
  const { stdout } = await execa(program, args, { cwd: repository, input });
  return stdout;
}

/** Expects links of the built-in network on the bridge of the pods, and no plugin that could have made them. */
async function expectBuiltinNetwork(text: string) {
  const plugins = await readdir(join(stateDir, "cni", "bin"));
  // The static form of the delegate has the link berth-cni.program beside it.
  expect(plugins.toSorted().filter((name) => name !== "berth-cni.program")).toEqual(["berth-cni", "loopback"]);
  const subnet = /pods get addresses of (10\.\d+\.\d+)\.0\/24 in the built-in network/.exec(text)?.[1] ?? "";
  expect(text).toMatch(new RegExp(`web-berth +1/1 +Running +0 +${subnet.replaceAll(".", "\\.")}\\.\\d`));
  const { stdout: route } = await execa("ip", ["route", "get", `${subnet}.2`]);
  const bridge = / dev (\S+)/.exec(route)?.[1] ?? "";
  const { stdout } = await execa("ip", ["-json", "link", "show", "master", bridge]);
  const ports = JSON.parse(stdout) as readonly { readonly ifalias?: string }[];
  expect(ports.length).toBeGreaterThan(0);
  for (const { ifalias } of ports) expect(ifalias).toStartWith(`berth ${bridge} `);
}

const manifest = (name: string) => join(stateDir, "manifests", name);

test("npm run up starts the examples, shows a change, and leaves nothing after Ctrl-C", async () => {
  const { printed: waitForOutput, text, beside: otherProcesses, ctrlC, ends: expectExit } = startUp();
  await waitForOutput(/^default +web-berth .*\n\n/m);
  expect(text()).toMatch(/web-berth +1\/1 +Running +0 +10\.\d+\.\d+\.\d+ .*sandbox \d+, httpd: create \d+ start \d+/);
  expect(text()).toMatch(/shared-folder-berth +2\/2 +Running/);
  expect(text()).toMatch(/crash-berth +0\/1 +CrashLoopBackOff/);
  expect(text()).toMatch(/once-berth +0\/1 +Succeeded/);
  expect(text()).toMatch(/GET http:\/\/10\.\d+\.\d+\.\d+:8080\/ → 200 "Hello from a pod that Berth runs\."/);
  await expectBuiltinNetwork(text());
  expect(await runPrinted(text(), "show pods")).toContain("web-berth");
  const explanation = await runPrinted(text(), "explain");
  expect(explanation).toMatch(/^why {3}container main: .*it exited with code 3/m);
  expect(await runPrinted(explanation, "run")).toContain("cannot find the treasure");
  expect(await runPrinted(text(), "read logs")).toMatch(/counts to three: 1 2 3$/);
  expect(await runPrinted(text(), "look inside", "echo from $((40 + 2))\n")).toContain("from 42");

  const [, page = "", url = ""] = /^edit a file +(\S+), which (\S+) shows at once$/m.exec(text()) ?? [];
  const pageText = async () => await (await fetch(url)).text();
  expect(await pageText()).toBe("Edit this page while its pod runs.\n");
  await writeFile(resolve(repository, page), "edited\n");
  expect(await pageText()).toBe("edited\n");
  expect(await runPrinted(text(), "show pods")).toMatch(/edited-page-berth +1\/1 +Running +0/);

  await writeFile(manifest("hello.yaml"), await readmeManifest());
  await waitForOutput(/hello-berth +1\/1 +Running/);

  expect(await otherProcesses()).toEqual([]);
  ctrlC();
  await expectExit(0);
  expect(text()).not.toMatch(/^berth: /m);
  expect(text()).toMatch(/removed .*1 built-in network.*; checked again: nothing is left/s);
  expect(await findLeakedResources(before)).toEqual([]);
}, 600_000);

test("npm run up keeps the user's manifests for the next run, unless --fresh is given", async () => {
  const first = startUp("--once");
  await first.ends(0);
  expect(first.text()).toContain("→ 200");

  const mine = (await readFile(manifest("web.yaml"), "utf8")).replace("name: web", "name: mine");
  await writeFile(manifest("web.yaml"), mine);
  await writeFile(manifest("broken.yaml"), mine.replace("image:", "imag:"));
  await rm(manifest("crash.yaml"));
  const second = startUp("--once");
  await second.ends(1);
  expect(second.text()).toContain(
    "broken.yaml, edited-page.yaml, once.yaml, shared-folder.yaml, web.yaml: kept from last time",
  );
  expect(second.text()).toContain("npm run up -- --fresh");
  expect(second.text()).toMatch(/mine-berth +1\/1 +Running/);
  expect(second.text()).not.toMatch(/(crash|web)-berth/);
  // A refused manifest is not waited for until the limit of 20 s.
  expect(second.text()).toMatch(/^pods +(\d+ ms|1?\d\.\d s) .*; not all have come up$/m);
  expect(second.text()).toMatch(/^broken\.yaml: refused: line \d+: .*imag: Unknown field/m);

  const third = startUp("--fresh", "--once");
  await third.ends(0);
  expect(third.text()).toContain(
    "crash.yaml, edited-page.yaml, once.yaml, shared-folder.yaml, web.yaml from examples/",
  );
  expect(await findLeakedResources(before)).toEqual([]);
}, 600_000);

test("npm run up ends when its agent is killed, and prints how the agent ended and its last log lines", async () => {
  const { printed: waitForOutput, text, ends: expectExit } = startUp();
  await waitForOutput(/^default +web-berth .*\n\n/m);
  process.kill(Number(/^agent .* process (\d+);/m.exec(text())?.[1]), "SIGKILL");
  await expectExit(1);
  const lines = (await readFile(join(stateDir, "berth.log"), "utf8")).trimEnd().split("\n");
  expect(text()).toContain(
    [`berth: the agent was ended by SIGKILL; the end of ${stateDir}/berth.log:`, ...lines.slice(-3)].join("\n  "),
  );
  expect(text()).toContain("checked again: nothing is left");
  expect(await findLeakedResources(before)).toEqual([]);
}, 600_000);

test("a Ctrl-C during the start ends npm run up between two steps and leaves nothing", async () => {
  const { printed: waitForOutput, text, ctrlC, ends: expectExit } = startUp();
  await waitForOutput("runs privately");
  ctrlC();
  await expectExit(130);
  expect(text()).not.toMatch(/^berth: /m);
  expect(await findLeakedResources(before)).toEqual([]);
}, 600_000);
