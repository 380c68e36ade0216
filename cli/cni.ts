import { dirname } from "node:path/posix";
import { DELEGATE_DIR } from "../agent/config/config.ts";
import { standaloneFlag } from "../agent/config/flags/flag-table.ts";
import { CniError, describeCniError } from "../cni/error.ts";
import { usualCacheDir } from "../cni/network-facts.ts";
import type { PluginCallRecord } from "../cni/plugin-calls.ts";
import { FilesError } from "../host/fs/files.ts";
import { isNamespaceMount } from "../host/network-namespace.ts";
import { EXIT_CODES } from "../host/signals.ts";
import { findDelegateDirs } from "./cni/delegate-dirs.ts";
import { createLocalExecutor } from "./cni/local-executor.ts";
import { BIN_DIR, CHAIN_DIR, type CniSettings, cniVerbs, readSettings } from "./cni/settings.ts";
import { staticDelegate } from "./cni/static-delegate.ts";
import { verbHelp } from "./cni/verb-help.ts";
import { type CniVerbDeps, runVerb } from "./cni/verbs.ts";
import { type Command, helpFlag, outputFlag, readFlags, rootDirFlag } from "./command.ts";
import { exitOnBrokenPipe } from "./local-agent.ts";
import { splitPositionals } from "./positional.ts";
import { ownProgramName } from "./program-name.ts";
import { columnsOf } from "./terminal-text.ts";

const folderFlag = (name: string, description: string, folder: string) =>
  standaloneFlag(name, "string", description, { default: folder, must: "not empty" });

const CLOSING =
  "Exit code 0: done, or all is well. 1: a plugin has failed, or something stands in its way. 2: wrong arguments.\n";

const command: Command = {
  name: "cni",
  synopsis: "VERB [NETWORK] [--netns PATH] [--container-id ID] [--ifname NAME] [-o json]",
  introduction: `Runs the CNI networks of this machine by hand, plugin by plugin, as a container runtime does.
Without NETWORK it takes the first one of the folder, which container runtimes use.

  list    the networks, and the attachments in the cache
  status  whether the plugins are installed and can serve add
  add     attaches a network namespace
  check   whether an attachment still is as add has made it
  del     removes an attachment
  gc      removes the attachments whose network namespace is gone, and what plugins keep of others than those in the cache

  install    makes the agent execute the networks of --chain-dir: --conf-dir, the conf_dir of the container runtime, gets a
             list whose only plugin is berth-cni, in the first --bin-dir; it starts this program when the agent is away
  uninstall  removes both, and the bridge and the rules of the built-in network, unless pods of that network exist

  berth cni add --netns /run/netns/blue --capability-args '{"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}'
`,
  flags: [
    standaloneFlag(
      "conf-dir",
      "string",
      `the folder of the network configurations (default: ${CHAIN_DIR}; for install and uninstall ${DELEGATE_DIR})`,
      { must: "not empty" },
    ),
    folderFlag("bin-dir", "the folders of the plugins, as CNI_PATH: separated by ':'", BIN_DIR),
    folderFlag("cache-dir", "the folder of the cached results", usualCacheDir),
    folderFlag("chain-dir", "install: the folder of the networks that the agent executes", CHAIN_DIR),
    { ...rootDirFlag, description: "install, list: the agent's root directory, which has its sockets" },
    standaloneFlag("netns", "string", "the path of the network namespace"),
    standaloneFlag("ifname", "string", "the interface in the network namespace", {
      default: "eth0",
      must: "not empty",
    }),
    standaloneFlag(
      "container-id",
      "string",
      "the id of the container (default: derived from --netns, as cnitool does)",
    ),
    standaloneFlag("args", "string", "CNI_ARGS: KEY=VALUE;KEY=VALUE"),
    standaloneFlag(
      "capability-args",
      "string",
      "what plugins get for the capabilities that they declare, as a JSON object",
    ),
    standaloneFlag(
      "all",
      "bool",
      "gc: also if the cache has no attachment of the network; plugins release all that they hold",
    ),
    outputFlag("text", "json"),
    helpFlag,
  ],
  closing: `berth cni VERB --help says more about one of them.\n${CLOSING}`,
};

/** `berth cni`. Returns 2 for wrong arguments, 1 for a failure, 130 if it was interrupted. */
export async function runCni(args: readonly string[]): Promise<number> {
  const { positionals, flags, afterDashes = [] } = splitPositionals(args, command.flags);
  const given = readFlags(withHelpOf(positionals[0]), flags);
  if (typeof given === "number") return given;
  const settings = readSettings([...positionals, ...afterDashes], given, process.cwd());
  if (typeof settings === "string") return refuse(settings, 2);
  process.stdout.once("error", exitOnBrokenPipe);
  const interrupt = new AbortController();
  process.once("SIGINT", () => interrupt.abort());
  try {
    const { text, json, isGood } = await runVerb[settings.verb](settings, createDeps(settings, interrupt.signal));
    process.stdout.write(settings.isJson ? `${JSON.stringify(json)}\n` : text);
    return isGood ? 0 : 1;
  } catch (error) {
    if (interrupt.signal.aborted) {
      refuse(settings.verb === "add" ? "interrupted; berth cni del removes what was made" : "interrupted", 1);
      return EXIT_CODES.SIGINT;
    }
    if (error instanceof CniError) {
      process.stderr.write(error.stderr);
      return refuse(describeCniError(error), 1);
    }
    if (error instanceof FilesError) return refuse(error.message, 1);
    throw error;
  }
}

/** The command with the help of one verb. */
function withHelpOf(name: string | undefined): Command {
  const verb = cniVerbs.find((one) => one === name);
  if (verb === undefined) return command;
  const { synopsis, introduction, flags } = verbHelp[verb];
  const shownFlags = command.flags.filter((flag) => flags.includes(flag.name));
  return { ...command, shownFlags, introduction, synopsis: `${verb} ${synopsis}`, closing: CLOSING };
}

function createDeps(settings: CniSettings, signal: AbortSignal): CniVerbDeps {
  const calls: PluginCallRecord[] = [];
  const { files, executor } = createLocalExecutor(settings, "berth cni", (text) => {
    process.stderr.write(`berth cni waits: ${text}\n`);
  });
  const cni = executor.createCni((call) => void calls.push(call));
  const program = import.meta.path.startsWith("/$bunfs/") ? process.execPath : undefined;
  const columns = columnsOf(process.stdout);
  const installation = { program, programName: ownProgramName(), staticDelegate: staticDelegate() };
  const findDirs = () => findDelegateDirs(dirname(settings.socket));
  const readers = { files, isNamespace: isNamespaceMount, findDelegateDirs: findDirs };
  return { ...executor, ...installation, ...readers, cni, calls, signal, columns };
}

function refuse(message: string, code: number): number {
  process.stderr.write(`berth cni: ${message}\n`);
  return code;
}
