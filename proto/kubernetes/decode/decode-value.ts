import { isObject } from "../../is-object.ts";
import { truncateText } from "../../truncate-text.ts";
import { shapes } from "../gen/shapes.ts";
import { type FieldError, invalid, wrongType } from "../validation/field-error.ts";
import { parseQuantity, QuantityError } from "../values/quantity.ts";

/** What a decoding rejects beyond lists that are no lists and objects that are no objects. */
export interface DecodeMode {
  /** Decoding stops at this number of errors. */
  readonly maxErrors: number;
  /** The found value, for messages about its type. */
  readonly describeFound: (value: unknown) => string;
  /** The error of a field that the schema lacks; undefined keeps the field. */
  readonly checkUnknownField: (path: PathText, key: string, fields: Shape) => FieldError | undefined;
  /** The error of a value whose type is neither a list, a map nor an object; undefined accepts the value. */
  readonly checkScalar: (path: PathText, type: string, value: unknown) => FieldError | undefined;
}

/** The fields of a schema and their types. */
export type Shape = { readonly [field: string]: string };

/** Formats the path of the value being decoded: `spec.containers[0]`. */
export type PathText = () => string;

export interface DecodedValue {
  readonly value: unknown;
  /** Not empty: the value must not be used. */
  readonly errors: readonly FieldError[];
}

interface DecodeState {
  readonly mode: DecodeMode;
  /** The path of the value being decoded: `spec`, `.containers`, `[0]`. */
  readonly path: string[];
  readonly pathText: PathText;
  readonly errors: FieldError[];
}

/**
 * Decodes a JSON value as an object of the API. As in the API, `null` means unset and is removed, unset required fields
 * become empty, and quantities written as numbers become strings. Returns the same value when nothing changes.
 */
export function decodeValue(schema: string, value: unknown, mode: DecodeMode): DecodedValue {
  const path: string[] = [];
  const state: DecodeState = { mode, path, pathText: () => path.join(""), errors: [] };
  return { value: decodeType(schema, value, state), errors: state.errors };
}

function decodeType(type: string, value: unknown, state: DecodeState): unknown {
  if (type.startsWith("[]")) return decodeList(type.slice(2), value, state);
  if (type.startsWith("{}")) return decodeMap(type.slice(2), value, state);
  if (Object.hasOwn(shapes, type)) return decodeObject(type, value, state);
  addError(state, state.mode.checkScalar(state.pathText, type, value));
  return type === "Quantity" && typeof value === "number" ? String(value) : value;
}

function decodeObject(schema: string, value: unknown, state: DecodeState): unknown {
  if (!isObject(value)) return addTypeError(state, value, "object");
  const fields = shapes[schema] ?? {};
  let changed: Record<string, unknown> | undefined;
  for (const key of Object.keys(value)) {
    const item = value[key];
    const decoded = decodeField(fields, key, item, state);
    if (isFinished(state)) return undefined;
    if (decoded === item) continue;
    changed ??= { ...value };
    if (decoded === undefined) delete changed[key];
    else changed[key] = decoded;
  }
  for (const key in fields) {
    if (!fields[key]?.endsWith("!") || (Object.hasOwn(value, key) && !isUnset(value[key]))) continue;
    changed ??= { ...value };
    changed[key] = zeroValue(fields[key].slice(0, -1));
  }
  return changed ?? value;
}

function decodeField(fields: Shape, key: string, item: unknown, state: DecodeState): unknown {
  const type = Object.hasOwn(fields, key) ? fields[key] : undefined;
  if (type !== undefined && isUnset(item)) return undefined;
  state.path.push(state.path.length > 0 ? `.${key}` : key);
  let decoded = item;
  if (type === undefined) addError(state, state.mode.checkUnknownField(state.pathText, key, fields));
  else decoded = decodeType(type.endsWith("!") ? type.slice(0, -1) : type, item, state);
  state.path.pop();
  return decoded;
}

function isUnset(value: unknown): boolean {
  return value === undefined || value === null;
}

function decodeList(type: string, value: unknown, state: DecodeState): unknown {
  if (!Array.isArray(value)) return addTypeError(state, value, "array");
  let changed: unknown[] | undefined;
  for (const [index, item] of value.entries()) {
    const decoded = decodeElement(type, item, `[${index}]`, state);
    if (isFinished(state)) return undefined;
    if (decoded === item) continue;
    changed ??= [...value];
    changed[index] = decoded;
  }
  return changed ?? value;
}

function decodeMap(type: string, value: unknown, state: DecodeState): unknown {
  if (!isObject(value)) return addTypeError(state, value, "object");
  let changed: [string, unknown][] | undefined;
  const entries = Object.entries(value);
  for (const [index, [key, item]] of entries.entries()) {
    const decoded = decodeElement(type, item, `[${truncateText(key, MAX_SHOWN_LENGTH)}]`, state);
    if (isFinished(state)) return undefined;
    if (decoded === item) continue;
    changed ??= [...entries];
    changed[index] = [key, decoded];
  }
  // Object.fromEntries also sets keys such as __proto__.
  return changed === undefined ? value : Object.fromEntries(changed);
}

function decodeElement(type: string, value: unknown, step: string, state: DecodeState): unknown {
  state.path.push(step);
  const decoded = decodeType(type, value, state);
  state.path.pop();
  return decoded;
}

/** The value by which the API represents an unset required field of this type. */
function zeroValue(type: string): unknown {
  if (type.startsWith("[]")) return [];
  if (type.startsWith("{}")) return {};
  if (Object.hasOwn(shapes, type)) {
    const required = Object.entries(shapes[type] ?? {}).filter(([, fieldType]) => fieldType.endsWith("!"));
    return Object.fromEntries(required.map(([field, fieldType]) => [field, zeroValue(fieldType.slice(0, -1))]));
  }
  if (type === "boolean") return false;
  return ["int32", "int64", "IntOrString"].includes(type) ? 0 : "";
}

function isFinished({ errors, mode }: DecodeState): boolean {
  return errors.length >= mode.maxErrors;
}

function addTypeError(state: DecodeState, value: unknown, expected: string): undefined {
  addError(state, wrongType(state.pathText(), `got ${state.mode.describeFound(value)}, expected ${expected}`));
}

function addError({ errors }: DecodeState, error: FieldError | undefined): void {
  if (error !== undefined) errors.push(error);
}

/**
 * The JSON type that this API type requires; undefined if the value has it. Times, enumerations and free texts are
 * strings. 64-bit numbers lose their last digits in JSON, but remain integers.
 */
export function missingType(type: string, value: unknown): string | undefined {
  switch (type) {
    case "any":
      return undefined;
    case "boolean":
      return typeof value === "boolean" ? undefined : "boolean";
    case "int32":
    case "int64":
      return Number.isInteger(value) ? undefined : "integer";
    case "IntOrString":
      return Number.isInteger(value) || typeof value === "string" ? undefined : "integer or string";
    case "Quantity":
      return typeof value === "number" || typeof value === "string" ? undefined : "string or number";
    default:
      return typeof value === "string" ? undefined : "string";
  }
}

/** The error of a text or number that is not a quantity. */
export function checkQuantity(path: PathText, text: string): FieldError | undefined {
  try {
    parseQuantity(text);
    return undefined;
  } catch (error) {
    if (error instanceof QuantityError) return invalid(path(), text, error.problem);
    throw error;
  }
}

/** The JSON name of the value's type. */
export function typeName(value: unknown): string {
  if (value === null || value === undefined) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}

/** Messages show the beginning of a longer key or path. */
export const MAX_SHOWN_LENGTH = 200;
