import type { KubeletConfiguration } from "../../../proto/kubelet/config.ts";
import type { Json } from "../../../proto/yaml/value-node.ts";
import type { FeatureGateName } from "../kubelet-config/feature-gates.ts";
import type { CheckName } from "./value-checks.ts";

/**
 * The Go type behind a field, as it decides what a file may say and what zero means: a pointer keeps an explicit zero,
 * everything else takes zero for "not set" and gets its default.
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

/** One row of the schema. Lists and maps: what is said of values holds for each element. */
export interface Field {
  readonly type: FieldType;
  readonly default?: Json;
  readonly allowed?: readonly (string | number)[];
  /** Least and greatest value, both allowed; durations as texts. */
  readonly range?: readonly [number, number] | readonly [string, string];
  readonly must?: CheckName;
  /** For maps: the keys there may be. */
  readonly keys?: readonly string[];
  /** The default stands only while this gate is on. */
  readonly gate?: FeatureGateName;
  /** The value never appears in a message. */
  readonly secret?: true;
  readonly implemented: boolean;
  /**
   * Values that ask for what happens. Of a field that is carried out these are the only ones, and the default may not be among
   * them; of one that is not they ask for what happens anyway.
   */
  readonly implementedValues?: readonly Json[];
  /** What happens instead while it is not implemented. */
  readonly instead?: string;
}

/** Every path of KubeletConfiguration: `logging.vmodule[].filePattern`. */
export type FieldPath = PathOf<KubeletConfiguration>;

type PathOf<T> = { [K in keyof T & string]: K | Below<K, NonNullable<T[K]>> }[keyof T & string];
type Below<K extends string, V> = V extends string | number | boolean
  ? never
  : V extends readonly (infer E)[]
    ? E extends object
      ? `${K}[].${PathOf<E>}`
      : never
    : string extends keyof V
      ? never
      : `${K}.${PathOf<V>}`;
