import type { FieldPath } from "../fields/field-rule.ts";
import type { CheckName } from "../fields/value-checks.ts";

/** The word of the kubelet's own help for what a flag takes. */
export type FlagType =
  | "bool"
  | "string"
  | "strings"
  | "int"
  | "int32"
  | "duration"
  | "ip"
  | "mapStringString"
  | "mapStringBool"
  | "colonSeparatedMultimapStringString"
  | "[]v1.Taint"
  | "reserved-memory"
  | "quantity"
  | "pattern=N,..."
  | "Level"
  | "version[=true]";

/** One row of the table of flags. */
export interface Flag {
  readonly name: string;
  readonly type: FlagType;
  readonly shorthand?: string;
  /** The field of KubeletConfiguration that the flag sets; undefined for a setting that is a flag alone. */
  readonly field?: FieldPath;
  /** Kubernetes wants the config file used instead, or the flag gone. It works as before. */
  readonly deprecated: boolean;
  readonly default?: string;
  readonly allowed?: readonly string[];
  readonly must?: CheckName;
  /** Maps: what stands between key and value, where it is not "=". */
  readonly separator?: "<";
  /** Maps: one pair each time, commas belong to the value. */
  readonly isSinglePair?: true;
  readonly secret?: true;
  /** Of flags alone; a flag with a field is as implemented as its field. */
  readonly implemented: boolean;
  readonly instead?: string;
  /** For the help; a flag with a field is explained by the field's name. */
  readonly about?: string;
}

export interface FlagGroup {
  readonly title: string;
  readonly flags: readonly Flag[];
}
