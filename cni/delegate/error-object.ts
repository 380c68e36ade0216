import { isObject } from "../../proto/is-object.ts";
import { CniError } from "../error.ts";
import { DELEGATE_VERSION } from "./delegate-conf.ts";

type Fields = Readonly<Record<string, unknown>>;

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
