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

/** One thing that is wrong with an object, shaped like the causes of a Status. */
export interface FieldError {
  /** Where: `spec.containers[0].name`, or empty for the object itself. */
  readonly field: string;
  readonly reason: FieldErrorReason;
  /** What: `Required value`, `Invalid value: "X": must be …`. */
  readonly message: string;
}

/** `spec.containers[0].name: Required value`. */
export function describeFieldError({ field, message }: FieldError): string {
  return field === "" ? message : `${shorten(field)}: ${message}`;
}

/** Nothing is there: `Required value`, with `detail` behind it. */
export function required(field: string, detail?: string): FieldError {
  return { field, reason: "FieldValueRequired", message: withDetail("Required value", detail) };
}

/** `Invalid value: "X": …`: `detail` says what would be right. */
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

/** `Not found: "X"`: nothing else in the object has that name. */
export function notFound(field: string, value: string): FieldError {
  return { field, reason: "FieldValueNotFound", message: `Not found: ${quote(value)}` };
}

/** `Duplicate value: "X"`: something before it has it too. */
export function duplicate(field: string, value: string | number): FieldError {
  return { field, reason: "FieldValueDuplicate", message: `Duplicate value: ${quote(value)}` };
}

/** `Forbidden: …`: the field may not be set here, and `detail` says why. */
export function forbidden(field: string, detail: string): FieldError {
  return { field, reason: "FieldValueForbidden", message: `Forbidden: ${detail}` };
}

/** `Too long: …`: the text has more than `longest` bytes. */
export function tooLong(field: string, longest: number): FieldError {
  return { field, reason: "FieldValueTooLong", message: `Too long: may not be more than ${longest} bytes` };
}

/** `Too many: …`: the list has `count` items, and `most` are allowed. */
export function tooMany(field: string, count: number, most: number): FieldError {
  return { field, reason: "FieldValueTooMany", message: `Too many: ${count}: must have at most ${most} items` };
}

/** `Invalid type: …`: `detail` says what was found, and what was expected. */
export function wrongType(field: string, detail: string): FieldError {
  return { field, reason: "FieldValueTypeInvalid", message: `Invalid type: ${detail}` };
}

/** `Unknown field`, with the name that may have been meant. */
export function unknownField(field: string, suggestion: string | undefined): FieldError {
  const detail = suggestion === undefined ? undefined : `did you mean ${JSON.stringify(suggestion)}?`;
  return { field, reason: "FieldUnknown", message: withDetail("Unknown field", detail) };
}

function withDetail(message: string, detail: string | undefined): string {
  return detail === undefined ? message : `${message}: ${detail}`;
}

/** A manifest may hold megabytes; a message shows how a value begins. */
function quote(value: string | number): string {
  return JSON.stringify(typeof value === "string" ? shorten(value) : value);
}

function shorten(text: string): string {
  return text.length > 120 ? `${text.slice(0, 120)}…` : text;
}
