import { CniError, cniCodes } from "./error.ts";
import type { PluginCall } from "./plugin-call.ts";

/** What network names and container ids are made of; a name may not lead out of the cache's folder. Specification, sections 1 and 2. */
const NAME = /^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/;

/** IFNAMSIZ of the kernel, with the byte at its end. */
const MAX_IF_NAME_BYTES = 15;

/** What a network name must be, for error texts. */
export const networkNameRule = "letters, digits, '_', '.' and '-', and begin with a letter or a digit";

export function isNetworkName(name: string): boolean {
  return NAME.test(name);
}

/** Whether the `type` of a plugin can name a file in a folder of binaries. */
export function isPluginType(type: string): boolean {
  return type !== "" && type !== "." && type !== ".." && !/[/\\\0]/.test(type);
}

type Parameters = Pick<PluginCall, "containerId" | "ifName" | "args">;

/** Throws a `CniError` with the specification's code if a parameter of an attachment is not valid; libcni has the same rules. */
export function checkParameters({ containerId, ifName, args }: Parameters): void {
  if (containerId === "") throw new CniError(cniCodes.unknownContainer, "the container id is empty");
  if (!NAME.test(containerId))
    throw invalid(`container id: found ${JSON.stringify(containerId)}, must consist of ${networkNameRule}`);
  const problem = ifNameProblem(ifName);
  if (problem !== undefined) throw invalid(`interface name: found ${JSON.stringify(ifName)}, ${problem}`);
  for (const [key, value] of args)
    if (key === "" || /[;=]/.test(key) || /[;=]/.test(value))
      throw invalid(
        `CNI_ARGS: found ${JSON.stringify(`${key}=${value}`)}, must be KEY=VALUE without further '=' and ';'`,
      );
}

/** Why the kernel accepts no interface of this name, such as `must have at most 15 bytes`; undefined if it does. */
export function ifNameProblem(ifName: string): string | undefined {
  if (ifName === "" || ifName === "." || ifName === "..") return "must be the name of an interface";
  if (Buffer.byteLength(ifName) > MAX_IF_NAME_BYTES) return `must have at most ${MAX_IF_NAME_BYTES} bytes`;
  return /[/:\s\0]/.test(ifName) ? "must have no '/', ':' and white space" : undefined;
}

const invalid = (message: string) => new CniError(cniCodes.invalidEnvironment, message);
