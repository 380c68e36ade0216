/** Whether a value from JSON is an object: neither null nor a list. */
export function isObject(value: unknown): value is { readonly [field: string]: unknown } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
