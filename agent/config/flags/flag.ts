import type { CheckName } from "../fields/value-checks.ts";
import type { FieldPath } from "../kubelet-config/field.ts";

/** The type names in the kubelet's own help. */
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

/** One row of the flag table. */
export interface Flag {
  readonly name: string;
  readonly type: FlagType;
  readonly shorthand?: string;
  /** The field of KubeletConfiguration that the flag sets; undefined for settings that exist only as flags. */
  readonly field?: FieldPath;
  /** Kubernetes recommends the configuration file instead, or plans to remove the flag. The flag still works. */
  readonly deprecated: boolean;
  readonly default?: string;
  readonly allowed?: readonly string[];
  readonly must?: CheckName;
  /** For maps: the separator between key and value, if not "=". */
  readonly separator?: "<";
  /** For maps: each use sets one pair, so the value may contain commas. */
  readonly isSinglePair?: true;
  readonly secret?: true;
  /** For flags without a field; a flag with a field is implemented when its field is. */
  readonly implemented: boolean;
  readonly insteadMessage?: string;
  /** The description in the help; a flag with a field is described by the field's name. */
  readonly description?: string;
}

export interface FlagGroup {
  readonly title: string;
  readonly flags: readonly Flag[];
}
