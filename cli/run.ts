import { loadConfig } from "../agent/config/load.ts";
import { ConfigError, describeProblem } from "../agent/config/problem.ts";
import { runAgent } from "../agent/main.ts";
import { StartError } from "../agent/preflight/start-error.ts";
import { createFiles } from "../host/fs/files.ts";
import { createLog, stderrLines } from "../host/log.ts";
import { createProc } from "../host/proc.ts";
import { onTermination } from "../host/signals.ts";

/** klog's verbosity, from which on debug lines are shown. */
const DEBUG_VERBOSITY = 4;

/** What `--version` and `--version=raw` print: the kubelet's words when started under its name, else Berth's. */
export interface VersionTexts {
  readonly line: () => string;
  readonly raw: () => string;
}

/** `berth run`: the agent, until a signal ends it. Exit code 2 for flags or files that cannot be used, 1 if it cannot start. */
export async function run(argv: readonly string[], version: VersionTexts): Promise<number> {
  try {
    const loaded = await loadConfig({
      argv,
      files: createFiles("/"),
      workingDirectory: workingDirectory(),
      hostname: createProc().hostname(),
    });
    if (loaded.kind === "version") process.stdout.write(version[loaded.form]());
    if (loaded.kind === "help") process.stdout.write(loaded.text);
    if (loaded.kind !== "config") return 0;
    const { config, warnings, skippedFiles } = loaded;
    const { format, verbosity } = config.logging;
    const log = createLog({ format, level: verbosity >= DEBUG_VERBOSITY ? "debug" : "info", write: stderrLines() });
    for (const warning of warnings) log.warn({}, warning);
    for (const file of skippedFiles) log.debug({ file }, "not a drop-in, skipped");
    const ending = new AbortController();
    onTermination((signal) => {
      log.info({ signal }, "stopping");
      ending.abort();
    });
    await runAgent(config, log, ending.signal);
    return 0;
  } catch (error) {
    return refuse(error);
  }
}

function workingDirectory(): string {
  try {
    return process.cwd();
  } catch (error) {
    throw new StartError("the working directory is gone: change to one that is there", { cause: error });
  }
}

function refuse(error: unknown): number {
  if (error instanceof ConfigError) {
    for (const problem of error.problems) process.stderr.write(`${describeProblem(problem)}\n`);
    return 2;
  }
  if (!(error instanceof StartError)) throw error;
  process.stderr.write(`${error.message}\n`);
  return 1;
}
