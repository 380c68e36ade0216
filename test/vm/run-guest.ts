// Boots a virtual machine with Debian's kernel, cgroup v2 and containerd, without systemd, runs the compiled agent in it,
// and prints the checks.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { builtBinary } from "../bed/agent.ts";
import { buildIfStale } from "../bed/build.ts";
import { ownProcessGroup } from "../bed/cleanup/processes.ts";
import type { Outcome } from "../suite.ts";
import { closingLine, outcomeLine, seconds } from "../test-summary.ts";
import { boot, endOfConsole, type Guest } from "./boot.ts";
import { parseGuestMessage } from "./guest-protocol.ts";
import { unpackPrograms } from "./host-programs.ts";
import { makeImage } from "./image.ts";

const minuteMs = 60_000;
/** An emulated processor is about twenty times slower than the host's, which may be busy too. */
const BOOT_TIMEOUT_MS = 15 * minuteMs;
const RUN_TIMEOUT_MS = 60 * minuteMs;

const repository = join(import.meta.dirname, "..", "..");

async function compileGuest(folder: string): Promise<string> {
  const outfile = join(folder, "guest");
  const source = join(import.meta.dirname, "guest.ts");
  const options = ["--compile", "--target=bun-linux-x64", "--minify", `--outfile=${outfile}`];
  await execa(process.execPath, ["build", ...options, source], { ...ownProcessGroup, cwd: repository });
  return outfile;
}

async function start(folder: string): Promise<Guest> {
  const programs = await unpackPrograms(console.log);
  console.log(await buildIfStale());
  const guest = await compileGuest(folder);
  const image = await makeImage(folder, programs, { berth: builtBinary, guest }, console.log);
  return boot(image, { machine: { memoryMiB: 1024 }, programs, folder, limitMs: RUN_TIMEOUT_MS });
}

/** Reads the guest's output to its end and prints the result of each check. */
async function reportChecks(guest: Guest): Promise<readonly Outcome[]> {
  const outcomes: Outcome[] = [];
  let missing: readonly string[] = ["boot"];
  let before = performance.now();
  const bootTimeout = setTimeout(() => void guest.kill("it did not boot in time"), BOOT_TIMEOUT_MS);
  const record = (name: string, detail: string, isPassed: boolean) => {
    const durationMs = performance.now() - before;
    before = performance.now();
    const failed = isPassed ? [] : [`${name}: ${detail}`];
    const outcome = { name, durationMs, passed: 1 - failed.length, failed, skipped: [], log: "" };
    outcomes.push(outcome);
    missing = missing.filter((each) => each !== name);
    console.log(`${outcomeLine(outcome)}   ${detail}`);
  };
  for await (const line of guest.lines) {
    const message = parseGuestMessage(line);
    if (message?.kind === "begin") {
      clearTimeout(bootTimeout);
      record("boot", message.machine, true);
      missing = message.checks;
    } else if (message?.kind === "log") console.log(`${message.name} of the guest:\n${message.text}`);
    else if (message !== undefined) record(message.check, message.detail, message.kind === "passed");
    else if (line.trim() !== "") console.log(`the guest: ${line.trimEnd()}`);
  }
  clearTimeout(bootTimeout);
  const reason = await guest.ended;
  const missingChecks = missing;
  for (const name of missingChecks) record(name, `the guest did not report it: ${reason}`, false);
  if (missingChecks.length > 0) console.log(`the end of the guest's console:\n${await endOfConsole(guest)}`);
  return outcomes;
}

/** Runs all checks. Returns the exit code. */
export async function main(): Promise<number> {
  const started = performance.now();
  const folder = await mkdtemp(join(tmpdir(), "berth-vm-"));
  let guest: Guest | undefined;
  const cleanUp = async () => {
    await guest?.kill("it was interrupted");
    await rm(folder, { recursive: true, force: true });
  };
  let cleaningUp: Promise<void> | undefined;
  const cleanUpOnce = () => (cleaningUp ??= cleanUp());
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    process.on(signal, () => void cleanUpOnce().finally(() => process.exit(1)));
  try {
    guest = await start(folder);
    const outcomes = await reportChecks(guest);
    console.log(`total time: ${seconds(performance.now() - started)}`);
    console.log(closingLine(outcomes));
    return outcomes.some(({ failed }) => failed.length > 0) ? 1 : 0;
  } finally {
    await cleanUpOnce();
  }
}
