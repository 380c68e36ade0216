import { afterEach, beforeEach, expect, test } from "bun:test";
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { listProcesses } from "./bed/cleanup/processes.ts";
import { ifAbsent } from "./bed/if-absent.ts";
import { pollUntil } from "./bed/poll-until.ts";

let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-interruption-"));
});
afterEach(() => rm(folder, { recursive: true }));

/** A run of two suites, of which the second one starts a program in a process group of its own and hangs. */
const program = `
import { createInterruption } from "${import.meta.dirname}/interruption.ts";
import { runSuite } from "${import.meta.dirname}/suite.ts";
const cleanUp = async () => console.log("cleaned up");
const interruption = createInterruption({ print: console.log, cleanUp });
const suite = (name, script) => ({ name, argv: ["sh", "-c", script], hasReport: false, timeoutMs: 60_000 });
await runSuite(suite("quick", "true"), "FOLDER", interruption);
await runSuite(suite("slow", "setsid sleep 1000 & echo $$ $! > FOLDER/pids; wait; wait"), "FOLDER", interruption);
console.log("the second suite has ended");
`;

async function startRun() {
  const path = join(folder, "run.ts");
  await writeFile(path, program.replaceAll("FOLDER", folder));
  // In its own process group, as a terminal starts it.
  const child = spawn(process.execPath, [path], { detached: true, stdio: ["ignore", "pipe", "pipe"] });
  let text = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (more: string) => {
      text += more;
    });
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  const pids = await pollUntil("the slow suite", 20_000, async () => {
    const written = await readFile(join(folder, "pids"), "utf8").catch(ifAbsent(""));
    return written.endsWith("\n") && written.trim().split(" ").map(Number);
  });
  return { pid: child.pid!, pids, ended, text: () => text };
}

async function alive(pids: readonly number[]) {
  return (await listProcesses()).map(({ pid }) => pid).filter((pid) => pids.includes(pid));
}

for (const [signal, exitCode, words] of [
  ["SIGINT", 130, "Ctrl-C"],
  ["SIGTERM", 143, "SIGTERM"],
] as const)
  test(`${words} ends the programs of a run of suites, says so and exits with ${exitCode}`, async () => {
    const run = await startRun();
    expect(await alive(run.pids)).toHaveLength(2);
    process.kill(-run.pid, signal);
    // npm and setup.mjs forward it.
    process.kill(run.pid, signal);
    expect(await run.ended).toBe(exitCode);
    expect(run.text()).toMatch(
      new RegExp(
        `^\ninterrupted by ${words}: ending slow; Ctrl-C again exits at once\ncleaned up\n` +
          "interrupted after \\d+\\.\\d s: 1 of its suites had ended, so this is no result\n$",
      ),
    );
    expect(await alive(run.pids)).toEqual([]);
  });
