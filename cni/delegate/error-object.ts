import { messageOf } from "../../host/error-message.ts";
import { FilesError } from "../../host/fs/files.ts";
import { isObject } from "../../proto/is-object.ts";
import { CniError, cniCodes } from "../error.ts";
import { DELEGATE_VERSION } from "./delegate-conf.ts";

type Fields = Readonly<Record<string, unknown>>;

/** Any failure of a call as `CniError`: code 5 for files, 999 for a fault of this program. */
export function toCniError(error: unknown): CniError {
  if (error instanceof CniError) return error;
  const code = error instanceof FilesError ? cniCodes.ioFailure : cniCodes.internal;
  return new CniError(code, messageOf(error), { cause: error });
}

/** The error object that a plugin prints, with the name of the plugin that failed. Specification, section 5, "Error". */
export function toErrorObject({ code, message, details, plugin }: CniError): Fields {
  const msg = [plugin, message].filter((text) => text !== undefined && text !== "").join(": ");
  return { cniVersion: DELEGATE_VERSION, code, msg, ...(details !== "" && { details }) };
}

/** Reads an error object; undefined for any other value. */
export function parseErrorObject(value: unknown): CniError | undefined {
  if (!isObject(value)) return undefined;
  const { code, msg, details = "" } = value;
  if (typeof code !== "number" || typeof msg !== "string" || typeof details !== "string") return undefined;
  return new CniError(code, msg, { details });
}
