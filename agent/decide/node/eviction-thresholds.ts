import type { Quantity as QuantityText } from "../../../proto/kubernetes/gen/types.ts";
import { parseQuantity, type Quantity, QuantityError, toNumber } from "../../../proto/kubernetes/quantity.ts";

const zero: Quantity = { mantissa: 0n, exponent: 0, format: "DecimalSI" };

/**
 * A threshold as an amount: `100Mi`, or so many percent of the capacity, with the kubelet's own rounding: its percentages are floats
 * of 32 bits. 0% and 100% are no thresholds.
 */
export function thresholdAmount(text: string | undefined, capacity: Quantity): Quantity {
  if (text === undefined || text === "0%" || text === "100%") return zero;
  if (!text.endsWith("%")) return readQuantity(text);
  const percent = Number(text.replace(/%+$/, ""));
  if (!(percent >= 0 && percent <= 100)) return zero;
  const share = Math.fround(Math.fround(percent) / 100);
  return { ...parseQuantity(Math.trunc(toNumber(capacity) * share)), format: "BinarySI" };
}

/** What cannot be read was checked before, or comes from another program: it counts as nothing, and never stops the node's report. */
export function readQuantity(text: QuantityText | undefined): Quantity {
  if (text === undefined) return zero;
  try {
    return parseQuantity(text);
  } catch (error) {
    if (error instanceof QuantityError) return zero;
    throw error;
  }
}
