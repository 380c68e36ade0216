import type { Node, Pod } from "../gen/types.ts";
import { type FieldError, wrongType } from "../validation/field-error.ts";
import { checkQuantity, type DecodeMode, decodeValue, missingType, type PathText, typeName } from "./decode-value.ts";

interface Kinds {
  readonly Node: Node;
  readonly Pod: Pod;
}

/** A decoded object, or the first field that violates the API's types. */
export type Decoded<T> =
  | { readonly object: T; readonly problem?: never }
  | { readonly object?: never; readonly problem: FieldError };

const mode: DecodeMode = {
  maxErrors: 1,
  describeFound,
  checkUnknownField: () => undefined,
  checkScalar,
};

/**
 * Decodes an object from an API server, which may be newer than this release. Keeps unknown fields and unknown
 * enumeration values, but checks that lists are lists and numbers are numbers, so that later code can rely on the
 * types. As in the API, `null` means unset and is removed, and unset required fields become empty. Returns the same
 * value when nothing changes. Never throws.
 */
export function decodeLenient<Kind extends keyof Kinds>(kind: Kind, value: unknown): Decoded<Kinds[Kind]> {
  const { value: object, errors } = decodeValue(kind, value, mode);
  const [problem] = errors;
  return problem === undefined ? { object: object as Kinds[Kind] } : { problem };
}

function checkScalar(path: PathText, type: string, value: unknown): FieldError | undefined {
  const expected = missingType(type, value);
  if (expected !== undefined) return wrongType(path(), `got ${describeFound(value)}, expected ${expected}`);
  return type === "Quantity" ? checkQuantity(path, String(value)) : undefined;
}

function describeFound(value: unknown): string {
  return typeof value === "number" ? String(value) : typeName(value);
}
