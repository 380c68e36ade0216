import type { CheckName } from "./value-checks.ts";

/**
 * The Go type of a field. It decides which values a file may contain and what zero means: a pointer keeps an explicit
 * zero, all other types treat zero as unset and apply the default.
 */
export type FieldType =
  | "bool"
  | "*bool"
  | "string"
  | "*string"
  | "int32"
  | "*int32"
  | "int64"
  | "*int64"
  | "uint32"
  | "*float64"
  | "Duration"
  | "*Duration"
  | "TimeOrMetaDuration"
  | "QuantityValue"
  | "*Time"
  | "[]string"
  | "[]int32"
  | "map[string]string"
  | "map[string]bool"
  | "map[string][]string"
  | "map[string]Quantity"
  | "struct"
  | "*struct"
  | "[]struct";

/** Which values one field of a configuration file may have. For lists and maps, the checks apply to each element. */
export interface FieldRule {
  readonly type: FieldType;
  readonly allowed?: readonly (string | number)[];
  /** Minimum and maximum, both inclusive; durations as text. */
  readonly range?: readonly [number, number] | readonly [string, string];
  readonly must?: CheckName;
  /** Messages never contain the value. */
  readonly secret?: true;
  /** The field must be set, and not to null. */
  readonly isRequired?: true;
  /** The list must have at least one element. */
  readonly isNonEmpty?: true;
  /** Completes the message "found …, " about a text that is wrong; undefined for a valid one. */
  readonly problemOf?: (text: string) => string | undefined;
}
