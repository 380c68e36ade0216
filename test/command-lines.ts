// A program for tests: runs cli/main.ts once for each command line, all in this process, since a process for each takes up
// to two tenths of a second of the processor. Each line of standard input has the arguments of one, and the line of standard
// output for it what that one has printed.
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";

/** What a command line has printed, and its exit code. */
export interface CommandOutput {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number;
}

export interface CommandLines {
  /** Runs `berth` with these arguments, after those before. It must read nothing from its standard input. */
  run(args: readonly string[]): Promise<CommandOutput>;
  /** Ends the process. */
  stop(): Promise<void>;
}

/** Starts the process that runs the command lines. */
export function startCommandLines(): CommandLines {
  const argv = [process.execPath, import.meta.path];
  const child = Bun.spawn(argv, { stdin: "pipe", stdout: "pipe", stderr: "inherit" });
  const lines = createInterface({ input: Readable.fromWeb(child.stdout as ReadableStream) })[Symbol.asyncIterator]();
  return {
    async run(args) {
      child.stdin.write(`${JSON.stringify(args)}\n`);
      await child.stdin.flush();
      const { value, done } = await lines.next();
      if (done === true) throw new Error(`berth ${args.join(" ")} has ended the process of the command lines`);
      return JSON.parse(value) as CommandOutput;
    },
    async stop() {
      await child.stdin.end();
      await child.exited;
    },
  };
}

class Exit extends Error {
  readonly code: number;
  constructor(code: number) {
    super(`exit with code ${code}`);
    this.code = code;
  }
}

/** Evaluates main.ts again: the query makes it another module. */
async function runCommandLine(args: readonly string[], index: number): Promise<CommandOutput> {
  const printed = { stdout: "", stderr: "" };
  for (const stream of ["stdout", "stderr"] as const) {
    process[stream].removeAllListeners("error");
    process[stream].write = (text: string | Uint8Array, ...more: readonly unknown[]) => {
      printed[stream] += String(text);
      const done = more.at(-1);
      if (typeof done === "function") done();
      return true;
    };
  }
  process.exit = (code) => {
    throw new Exit(Number(code ?? process.exitCode ?? 0));
  };
  process.argv = [process.argv0, "berth", ...args];
  process.exitCode = 0;
  await import(`${join(import.meta.dirname, "../cli/main.ts")}?${index}`).catch((error: unknown) => {
    if (!(error instanceof Exit)) throw error;
    process.exitCode = error.code;
  });
  return { ...printed, exitCode: Number(process.exitCode) };
}

if (import.meta.main) {
  const [write, exit] = [process.stdout.write.bind(process.stdout), process.exit.bind(process)];
  let index = 0;
  for await (const line of createInterface({ input: process.stdin }))
    write(`${JSON.stringify(await runCommandLine(JSON.parse(line) as readonly string[], index++))}\n`);
  exit(0);
}
