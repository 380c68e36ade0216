import { shapes } from "../gen/shapes.ts";
import type { Node, Pod } from "../gen/types.ts";
import { parseQuantity, QuantityError } from "../quantity.ts";
import { type FieldError, invalid, wrongType } from "../validation/field-error.ts";
import { typeName, zeroValue } from "./strict-decode.ts";

interface Kinds {
  readonly Node: Node;
  readonly Pod: Pod;
}

/** What somebody has told of an object, or the first thing in it that cannot be read as the API says. */
export type Told<T> =
  | { readonly object: T; readonly problem?: never }
  | { readonly object?: never; readonly problem: FieldError };

interface Reading {
  /** Where the reader is: `spec`, `.containers`, `[0]`. */
  readonly path: string[];
  problem: FieldError | undefined;
}

type Json = Readonly<Record<string, unknown>>;

/**
 * Reads what an API server tells of an object, which may be newer than this release: fields and texts that are not known stay as they
 * are. But a list is a list and a number a number, so that whoever reads the object trips over
 * none. As in the API, `null` stands for "not given" and is left out, and required fields that are not given are empty. Gives the value
 * itself back where nothing of it has to change. Total.
 */
export function readTold<Kind extends keyof Kinds>(kind: Kind, value: unknown): Told<Kinds[Kind]> {
  const reading: Reading = { path: [], problem: undefined };
  const object = readValue(kind, value, reading);
  const { problem } = reading;
  return problem === undefined ? { object: object as Kinds[Kind] } : { problem };
}

function readValue(type: string, value: unknown, reading: Reading): unknown {
  if (type.startsWith("[]")) return readList(type.slice(2), value, reading);
  if (type.startsWith("{}")) return readMap(type.slice(2), value, reading);
  if (Object.hasOwn(shapes, type)) return readObject(type, value, reading);
  return readScalar(type, value, reading);
}

function readObject(schema: string, value: unknown, reading: Reading): unknown {
  if (!isObject(value)) return fail(reading, value, "object");
  const fields = shapes[schema] ?? {};
  let changed: Record<string, unknown> | undefined;
  for (const key in fields) {
    const item = Object.hasOwn(value, key) ? value[key] : undefined;
    const type = fields[key] ?? "any";
    const isRequired = type.endsWith("!");
    if (item === undefined && !isRequired) continue;
    const read = isNothing(item)
      ? zeroOf(type)
      : readPart(isRequired ? type.slice(0, -1) : type, item, reading, reading.path.length > 0 ? `.${key}` : key);
    if (reading.problem !== undefined) return undefined;
    if (read === item) continue;
    changed ??= { ...value };
    if (read === undefined) delete changed[key];
    else changed[key] = read;
  }
  return changed ?? value;
}

function isNothing(value: unknown): boolean {
  return value === undefined || value === null;
}

/** What stands for a field that is not given; undefined where it may be left out. */
function zeroOf(type: string): unknown {
  return type.endsWith("!") ? zeroValue(type.slice(0, -1)) : undefined;
}

function readList(type: string, value: unknown, reading: Reading): unknown {
  if (!Array.isArray(value)) return fail(reading, value, "array");
  let changed: unknown[] | undefined;
  for (const [index, item] of value.entries()) {
    const read = readPart(type, item, reading, `[${index}]`);
    if (reading.problem !== undefined) return undefined;
    if (read === item) continue;
    changed ??= [...value];
    changed[index] = read;
  }
  return changed ?? value;
}

function readMap(type: string, value: unknown, reading: Reading): unknown {
  if (!isObject(value)) return fail(reading, value, "object");
  let changed: [string, unknown][] | undefined;
  const entries = Object.entries(value);
  for (const [index, [key, item]] of entries.entries()) {
    const read = readPart(type, item, reading, `[${key}]`);
    if (reading.problem !== undefined) return undefined;
    if (read === item) continue;
    changed ??= [...entries];
    changed[index] = [key, read];
  }
  // Of keys that JavaScript means something by, too.
  return changed === undefined ? value : Object.fromEntries(changed);
}

function readPart(type: string, value: unknown, reading: Reading, step: string): unknown {
  reading.path.push(step);
  const read = readValue(type, value, reading);
  reading.path.pop();
  return read;
}

function readScalar(type: string, value: unknown, reading: Reading): unknown {
  switch (type) {
    case "any":
      return value;
    case "boolean":
      return typeof value === "boolean" ? value : fail(reading, value, "boolean");
    case "int32":
    case "int64":
      return isInteger(value) ? value : fail(reading, value, "integer");
    case "IntOrString":
      return isInteger(value) || typeof value === "string" ? value : fail(reading, value, "integer or string");
    case "Quantity":
      return readQuantity(typeof value === "number" ? String(value) : value, reading);
    default:
      // Texts of all kinds: plain ones, times, and one of several.
      return readText(value, reading);
  }
}

function readText(value: unknown, reading: Reading): unknown {
  return typeof value === "string" ? value : fail(reading, value, "string");
}

function readQuantity(value: unknown, reading: Reading): unknown {
  if (typeof value !== "string") return fail(reading, value, "string");
  try {
    parseQuantity(value);
    return value;
  } catch (error) {
    if (!(error instanceof QuantityError)) throw error;
    reading.problem ??= invalid(reading.path.join(""), value, error.problem);
    return undefined;
  }
}

function fail(reading: Reading, value: unknown, expected: string): undefined {
  const got = typeof value === "number" ? String(value) : typeName(value);
  reading.problem ??= wrongType(reading.path.join(""), `got ${got}, expected ${expected}`);
}

/** Numbers of 64 bits lose their last digits on the way, and are whole ones still. */
function isInteger(value: unknown): boolean {
  return Number.isInteger(value);
}

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
