import { truncateText } from "../../truncate-text.ts";

/** Why a field is wrong, in the words that the API uses in the causes of a Status. */
export type FieldErrorReason =
  | "FieldValueDuplicate"
  | "FieldValueForbidden"
  | "FieldValueInvalid"
  | "FieldValueNotFound"
  | "FieldValueNotSupported"
  | "FieldValueRequired"
  | "FieldValueTooLong"
  | "FieldValueTooMany"
  | "FieldValueTypeInvalid"
  | "FieldUnknown";

/** One error in an object, in the form of a cause in a Status. */
export interface FieldError {
  /** The path of the field, `spec.containers[0].name`; empty for the object itself. */
  readonly field: string;
  readonly reason: FieldErrorReason;
  /** `Required value`, `Invalid value: "X": must be …`. */
  readonly message: string;
}

/** `spec.containers[0].name: Required value`. */
export function describeFieldError({ field, message }: FieldError): string {
  return field === "" ? message : `${truncateText(field, MAX_SHOWN_LENGTH)}: ${message}`;
}

/** `Required value`, followed by `detail`. */
export function required(field: string, detail?: string): FieldError {
  return { field, reason: "FieldValueRequired", message: withDetail("Required value", detail) };
}

/** `Invalid value: "X": …`; `detail` states what is valid. */
export function invalid(field: string, value: string | number, detail: string): FieldError {
  return { field, reason: "FieldValueInvalid", message: `Invalid value: ${quote(value)}: ${detail}` };
}

/** `Unsupported value: "X": supported values: "A", "B"`. */
export function unsupported(field: string, value: string, supported: readonly string[]): FieldError {
  const values = supported.map((known) => JSON.stringify(known)).join(", ");
  return {
    field,
    reason: "FieldValueNotSupported",
    message: `Unsupported value: ${quote(value)}: supported values: ${values}`,
  };
}

/** `Not found: "X"`: the object has no other entry of that name. */
export function notFound(field: string, value: string): FieldError {
  return { field, reason: "FieldValueNotFound", message: `Not found: ${quote(value)}` };
}

/** `Duplicate value: "X"`: an earlier entry has the same value. */
export function duplicate(field: string, value: string | number): FieldError {
  return { field, reason: "FieldValueDuplicate", message: `Duplicate value: ${quote(value)}` };
}

/** `Forbidden: …`: the field must not be set; `detail` states why. */
export function forbidden(field: string, detail: string): FieldError {
  return { field, reason: "FieldValueForbidden", message: `Forbidden: ${detail}` };
}

/** `Too long: …`: the value has more than `maxBytes` bytes. */
export function tooLong(field: string, maxBytes: number): FieldError {
  return { field, reason: "FieldValueTooLong", message: `Too long: may not be more than ${maxBytes} bytes` };
}

/** `Too many: …`: the list has `count` items; at most `max` are allowed. */
export function tooMany(field: string, count: number, max: number): FieldError {
  return { field, reason: "FieldValueTooMany", message: `Too many: ${count}: must have at most ${max} items` };
}

/** `Invalid type: …`; `detail` states the found and the expected type. */
export function wrongType(field: string, detail: string): FieldError {
  return { field, reason: "FieldValueTypeInvalid", message: `Invalid type: ${detail}` };
}

/** `Unknown field`, with a suggestion. */
export function unknownField(field: string, suggestion: string | undefined): FieldError {
  const detail = suggestion === undefined ? undefined : `did you mean ${JSON.stringify(suggestion)}?`;
  return { field, reason: "FieldUnknown", message: withDetail("Unknown field", detail) };
}

function withDetail(message: string, detail: string | undefined): string {
  return detail === undefined ? message : `${message}: ${detail}`;
}

/** Messages show the beginning of a longer value or path. */
const MAX_SHOWN_LENGTH = 120;

function quote(value: string | number): string {
  return JSON.stringify(typeof value === "string" ? truncateText(value, MAX_SHOWN_LENGTH) : value);
}
