import { isObject } from "../proto/is-object.ts";
import { truncateText } from "../proto/truncate-text.ts";
import { CniError, cniCodes } from "./error.ts";

/** How one call of a plugin's binary has ended, and what it has printed. */
export interface PluginExit {
  /** Why it failed, such as `exited with code 1`; undefined if it exited with code 0. */
  readonly failure: string | undefined;
  readonly stdout: string;
  readonly stderr: string;
}

type Fields = Readonly<Record<string, unknown>>;

/**
 * What a plugin has printed: a JSON object, or undefined for nothing. A plugin that prints an error object has failed, whatever
 * its exit code. Specification, section 5, "Error".
 *
 * @throws CniError with the plugin's own words and code; with code 0 if it has printed none, and with code 6 if it has exited
 * with code 0 and printed anything but a JSON object
 */
export function readPluginOutput(plugin: string, { failure, stdout, stderr }: PluginExit): Fields | undefined {
  const output = parseOutput(stdout);
  const kept = { plugin, stderr: endOf(stderr) };
  if (isErrorObject(output) && (failure !== undefined || output["code"] !== 0))
    throw new CniError(Number(output["code"]), textOf(output["msg"]), { ...kept, details: textOf(output["details"]) });
  if (failure !== undefined) {
    // A plugin that the executor has killed may have printed anything.
    const words = [stdout, stderr].map((text) => truncateText(text.trim(), MAX_WORDS)).filter((text) => text !== "");
    throw new CniError(cniCodes.unknown, failure, { ...kept, details: words.join("; ") });
  }
  if (output === undefined || isObject(output)) return output;
  const details = truncateText(stdout.trim(), MAX_WORDS);
  throw new CniError(cniCodes.decodingFailure, "it printed no JSON object", { ...kept, details });
}

/** The versions in the answer to VERSION. Specification, section 5, "VERSION Success". */
export function readVersions(plugin: string, output: Fields | undefined): readonly string[] {
  const { cniVersion, supportedVersions } = output ?? {};
  if (Array.isArray(supportedVersions)) return supportedVersions.map(String);
  // A plugin of 0.2.0 may leave the list out.
  if (cniVersion === "0.2.0") return ["0.1.0", "0.2.0"];
  throw new CniError(cniCodes.decodingFailure, "it answered VERSION without supportedVersions", { plugin });
}

const MAX_WORDS = 500;
const MAX_STDERR = 4096;

function isErrorObject(output: unknown): output is Fields {
  return isObject(output) && typeof output["code"] === "number" && typeof output["msg"] === "string";
}

/** Undefined for nothing but white space, the text itself if it is not JSON. */
function parseOutput(stdout: string): unknown {
  if (stdout.trim() === "") return undefined;
  try {
    return JSON.parse(stdout);
  } catch {
    // The caller reports the text, which says more than where its syntax is wrong.
    return stdout;
  }
}

const textOf = (value: unknown) => (typeof value === "string" ? value : "");
const endOf = (text: string) => text.slice(-MAX_STDERR);
