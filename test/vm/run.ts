// Boots a guest with Debian's kernel, cgroup v2 and containerd, runs the compiled agent in it, and prints what it has found there: npm run vm
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { builtBinary } from "../bed/agent.ts";
import { buildIfStale } from "../bed/build.ts";
import { apart } from "../bed/cleanup/processes.ts";
import type { Outcome } from "../suite.ts";
import { closingLine, outcomeLine, seconds } from "../test-summary.ts";
import { boot, endOfConsole, type Guest } from "./boot.ts";
import { readWord } from "./guest-protocol.ts";
import { makeImage, ownPrograms } from "./image.ts";

const minuteMs = 60_000;
/** An emulated processor is some twenty times slower than ours, and ours may have other things to do. */
const BOOTS_WITHIN_MS = 15 * minuteMs;
const ENDS_WITHIN_MS = 60 * minuteMs;

const repository = join(import.meta.dirname, "..", "..");

async function compileGuest(folder: string): Promise<string> {
  const outfile = join(folder, "guest");
  const source = join(import.meta.dirname, "guest.ts");
  const options = ["--compile", "--target=bun-linux-x64", "--minify", `--outfile=${outfile}`];
  await execa(process.execPath, ["build", ...options, source], { ...apart, cwd: repository });
  return outfile;
}

async function start(folder: string): Promise<Guest> {
  const programs = await ownPrograms(console.log);
  console.log(await buildIfStale());
  const guest = await compileGuest(folder);
  const image = await makeImage(folder, programs, { berth: builtBinary, guest }, console.log);
  return boot(image, programs, folder, ENDS_WITHIN_MS);
}

/** Follows a guest to its end, and says how each of its checks went. */
async function follow(guest: Guest): Promise<readonly Outcome[]> {
  const outcomes: Outcome[] = [];
  let missing: readonly string[] = ["boot"];
  let before = performance.now();
  const patience = setTimeout(() => void guest.end("it did not boot in time"), BOOTS_WITHIN_MS);
  const tell = (name: string, detail: string, isPassed: boolean) => {
    const durationMs = performance.now() - before;
    before = performance.now();
    const failed = isPassed ? [] : [`${name}: ${detail}`];
    const outcome = { name, durationMs, passed: 1 - failed.length, failed, skipped: [], log: "" };
    outcomes.push(outcome);
    missing = missing.filter((each) => each !== name);
    console.log(`${outcomeLine(outcome)}   ${detail}`);
  };
  for await (const line of guest.lines) {
    const word = readWord(line);
    if (word?.kind === "begin") {
      clearTimeout(patience);
      tell("boot", word.machine, true);
      missing = word.checks;
    } else if (word?.kind === "log") console.log(`${word.name} of the guest:\n${word.text}`);
    else if (word !== undefined) tell(word.check, word.detail, word.kind === "passed");
    else if (line.trim() !== "") console.log(`the guest: ${line.trimEnd()}`);
  }
  clearTimeout(patience);
  const how = await guest.ended;
  const notMade = missing;
  for (const name of notMade) tell(name, `the guest said nothing of it: ${how}`, false);
  if (notMade.length > 0) console.log(`the end of the guest's console:\n${await endOfConsole(guest)}`);
  return outcomes;
}

async function main(): Promise<number> {
  if (process.arch !== "x64") {
    console.error(
      "vm: the guest's processor is an x86-64, and its agent is compiled for this machine's: run it on one",
    );
    return 1;
  }
  const started = performance.now();
  const folder = await mkdtemp(join(tmpdir(), "berth-vm-"));
  let guest: Guest | undefined;
  const goAway = async () => {
    await guest?.end("it was interrupted");
    await rm(folder, { recursive: true, force: true });
  };
  let going: Promise<void> | undefined;
  const leave = () => (going ??= goAway());
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    process.on(signal, () => void leave().finally(() => process.exit(1)));
  try {
    guest = await start(folder);
    const outcomes = await follow(guest);
    console.log(`all of it took ${seconds(performance.now() - started)}`);
    console.log(closingLine(outcomes));
    return outcomes.some(({ failed }) => failed.length > 0) ? 1 : 0;
  } finally {
    await leave();
  }
}

process.chdir(repository);
process.exitCode = await main();
