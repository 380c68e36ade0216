import { isatty } from "node:tty";
import { loadConfig } from "../agent/config/load.ts";
import { ConfigError, describeProblem } from "../agent/config/problem.ts";
import { runAgent } from "../agent/main.ts";
import { StartError, toOpenFilesError } from "../agent/preflight/start-error.ts";
import { createFiles } from "../host/fs/files.ts";
import { createLog, type LogControl } from "../host/log/log.ts";
import { createStderrOutput } from "../host/log/log-output.ts";
import { createProc } from "../host/proc.ts";
import { handleSignals } from "../host/signals.ts";

const NOTHING_TO_RELOAD =
  "the signal is ignored: manifests, kubeconfig and credentials are read again when they change, the configuration at the next start";

/** The klog verbosity from which debug lines are logged. */
const DEBUG_VERBOSITY = 4;

/** How the agent was started: as `berth run`, or under the name `kubelet`. */
export interface Program {
  readonly name: string;
  /** The outputs of `--version` and `--version=raw`. */
  readonly version: { readonly line: () => string; readonly raw: () => string };
}

/**
 * `berth run`: runs the agent until a signal. Exit code 2 for invalid flags or files, 1 if the agent cannot start.
 * `startWarnings` come before the configuration's own.
 */
export async function run(
  argv: readonly string[],
  { name, version }: Program,
  startWarnings: readonly string[] = [],
): Promise<number> {
  try {
    // Before the configuration is read: a later change of its file has no effect.
    const startedAt = new Date().toISOString();
    const startedIn = workingDirectory();
    const loaded = await loadConfig({
      argv,
      files: createFiles("/"),
      workingDirectory: startedIn,
      hostname: createProc().hostname(),
      program: name,
    });
    if (loaded.kind === "version") process.stdout.write(version[loaded.form]());
    if (loaded.kind === "help") process.stdout.write(loaded.text);
    if (loaded.kind !== "config") return 0;
    const { config, warnings, skippedFiles } = loaded;
    const { format, verbosity } = config.logging;
    const output = createStderrOutput();
    const log = await createLog({ format, level: levelOf(verbosity), write: output.write });
    const logControl: LogControl = {
      setVerbosity: (next) => log.setLevel(levelOf(next)),
      logBlockedMs: output.blockedMs,
    };
    for (const warning of [...startWarnings, ...warnings]) log.warn({}, warning);
    for (const file of skippedFiles) log.debug({ file }, "not a drop-in, skipped");
    const stopping = new AbortController();
    handleSignals({
      hasTerminal: isatty(2),
      onTermination(signal) {
        output.stopWaiting();
        log.info({ signal }, "stopping; the pods keep running");
        stopping.abort();
      },
      onIgnored: (signal) => log.info({ signal }, signal === "SIGHUP" ? NOTHING_TO_RELOAD : "the signal is ignored"),
    });
    const commandLine = { pid: process.pid, startedAt, argv, workingDirectory: startedIn };
    await runAgent(config, { commandLine, logControl }, log, stopping.signal);
    return 0;
  } catch (error) {
    return reportFailure(error);
  }
}

const levelOf = (verbosity: number) => (verbosity >= DEBUG_VERBOSITY ? "debug" : "info");

function workingDirectory(): string {
  try {
    return process.cwd();
  } catch (error) {
    throw new StartError("the working directory no longer exists: change to an existing one", { cause: error });
  }
}

function reportFailure(error: unknown): number {
  if (error instanceof ConfigError) {
    for (const problem of error.problems) process.stderr.write(`${describeProblem(problem)}\n`);
    return 2;
  }
  const startError = error instanceof StartError ? error : toOpenFilesError(error);
  if (startError === undefined) throw error;
  process.stderr.write(`${startError.message}\n`);
  return 1;
}
