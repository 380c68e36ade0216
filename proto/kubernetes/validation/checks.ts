import { duplicate, type FieldError, forbidden, invalid } from "./field-error.ts";

export type FieldErrors = readonly FieldError[];

/** Returns the error when the condition holds. */
export function errorIf(condition: unknown, error: () => FieldError): FieldErrors {
  return condition ? [error()] : [];
}

/** The errors of all entries of a list; `path` is the entry's path: `spec.volumes[0]`. */
export function forEach<Item>(
  field: string,
  items: readonly Item[] | undefined,
  check: (path: string, item: Item, index: number) => FieldErrors,
): FieldErrors {
  return (items ?? []).flatMap((item, index) => check(`${field}[${index}]`, item, index));
}

/** A number must be within a range; unset is valid. */
export function checkRange(field: string, value: number | undefined, from: number, to: number): FieldErrors {
  const isWithin = value === undefined || (value >= from && value <= to);
  return errorIf(!isWithin, () => invalid(field, value ?? 0, `must be between ${from} and ${to}, inclusive`));
}

/** A number must not be negative; unset is valid. */
export function checkNotNegative(field: string, value: number | undefined): FieldErrors {
  return errorIf((value ?? 0) < 0, () => invalid(field, value ?? 0, "must be greater than or equal to 0"));
}

/** Values must not repeat within a list; empty and unset ones are ignored. */
export function checkUnique(values: readonly (readonly [field: string, value: string | undefined])[]): FieldErrors {
  const seen = new Set<string>();
  return values.flatMap(([field, value]) => {
    if (!value) return [];
    if (seen.has(value)) return [duplicate(field, value)];
    seen.add(value);
    return [];
  });
}

/** A union, such as the kinds of a volume, may have at most one member: all after the first are errors. */
export function checkAtMostOne(path: string, members: readonly string[], given: object, what: string): FieldErrors {
  const present = members.filter((member) => Object.hasOwn(given, member));
  return present.slice(1).map((member) => forbidden(`${path}.${member}`, `may not specify more than 1 ${what}`));
}
