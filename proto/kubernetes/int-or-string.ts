import type { IntOrString } from "./gen/types.ts";

/**
 * The number that a port given by number or by name stands for: itself, or what the name means; undefined for a name that
 * nobody has. The text `"8080"` is a name to the API, not a number.
 */
export function resolveIntOrString(
  value: IntOrString,
  numberOf: (name: string) => number | undefined,
): number | undefined {
  return typeof value === "number" ? value : numberOf(value);
}
