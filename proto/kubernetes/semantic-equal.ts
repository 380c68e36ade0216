import { isObject } from "../is-object.ts";

/**
 * True when two values mean the same in the API. Its server writes some empty fields out (`null`, `{}`, an empty list)
 * that clients leave out.
 */
export function isSemanticallyEqual(a: unknown, b: unknown): boolean {
  if (a === b || (isEmptyValue(a) && isEmptyValue(b))) return true;
  if (Array.isArray(a) && Array.isArray(b))
    return a.length === b.length && a.every((item, index) => isSemanticallyEqual(item, b[index]));
  if (!isObject(a) || !isObject(b)) return false;
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].every((key) => isSemanticallyEqual(a[key], b[key]));
}

function isEmptyValue(value: unknown): boolean {
  if (value === undefined || value === null || value === "") return true;
  if (Array.isArray(value)) return value.length === 0;
  return isObject(value) && Object.values(value).every(isEmptyValue);
}
