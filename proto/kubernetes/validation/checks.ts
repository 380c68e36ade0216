import { duplicate, type FieldError, forbidden, invalid } from "./field-error.ts";

export type FieldErrors = readonly FieldError[];

/** The error when the condition holds, else nothing. */
export function errorIf(condition: unknown, error: () => FieldError): FieldErrors {
  return condition ? [error()] : [];
}

/** The errors of every entry of a list; `path` names the entry: `spec.volumes[0]`. */
export function forEach<Item>(
  field: string,
  items: readonly Item[] | undefined,
  check: (path: string, item: Item, index: number) => FieldErrors,
): FieldErrors {
  return (items ?? []).flatMap((item, index) => check(`${field}[${index}]`, item, index));
}

/** A number within a range; one that is not given is right. */
export function checkRange(field: string, value: number | undefined, from: number, to: number): FieldErrors {
  const isWithin = value === undefined || (value >= from && value <= to);
  return errorIf(!isWithin, () => invalid(field, value ?? 0, `must be between ${from} and ${to}, inclusive`));
}

/** A number that is not negative; one that is not given is right. */
export function checkNotNegative(field: string, value: number | undefined): FieldErrors {
  return errorIf((value ?? 0) < 0, () => invalid(field, value ?? 0, "must be greater than or equal to 0"));
}

/** Repeats within a list; texts that are empty or not given do not count. */
export function checkUnique(values: readonly (readonly [field: string, value: string | undefined])[]): FieldErrors {
  const seen = new Set<string>();
  return values.flatMap(([field, value]) => {
    if (!value) return [];
    if (seen.has(value)) return [duplicate(field, value)];
    seen.add(value);
    return [];
  });
}

/** Of the members of a union, such as the kinds of a volume, at most one may be given: the first one counts. */
export function checkAtMostOne(path: string, members: readonly string[], given: object, what: string): FieldErrors {
  const present = members.filter((member) => Object.hasOwn(given, member));
  return present.slice(1).map((member) => forbidden(`${path}.${member}`, `may not specify more than 1 ${what}`));
}
