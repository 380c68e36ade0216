import type { FieldRule, FieldType } from "./field-rule.ts";

/** The type of one value of a field: the element type for lists and maps. */
export function valueType(type: FieldType): FieldType {
  switch (type) {
    case "[]string":
    case "map[string]string":
    case "map[string][]string":
      return "string";
    case "[]int32":
      return "int32";
    case "map[string]bool":
      return "bool";
    case "map[string]Quantity":
      return "QuantityValue";
    default:
      return type;
  }
}

/** Describes a valid value; completes the sentence "must be …". */
export function describeExpectation({ type, allowed, range, must }: FieldRule): string {
  if (allowed !== undefined) {
    const list = allowed.map((value) => JSON.stringify(value)).join(", ");
    return allowed.length === 1 ? list : `one of ${list}`;
  }
  if (must !== undefined) return must;
  if (range === undefined) return describeType(valueType(type));
  const [min, max] = range;
  if (typeof min === "string") return `a duration from ${min} to ${max}`;
  if (type === "*float64") return `a number greater than 0 and at most ${max}`;
  return `an integer from ${min} to ${max}`;
}

/** Describes a whole valid field: a list, a map, or one value. */
export function describeField(field: FieldRule): string {
  switch (field.type) {
    case "struct":
    case "*struct":
      return "a map of fields";
    case "[]struct":
      return "a list of maps";
    case "[]string":
    case "[]int32":
      return `a list, each ${describeExpectation(field)}`;
    case "map[string][]string":
      return "a map of lists of strings";
    case "map[string]string":
    case "map[string]bool":
    case "map[string]Quantity":
      return `a map, each value ${describeExpectation(field)}`;
    default:
      return describeExpectation(field);
  }
}

function describeType(type: FieldType): string {
  switch (type) {
    case "bool":
    case "*bool":
      return "true or false";
    case "int32":
    case "*int32":
      return "an integer from -2147483648 to 2147483647";
    case "int64":
    case "*int64":
      return "an integer";
    case "uint32":
      return "an integer from 0 to 4294967295";
    case "*float64":
      return "a number";
    case "Duration":
    case "*Duration":
      return "a duration such as 300ms or 1m30s";
    case "TimeOrMetaDuration":
      return "a duration such as 300ms or 1m30s, or a number of nanoseconds";
    case "QuantityValue":
      return "a quantity such as 10Mi";
    case "*Time":
      return "a time such as 2026-01-31T12:00:00Z";
    default:
      return "a string";
  }
}
