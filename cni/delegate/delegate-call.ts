import { messageOf } from "../../host/error-message.ts";
import { isObject } from "../../proto/is-object.ts";
import { isPair } from "../cache-entry.ts";
import type { Attachment } from "../chain.ts";
import { CniError, cniCodes } from "../error.ts";
import { checkParameters } from "../names.ts";

/** The verbs that the delegate hands over. The agent calls STATUS and GC of the chain itself. */
const VERBS = ["ADD", "DEL", "CHECK"] as const;
export type DelegateVerb = (typeof VERBS)[number];

/**
 * The longest request that the agent reads, as MAX_REQUEST of berth-cni.c: the `runtimeConfig` of the longest configuration that the
 * delegate accepts, which has 1 MiB, and the variables of the environment, of which each has at most 128 KiB.
 */
export const MAX_REQUEST_BYTES = 2 << 20;

/** One call of the runtime, as it crosses the agent's socket. */
export interface DelegateCall {
  readonly verb: DelegateVerb;
  readonly attachment: Attachment;
  /** How long the runtime still waits for the answer. Undefined if the delegate is of an earlier build, which does not send it. */
  readonly timeLeftMs?: number | undefined;
}

type Fields = Readonly<Record<string, unknown>>;
type Environment = Readonly<Record<string, string | undefined>>;

/** Whether the delegate hands this verb over. */
export function isDelegateVerb(verb: string): verb is DelegateVerb {
  return VERBS.some((each) => each === verb);
}

/**
 * The call that the runtime makes: the parameters in the environment, and `runtimeConfig` in the configuration on standard input.
 * Specification, section 2, "Parameters".
 *
 * @throws CniError with code 4 for a parameter, 6 for a `runtimeConfig` of another type
 */
export function readDelegateCall(verb: DelegateVerb, env: Environment, conf: Fields): DelegateCall {
  const runtimeConfig = conf["runtimeConfig"] ?? {};
  if (!isObject(runtimeConfig)) throw wrong("runtimeConfig", runtimeConfig, "an object");
  const attachment: Attachment = {
    containerId: env["CNI_CONTAINERID"] ?? "",
    netns: env["CNI_NETNS"] ?? "",
    ifName: env["CNI_IFNAME"] ?? "",
    args: parseArgs(env["CNI_ARGS"] ?? ""),
    capabilityArgs: runtimeConfig,
  };
  return checkCall({ verb, attachment });
}

/** The call as the request's body. */
export function encodeDelegateCall({ verb, attachment: { args, ...attachment }, timeLeftMs }: DelegateCall): string {
  return JSON.stringify({ verb, ...attachment, args: [...args], timeLeftMs });
}

/**
 * Reads the body of a request.
 *
 * @throws CniError with code 6 for what is no call, with code 4 for a parameter that is not valid
 */
export function decodeDelegateCall(text: string): DelegateCall {
  const fields = parseObject(text);
  const { verb, args, capabilityArgs, timeLeftMs } = fields;
  if (typeof verb !== "string" || !isDelegateVerb(verb)) throw wrong("verb", verb, `one of ${VERBS.join(", ")}`);
  if (!Array.isArray(args) || !args.every(isPair)) throw wrong("args", args, "a list of pairs");
  if (!isObject(capabilityArgs)) throw wrong("capabilityArgs", capabilityArgs, "an object");
  if (timeLeftMs !== undefined && !isDuration(timeLeftMs))
    throw wrong("timeLeftMs", timeLeftMs, "a whole number of milliseconds above 0");
  const textOf = (name: string): string => {
    const value = fields[name];
    if (typeof value !== "string") throw wrong(name, value, "a text");
    return value;
  };
  const [containerId, netns, ifName] = [textOf("containerId"), textOf("netns"), textOf("ifName")];
  const attachment = { containerId, netns, ifName, args: new Map(args), capabilityArgs };
  return checkCall({ verb, attachment, timeLeftMs });
}

/** Returns the call. Throws unless both processes understand its parameters alike. */
function checkCall(call: DelegateCall): DelegateCall {
  const { verb, attachment } = call;
  checkParameters(attachment);
  const { netns } = attachment;
  if (netns === "" && verb !== "DEL") throw invalid(`CNI_NETNS: found nothing, ${verb} needs a network namespace`);
  const rule = "must be an absolute path that means the same for every process";
  if (netns !== "" && (!netns.startsWith("/") || /^\/proc\/(thread-)?self\//.test(netns)))
    throw invalid(`CNI_NETNS: found ${JSON.stringify(netns)}, ${rule}`);
  return call;
}

const isDuration = (value: unknown): value is number =>
  typeof value === "number" && Number.isSafeInteger(value) && value > 0;

/** `KEY=VALUE;KEY=VALUE`, as libcni writes it. */
function parseArgs(text: string): ReadonlyMap<string, string> {
  const pairs = text.split(";").filter((pair) => pair !== "");
  const wrongPair = pairs.find((pair) => pair.split("=").length !== 2);
  if (wrongPair !== undefined)
    throw invalid(`CNI_ARGS: found ${JSON.stringify(wrongPair)}, must be KEY=VALUE;KEY=VALUE`);
  return new Map(pairs.map((pair) => pair.split("=") as [string, string]));
}

function parseObject(text: string): Fields {
  try {
    const value: unknown = JSON.parse(text);
    if (isObject(value)) return value;
  } catch (cause) {
    throw new CniError(cniCodes.decodingFailure, `the request is not JSON: ${messageOf(cause)}`, { cause });
  }
  throw new CniError(cniCodes.decodingFailure, "the request is no JSON object");
}

const invalid = (message: string) => new CniError(cniCodes.invalidEnvironment, message);
const wrong = (name: string, found: unknown, must: string) =>
  new CniError(cniCodes.decodingFailure, `${name}: found ${JSON.stringify(found) ?? "nothing"}, must be ${must}`);
