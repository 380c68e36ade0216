import { createHash } from "node:crypto";
import { resolve } from "node:path/posix";
import { DELEGATE_DIR } from "../../agent/config/config.ts";
import { NETWORK_SOCKET } from "../../agent/config/local-socket.ts";
import { messageOf } from "../../host/error-message.ts";
import { isObject } from "../../proto/is-object.ts";
import { type GivenFlags, rootDirFlag } from "../command.ts";

/** Where container runtimes and CNI plugins expect networks. */
export const CHAIN_DIR = "/etc/cni/net.d";
export const BIN_DIR = "/opt/cni/bin";

export const cniVerbs = ["list", "add", "check", "del", "gc", "status", "install", "uninstall"] as const;
export type CniCommandVerb = (typeof cniVerbs)[number];

/** What the command line of `berth cni` says. */
export interface CniSettings {
  readonly verb: CniCommandVerb;
  /** Undefined for the network that the container runtime uses. */
  readonly network: string | undefined;
  readonly confDir: string;
  readonly binDirs: readonly string[];
  readonly cacheDir: string;
  /** For install: the folder of the networks that the delegate executes. */
  readonly chainDir: string;
  /** For install: the agent's socket for the delegate. */
  readonly socket: string;
  /** An absolute path; empty without the flag. */
  readonly netns: string;
  readonly ifName: string;
  readonly containerId: string;
  readonly args: ReadonlyMap<string, string>;
  readonly capabilityArgs: Readonly<Record<string, unknown>>;
  /** For gc: also without an attachment in the cache. */
  readonly isOfAll: boolean;
  readonly isJson: boolean;
}

/** Reads the arguments of `berth cni`. Returns what is wrong as a text. */
export function readSettings(
  positionals: readonly string[],
  given: GivenFlags,
  workingDirectory: string,
): CniSettings | string {
  const [name, network, ...others] = positionals;
  const verb = cniVerbs.find((one) => one === name);
  const choice = `one of ${cniVerbs.join(", ")}`;
  if (verb === undefined)
    return name === undefined ? `what to do? ${choice}` : `unknown verb ${JSON.stringify(name)}, must be ${choice}`;
  if (others.length > 0) return `unexpected argument ${JSON.stringify(others[0])}: one network follows the verb`;
  const netns = given.text("netns") === "" ? "" : resolve(workingDirectory, given.text("netns"));
  const containerId = given.text("container-id");
  if (netns === "" && (verb === "add" || verb === "check")) return `${verb} needs --netns`;
  if (netns === "" && containerId === "" && verb === "del") return "del needs --netns, or --container-id";
  const isInstallation = verb === "install" || verb === "uninstall";
  if (network !== undefined && isInstallation) return `${verb} takes no network`;
  const args = parseArgs(given.text("args"));
  if (typeof args === "string") return args;
  const capabilityArgs = parseCapabilityArgs(given.text("capability-args"));
  if (typeof capabilityArgs === "string") return capabilityArgs;
  return {
    verb,
    network,
    confDir: resolve(workingDirectory, given.text("conf-dir") || (isInstallation ? DELEGATE_DIR : CHAIN_DIR)),
    binDirs: given
      .text("bin-dir")
      .split(":")
      .map((folder) => resolve(workingDirectory, folder)),
    cacheDir: resolve(workingDirectory, given.text("cache-dir")),
    chainDir: resolve(workingDirectory, given.text("chain-dir")),
    socket: resolve(workingDirectory, given.text(rootDirFlag.name), NETWORK_SOCKET),
    netns,
    ifName: given.text("ifname"),
    containerId: containerId === "" ? containerIdOf(netns) : containerId,
    args,
    capabilityArgs,
    isOfAll: given.isSet("all"),
    isJson: given.text("output") === "json",
  };
}

/** As cnitool derives it, so that each of both deletes what the other one has added. */
function containerIdOf(netns: string): string {
  return `cnitool-${createHash("sha512").update(netns).digest("hex").slice(0, 20)}`;
}

function parseArgs(text: string): ReadonlyMap<string, string> | string {
  const pairs = text === "" ? [] : text.split(";").map((pair) => pair.split("="));
  const wrong = pairs.find((pair) => pair.length !== 2 || pair.includes(""));
  if (wrong !== undefined) return `--args: found ${JSON.stringify(wrong.join("="))}, must be KEY=VALUE;KEY=VALUE`;
  return new Map(pairs.map(([key = "", value = ""]) => [key, value]));
}

function parseCapabilityArgs(text: string): Readonly<Record<string, unknown>> | string {
  if (text === "") return {};
  const must =
    'must be a JSON object such as {"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}';
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : `--capability-args: found ${text}, ${must}`;
  } catch (error) {
    return `--capability-args: ${messageOf(error)}; ${must}`;
  }
}
