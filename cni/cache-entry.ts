import { messageOf } from "../host/error-message.ts";
import { goJson } from "../proto/go-json.ts";
import { isObject } from "../proto/is-object.ts";

type Fields = Readonly<Record<string, unknown>>;

/** What names an attachment among all of a machine. */
export interface AttachmentKey {
  readonly network: string;
  readonly containerId: string;
  readonly ifName: string;
}

/** What the cache keeps of an attachment from ADD to DEL. */
export interface CacheEntry extends AttachmentKey {
  readonly netns: string;
  readonly args: ReadonlyMap<string, string>;
  readonly capabilityArgs: Fields;
  /** The network as JSON; empty in the files of libcni before 0.8, which hold the result alone. */
  readonly config: string;
  /** The result of ADD as JSON, of the version that it names. */
  readonly result: Fields;
}

/** An argument that only container runtimes give to plugins, for pods. */
const POD_ARGUMENT = "K8S_POD_INFRA_CONTAINER_ID";

/** Whether a container runtime has added an attachment for a pod. */
export const isOfPod = ({ args }: Pick<CacheEntry, "args">): boolean => args.has(POD_ARGUMENT);

/** The name of an attachment's file, as libcni has it. */
export function cacheFileName({ network, containerId, ifName }: AttachmentKey): string {
  return `${network}-${containerId}-${ifName}`;
}

/** The attachment of a network that a file name means, for a file that says nothing any more; undefined for another network. */
export function keyOfFileName(name: string, network: string): AttachmentKey | undefined {
  const rest = name.startsWith(`${network}-`) ? name.slice(network.length + 1) : "";
  const at = rest.lastIndexOf("-");
  if (at <= 0 || at === rest.length - 1) return undefined;
  return { network, containerId: rest.slice(0, at), ifName: rest.slice(at + 1) };
}

const KIND = "cniCacheV1";

/** Writes an entry as libcni does: the configuration as base64, empty fields left out. */
export function encodeCacheEntry(entry: CacheEntry): string {
  const { network, containerId, ifName, netns, args, capabilityArgs, config, result } = entry;
  return goJson({
    kind: KIND,
    containerId,
    config: Buffer.from(config).toString("base64"),
    ifName,
    networkName: network,
    ...(netns !== "" && { netns }),
    ...(args.size > 0 && { cniArgs: [...args] }),
    ...(Object.keys(capabilityArgs).length > 0 && { capabilityArgs }),
    ...(Object.keys(result).length > 0 && { result }),
  });
}

/** Reads an entry that libcni or this code has written for `key`. Returns why it cannot be read, as a text. */
export function decodeCacheEntry(text: string, key: AttachmentKey | undefined): CacheEntry | string {
  const fields = parse(text);
  if (typeof fields === "string") return fields;
  const nothing = { netns: "", args: new Map<string, string>(), capabilityArgs: {} };
  if (fields["kind"] === undefined && key !== undefined && isEarlyResult(fields))
    return { ...key, ...nothing, config: "", result: fields };
  if (fields["kind"] !== KIND) return `kind: found ${JSON.stringify(fields["kind"])}, must be ${JSON.stringify(KIND)}`;
  const {
    containerId,
    config,
    ifName,
    networkName,
    netns = "",
    cniArgs = [],
    capabilityArgs = {},
    result = {},
  } = fields;
  if (typeof containerId !== "string" || typeof ifName !== "string" || typeof networkName !== "string")
    return "containerId, ifName and networkName must be texts";
  if (typeof config !== "string" || typeof netns !== "string") return "config and netns must be texts";
  if (!Array.isArray(cniArgs) || !cniArgs.every(isPair)) return "cniArgs must be a list of pairs";
  if (!isObject(capabilityArgs) || !isObject(result)) return "capabilityArgs and result must be objects";
  return {
    network: networkName,
    containerId,
    ifName,
    netns,
    args: new Map(cniArgs),
    capabilityArgs,
    config: Buffer.from(config, "base64").toString(),
    result,
  };
}

function parse(text: string): Fields | string {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : "it is not a JSON object";
  } catch (error) {
    return messageOf(error);
  }
}

const isEarlyResult = (fields: Fields) => ["cniVersion", "ips", "ip4", "ip6"].some((name) => name in fields);

/** Whether a value of JSON is one of the arguments in CNI_ARGS: its key and its value. */
export function isPair(value: unknown): value is [string, string] {
  return Array.isArray(value) && value.length === 2 && value.every((text) => typeof text === "string");
}
