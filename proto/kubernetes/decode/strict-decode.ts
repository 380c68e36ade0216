import { nearestName } from "../../nearest-name.ts";
import { enums, shapes } from "../gen/shapes.ts";
import type { Pod } from "../gen/types.ts";
import { parseQuantity, QuantityError } from "../quantity.ts";
import { parseTime, TimeError } from "../time.ts";
import { type FieldError, invalid, required, unknownField, unsupported, wrongType } from "../validation/field-error.ts";

export type PodShape =
  | { readonly pod: Pod; readonly errors?: never }
  | { readonly pod?: never; readonly errors: readonly FieldError[] };

type Json = { readonly [key: string]: unknown };

/** Somebody's list of a million wrong entries is not worth a million messages. */
const mostErrors = 20;

/**
 * Reads any JSON value as a Pod: every field is one the API knows and of the type the API gives it, quantities and times
 * can be read, and enumerated texts are among those of this release. `null` stands for "not given", as in the API, and is
 * left out; required fields that are not given become empty; quantities written as numbers become texts. Values are checked no further: that is validatePod's part. All
 * errors are reported, up to twenty.
 */
export function checkPodShape(value: unknown): PodShape {
  const errors: FieldError[] = [];
  const pod = readObject("Pod", "", value, errors);
  if (pod !== undefined) {
    if (pod["apiVersion"] !== "v1") errors.unshift(wrongHeader("apiVersion", pod["apiVersion"], "v1"));
    if (pod["kind"] !== "Pod") errors.unshift(wrongHeader("kind", pod["kind"], "Pod"));
  }
  if (errors.length > 0) return { errors: errors.slice(0, mostErrors) };
  return { pod: pod as unknown as Pod };
}

function wrongHeader(field: string, value: unknown, expected: string): FieldError {
  return typeof value === "string" ? unsupported(field, value, [expected]) : required(field);
}

/** The object without its nulls; undefined when it is none. Every error below it is added to `errors`. */
function readObject(schema: string, path: string, value: unknown, errors: FieldError[]): Json | undefined {
  if (!isObject(value)) {
    errors.push(wrongType(path, `got ${typeName(value)}, expected object`));
    return undefined;
  }
  const fields = shapes[schema] ?? {};
  const read = Object.entries(value).flatMap(([key, item]) => {
    const field = path === "" ? key : `${path}.${key}`;
    const type = isFilledInHere(schema, key) ? "any" : Object.hasOwn(fields, key) ? fields[key] : undefined;
    if (type === undefined) errors.push(unknownField(shorten(field), nearestName(key, Object.keys(fields))));
    return type === undefined || item === null ? [] : [[key, readValue(type.replace("!", ""), field, item, errors)]];
  });
  return { ...zeroObject(schema), ...Object.fromEntries(read) };
}

/** The agent writes the status itself, and takes whatever stands there. */
function isFilledInHere(schema: string, key: string): boolean {
  return schema === "Pod" && key === "status";
}

/** The required fields of a schema with the values that stand for "not given", as the API reads them. */
function zeroObject(schema: string): Json {
  const required = Object.entries(shapes[schema] ?? {}).filter(([, type]) => type.endsWith("!"));
  return Object.fromEntries(required.map(([field, type]) => [field, zeroValue(type.slice(0, -1))]));
}

/** What stands for a required field of this type that is not given. */
export function zeroValue(type: string): unknown {
  if (type.startsWith("[]")) return [];
  if (type.startsWith("{}") || Object.hasOwn(shapes, type)) return zeroObject(type);
  if (type === "boolean") return false;
  return ["int32", "int64", "IntOrString"].includes(type) ? 0 : "";
}

function readValue(type: string, path: string, value: unknown, errors: FieldError[]): unknown {
  if (errors.length >= mostErrors) return undefined;
  if (type.startsWith("[]")) return readList(type.slice(2), path, value, errors);
  if (type.startsWith("{}")) return readMap(type.slice(2), path, value, errors);
  if (Object.hasOwn(shapes, type)) return readObject(type, path, value, errors);
  const problem = checkScalar(type, path, value);
  if (problem !== undefined) {
    errors.push(problem);
    return undefined;
  }
  return type === "Quantity" ? String(value) : value;
}

function readList(type: string, path: string, value: unknown, errors: FieldError[]): unknown {
  if (Array.isArray(value)) return value.map((item, index) => readValue(type, `${path}[${index}]`, item, errors));
  errors.push(wrongType(path, `got ${typeName(value)}, expected array`));
  return undefined;
}

function readMap(type: string, path: string, value: unknown, errors: FieldError[]): unknown {
  if (isObject(value))
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [key, readValue(type, `${path}[${shorten(key)}]`, item, errors)]),
    );
  errors.push(wrongType(path, `got ${typeName(value)}, expected object`));
  return undefined;
}

function checkScalar(type: string, path: string, value: unknown): FieldError | undefined {
  const got = typeName(value);
  switch (type) {
    case "any":
      return undefined;
    case "string":
    case "boolean":
      return got === type ? undefined : wrongType(path, `got ${got}, expected ${type}${quotingHint(type, value)}`);
    case "int32":
    case "int64":
      return checkInteger(path, value, type === "int32" ? 2 ** 31 : Number.MAX_SAFE_INTEGER);
    case "IntOrString":
      return typeof value === "string" ? undefined : checkInteger(path, value, 2 ** 31);
    case "Quantity":
      return checkText(path, value, ["string", "number"], parseQuantity);
    case "MicroTime":
    case "Time":
      return checkText(path, value, ["string"], parseTime);
    default:
      return checkEnum(path, value, enums[type] ?? []);
  }
}

/** An empty text stands for "not given". */
function checkEnum(path: string, value: unknown, known: readonly string[]): FieldError | undefined {
  if (typeof value !== "string") return wrongType(path, `got ${typeName(value)}, expected string`);
  return value === "" || known.includes(value) ? undefined : unsupported(path, value, known);
}

function checkInteger(path: string, value: unknown, limit: number): FieldError | undefined {
  if (typeof value !== "number") return wrongType(path, `got ${typeName(value)}, expected integer`);
  if (!Number.isInteger(value)) return wrongType(path, `got ${value}, expected integer`);
  return value < limit && value >= -limit ? undefined : wrongType(path, `${value} is out of range`);
}

function checkText(path: string, value: unknown, types: readonly string[], parse: (text: string) => unknown) {
  if (!types.includes(typeof value)) return wrongType(path, `got ${typeName(value)}, expected ${types.join(" or ")}`);
  try {
    parse(String(value));
    return undefined;
  } catch (error) {
    if (error instanceof QuantityError) return invalid(path, String(value), error.problem);
    if (error instanceof TimeError) return invalid(path, String(value), "must be a time such as 2026-01-02T03:04:05Z");
    throw error;
  }
}

/** YAML reads `y`, `1.10` and `0123` as something else than the text that was meant. */
function quotingHint(type: string, value: unknown): string {
  const isPlain = typeof value === "number" || typeof value === "boolean";
  return type === "string" && isPlain ? `; YAML reads it as ${value}: put it in quotes` : "";
}

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What JSON calls the value. */
export function typeName(value: unknown): string {
  if (value === null || value === undefined) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}

function shorten(text: string): string {
  return text.length > 200 ? `${text.slice(0, 200)}…` : text;
}
