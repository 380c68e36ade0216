import type { KubeletConfiguration } from "../../../proto/kubelet/config.ts";
import type { Json } from "../../../proto/yaml/value-node.ts";
import type { FieldRule } from "../fields/field-rule.ts";
import type { FeatureGateName } from "./feature-gates.ts";

/** One row of the schema. */
export interface Field extends FieldRule {
  readonly default?: Json;
  /** For maps: the allowed keys. */
  readonly keys?: readonly string[];
  /** The default applies only while this gate is on. */
  readonly gate?: FeatureGateName;
  readonly implemented: boolean;
  /**
   * The values whose behaviour is implemented. For an implemented field these are the only ones, and the default may be
   * missing from them. For an unimplemented field they request what happens anyway.
   */
  readonly implementedValues?: readonly Json[];
  /** What happens instead while the field is not implemented. */
  readonly insteadMessage?: string;
}

/** All field paths of KubeletConfiguration, such as `logging.vmodule[].filePattern`. */
export type FieldPath = FieldPathOf<KubeletConfiguration>;

type FieldPathOf<T> = { [K in keyof T & string]: K | ChildPathOf<K, NonNullable<T[K]>> }[keyof T & string];
type ChildPathOf<K extends string, V> = V extends string | number | boolean
  ? never
  : V extends readonly (infer E)[]
    ? E extends object
      ? `${K}[].${FieldPathOf<E>}`
      : never
    : string extends keyof V
      ? never
      : `${K}.${FieldPathOf<V>}`;
