import { messageOf } from "../host/error-message.ts";
import { type Exec, ExecError } from "../host/exec.ts";
import type { Files } from "../host/fs/files.ts";
import { type ShareLocks, shareNoLocks } from "./attachment-locks.ts";
import { CniError, cniCodes } from "./error.ts";
import { findPlugin, pluginPaths } from "./find-plugin.ts";
import type { InProcessPlugin, PluginCall } from "./plugin-call.ts";
import { type PluginExit, readPluginOutput, readVersions } from "./plugin-output.ts";
import { type TimeLimit, unlimited } from "./time-limit.ts";
import { CURRENT_VERSION } from "./version.ts";

/** The plugins that are programs of this machine. A call resolves with the JSON object that the plugin has printed, of the version that it names. */
export interface PluginBinaries extends InProcessPlugin {
  /** The path of a plugin's binary. Rejects with code 50 if no folder has it, or it cannot be executed. */
  find(type: string): Promise<string>;
  /** The paths at which `find` may look. */
  pathsOf(type: string): readonly string[];
  /** The versions that the plugin speaks, by VERSION. */
  versions(type: string, signal: AbortSignal): Promise<readonly string[]>;
  /** The same binaries for one call of a network: their processes inherit its locks, and end in the time that it has left. */
  forCall(shareLocks: ShareLocks, timeLimit: Pick<TimeLimit, "ofPlugin">): InProcessPlugin;
}

export interface PluginBinariesOptions {
  readonly exec: Exec;
  readonly files: Pick<Files, "stat">;
  /** The folders in which a binary is searched, the first one first. */
  readonly binDirs: readonly string[];
  /** The environment of the plugins besides `CNI_…`: many run iptables and need its PATH. */
  readonly env: Readonly<Record<string, string>>;
  /** A plugin that runs longer is killed with all that it has started. */
  readonly timeoutMs: number;
}

const MAX_OUTPUT_BYTES = 1 << 20;

export function createPluginBinaries({ exec, files, binDirs, env, timeoutMs }: PluginBinariesOptions): PluginBinaries {
  async function find(type: string): Promise<string> {
    const unusable = (message: string, cause?: unknown) =>
      new CniError(cniCodes.notAvailable, message, { plugin: type, cause });
    const found = await findPlugin(files, binDirs, type).catch((cause: unknown) => {
      throw unusable(messageOf(cause), cause);
    });
    if (found === undefined) throw unusable(`its binary is in none of the folders ${binDirs.join(", ")}`);
    if (!found.isExecutable) throw unusable(`${found.path} is not executable; chmod +x it`);
    return found.path;
  }

  async function run(type: string, variables: Readonly<Record<string, string>>, { signal, ...input }: RunInput) {
    const path = await find(type);
    if (input.timeoutMs <= 0) throw new CniError(cniCodes.unknown, NO_TIME_LEFT, { plugin: type });
    const CNI_PATH = binDirs.join(":");
    const options = {
      ...input,
      env: { ...env, ...variables, CNI_PATH },
      signal,
      maxOutputBytes: MAX_OUTPUT_BYTES,
    };
    return readPluginOutput(type, await runToExit(exec, path, type, options));
  }

  const forCall: PluginBinaries["forCall"] = (shareLocks, timeLimit) => ({
    call: (call, signal) =>
      run(String(call.conf["type"]), variablesOf(call), {
        stdin: JSON.stringify(call.conf),
        inheritedDescriptors: shareLocks(),
        timeoutMs: Math.min(timeoutMs, timeLimit.ofPlugin(call.verb)),
        signal,
      }),
  });
  return {
    find,
    pathsOf: (type) => pluginPaths(binDirs, type),
    ...forCall(shareNoLocks, unlimited),
    forCall,
    async versions(type, signal) {
      const variables = { CNI_COMMAND: "VERSION", ...PLACEHOLDERS };
      const stdin = JSON.stringify({ cniVersion: CURRENT_VERSION });
      return readVersions(type, await run(type, variables, { stdin, timeoutMs, signal }));
    },
  };
}

interface RunInput {
  readonly stdin: string;
  readonly inheritedDescriptors?: readonly number[];
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

const NO_TIME_LEFT = "it was not started: the call has no time left";

/** Plugins that were built with an early libcni want these for VERSION, too. */
const PLACEHOLDERS = { CNI_CONTAINERID: "dummy", CNI_NETNS: "dummy", CNI_IFNAME: "dummy", CNI_ARGS: "" };

/** The parameters of a call in a plugin's environment. Specification, section 2, "Parameters". */
function variablesOf({ verb, containerId, netns, ifName, args }: PluginCall): Readonly<Record<string, string>> {
  return {
    CNI_COMMAND: verb,
    CNI_CONTAINERID: containerId,
    CNI_NETNS: netns,
    CNI_IFNAME: ifName,
    CNI_ARGS: [...args].map(([key, value]) => `${key}=${value}`).join(";"),
  };
}

type RunOptions = Parameters<Exec["run"]>[1] & { readonly signal: AbortSignal };

/** Runs a binary, and also returns what it has printed before it failed. Rejects with the signal's reason when that aborts. */
async function runToExit(exec: Exec, path: string, plugin: string, options: RunOptions): Promise<PluginExit> {
  let printed = "";
  const onStdout = (text: string) => {
    printed += text;
  };
  try {
    const { stdout, stderr } = await exec.run([path], { ...options, onStdout });
    return { failure: undefined, stdout, stderr };
  } catch (error) {
    if (options.signal.aborted) throw options.signal.reason;
    if (!(error instanceof ExecError)) throw error;
    // An installer may just be writing the file, for which libcni waits some seconds, too. The plugin has not run.
    if (codeOf(error.cause) === "ENOEXEC")
      throw new CniError(cniCodes.tryAgainLater, error.message, { plugin, cause: error });
    return { failure: error.message, stdout: printed, stderr: error.stderr };
  }
}

const codeOf = (error: unknown) => (error instanceof Error && "code" in error ? error.code : undefined);
