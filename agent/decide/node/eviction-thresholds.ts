import type { Quantity as QuantityText } from "../../../proto/kubernetes/gen/types.ts";
import {
  type ParsedQuantity,
  parseQuantity,
  QuantityError,
  toNumber,
} from "../../../proto/kubernetes/values/quantity.ts";

const ZERO: ParsedQuantity = { mantissa: 0n, exponent: 0, format: "DecimalSI" };

/**
 * A threshold as an amount: `100Mi`, or a percentage of the capacity, rounded as by the kubelet, whose percentages are
 * 32-bit floats. 0% and 100% disable the threshold.
 */
export function thresholdAmount(text: string | undefined, capacity: ParsedQuantity): ParsedQuantity {
  if (text === undefined || text === "0%" || text === "100%") return ZERO;
  if (!text.endsWith("%")) return readQuantity(text);
  const percent = Number(text.replace(/%+$/, ""));
  if (!(percent >= 0 && percent <= 100)) return ZERO;
  const share = Math.fround(Math.fround(percent) / 100);
  return { ...parseQuantity(Math.trunc(toNumber(capacity) * share)), format: "BinarySI" };
}

/**
 * Parses a quantity; an unreadable one was validated before or comes from another program: it counts as zero and stops
 * no report.
 */
export function readQuantity(text: QuantityText | undefined): ParsedQuantity {
  if (text === undefined) return ZERO;
  try {
    return parseQuantity(text);
  } catch (error) {
    if (error instanceof QuantityError) return ZERO;
    throw error;
  }
}
