import { isObject } from "../../is-object.ts";
import { nearestName } from "../../nearest-name.ts";
import { truncateText } from "../../truncate-text.ts";
import { enums } from "../gen/shapes.ts";
import type { Pod, PodStatus } from "../gen/types.ts";
import { type FieldError, invalid, required, unknownField, unsupported, wrongType } from "../validation/field-error.ts";
import { parseTime, TimeError } from "../values/time.ts";
import {
  checkQuantity,
  type DecodeMode,
  decodeValue,
  MAX_SHOWN_LENGTH,
  missingType,
  type PathText,
  typeName,
} from "./decode-value.ts";

export type PodDecodeResult =
  | { readonly pod: Pod; readonly errors?: never }
  | { readonly pod?: never; readonly errors: readonly FieldError[] };

const mode: DecodeMode = {
  // Limits the messages for a manifest with a very long list of invalid entries.
  maxErrors: 20,
  describeFound: typeName,
  checkUnknownField: (path, key, fields) =>
    unknownField(truncateText(path(), MAX_SHOWN_LENGTH), nearestName(key, Object.keys(fields))),
  checkScalar,
};

/**
 * Decodes any JSON value as a Pod. Every field must be known and of the API's type, quantities and times must be valid,
 * enumerations must have a value of this release. As in the API, `null` means unset and is removed; unset required
 * fields become empty; quantities written as numbers become strings. Further validation is in validatePod. Returns the
 * pod, or up to twenty errors.
 */
export function decodeStrict(value: unknown): PodDecodeResult {
  // The agent writes the status itself, so any value is accepted.
  const { status, ...manifest } = isObject(value) ? value : {};
  const decoded = decodeValue("Pod", isObject(value) ? manifest : value, mode);
  const errors = [...(isObject(value) ? checkTypeMeta(value) : []), ...decoded.errors].slice(0, mode.maxErrors);
  if (errors.length > 0) return { errors };
  const pod = decoded.value as Pod;
  return { pod: status === undefined || status === null ? pod : { ...pod, status } };
}

/** Decodes the status of a manifest, which decodeStrict does not read; undefined if the API could not read it either. */
export function decodeStatus(value: unknown): PodStatus | undefined {
  const decoded = decodeValue("PodStatus", value, mode);
  return decoded.errors.length === 0 ? (decoded.value as PodStatus) : undefined;
}

/** A Pod must say what it is; `null` counts as unset. */
function checkTypeMeta({ apiVersion, kind }: { readonly [field: string]: unknown }): readonly FieldError[] {
  return [
    ...(kind === "Pod" ? [] : [typeMetaError("kind", kind, "Pod")]),
    ...(apiVersion === "v1" ? [] : [typeMetaError("apiVersion", apiVersion, "v1")]),
  ];
}

function typeMetaError(field: string, value: unknown, expected: string): FieldError {
  if (typeof value === "string") return unsupported(field, value, [expected]);
  return required(field, `must be ${JSON.stringify(expected)}`);
}

function checkScalar(path: PathText, type: string, value: unknown): FieldError | undefined {
  const expected = missingType(type, value);
  if (expected !== undefined) {
    const found = expected.startsWith("integer") && typeof value === "number" ? value : typeName(value);
    return wrongType(path(), `got ${found}, expected ${expected}${quotingHint(type, value)}`);
  }
  switch (type) {
    case "any":
    case "string":
    case "boolean":
      return undefined;
    case "int32":
    case "IntOrString":
      return checkRange(path, value, 2 ** 31);
    case "int64":
      return checkRange(path, value, Number.MAX_SAFE_INTEGER);
    case "Quantity":
      return checkQuantity(path, String(value));
    case "MicroTime":
    case "Time":
      return checkTime(path, String(value));
    default:
      return checkEnum(path, String(value), enums[type] ?? []);
  }
}

/** The empty string means unset. */
function checkEnum(path: PathText, value: string, known: readonly string[]): FieldError | undefined {
  return value === "" || known.includes(value) ? undefined : unsupported(path(), value, known);
}

function checkRange(path: PathText, value: unknown, limit: number): FieldError | undefined {
  if (typeof value !== "number" || (value < limit && value >= -limit)) return undefined;
  return wrongType(path(), `${value} is out of range`);
}

function checkTime(path: PathText, value: string): FieldError | undefined {
  try {
    parseTime(value);
    return undefined;
  } catch (error) {
    if (error instanceof TimeError) return invalid(path(), value, "must be a time such as 2026-01-02T03:04:05Z");
    throw error;
  }
}

/** YAML reads `y`, `1.10` and `0123` as booleans or numbers instead of strings. */
function quotingHint(type: string, value: unknown): string {
  const isPlain = typeof value === "number" || typeof value === "boolean";
  return type === "string" && isPlain ? `; YAML reads it as ${value}: put it in quotes` : "";
}
