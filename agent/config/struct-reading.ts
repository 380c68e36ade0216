import { nearestName } from "../../proto/nearest-name.ts";
import { type MapNode, type Node, showNode } from "../../proto/yaml/value-node.ts";
import type { Problem } from "./problem.ts";

/** Takes a value out of a node, or says what is wrong with it and takes nothing. `field` is its path. */
export type Read<T> = (node: Node, field: string, refuse: Refuse) => T | undefined;
export type Refuse = (problem: Problem) => undefined;

export interface FieldReading<T> {
  readonly read: Read<T>;
  /** What a file that leaves it out gets; what is left out of here has to be there. */
  readonly byDefault?: T;
  /** It may be left out, and is then. */
  readonly isOptional?: true;
}

type FieldReadings<T> = { readonly [K in keyof T & string]-?: FieldReading<NonNullable<T[K]>> };

/** A map with these fields and no others; null is "not set". */
export function struct<T>(fields: FieldReadings<T>): Read<T> {
  const names = Object.keys(fields);
  return (node, field, refuse) => {
    if (node.kind !== "map") return refuseValue(node, field, "a map of fields", refuse);
    for (const [name, value] of node.entries)
      if (!names.includes(name))
        refuse({ where: value.where, field: below(field, name), message: unknownField(name, names) });
    const read = names.map((name) => [name, readField(fields, node, name, field, refuse)] as const);
    const isWhole = read.every(([name, value]) => value !== undefined || isLeftOut(fields, node, name));
    const given = read.filter(([, value]) => value !== undefined);
    // Each of them was read as the type says, and none that it asks for is missing.
    return isWhole ? (Object.fromEntries(given) as T) : undefined;
  };
}

function readField<T>(fields: FieldReadings<T>, map: MapNode, name: string, field: string, refuse: Refuse): unknown {
  const { read, byDefault, isOptional } = fields[name as keyof T & string];
  const value = map.entries.get(name);
  if (value !== undefined && !isNull(value)) return read(value, below(field, name), refuse);
  if (byDefault !== undefined || isOptional) return byDefault;
  return refuse({ where: map.where, field: below(field, name), message: "missing, has to be given" });
}

function isLeftOut<T>(fields: FieldReadings<T>, { entries }: MapNode, name: string): boolean {
  const value = entries.get(name);
  return fields[name as keyof T & string].isOptional === true && (value === undefined || isNull(value));
}

function unknownField(name: string, names: readonly string[]): string {
  const nearest = nearestName(name, names);
  return nearest === undefined
    ? `unknown field, known are ${names.join(", ")}`
    : `unknown field, did you mean ${nearest}?`;
}

/** A list of such values, of one at least if it says so. */
export function list<T>(read: Read<T>, { isFilled = false } = {}): Read<readonly T[]> {
  return (node, field, refuse) => {
    if (node.kind !== "list") return refuseValue(node, field, "a list", refuse);
    if (isFilled && node.items.length === 0)
      return refuse({ where: node.where, field, message: "found an empty list, must have one element at least" });
    const values = node.items.map((item, index) => read(item, `${field}[${index}]`, refuse));
    const whole = values.filter((value) => value !== undefined);
    return whole.length === values.length ? whole : undefined;
  };
}

/** A text for which `problem` finds nothing to say. */
export function text<T extends string = string>(problem: (text: T) => string | undefined = () => undefined): Read<T> {
  return (node, field, refuse) => {
    if (node.kind !== "scalar" || typeof node.value !== "string") return refuseValue(node, field, "a text", refuse);
    const message = problem(node.value as T);
    return message === undefined
      ? (node.value as T)
      : refuse({ where: node.where, field, message: `found ${showNode(node)}, ${message}` });
  };
}

/** One of these texts, letter for letter. */
export function oneOf<T extends string>(all: readonly T[]): Read<T> {
  return text<T>((found) => (all.includes(found) ? undefined : `must be one of ${all.join(", ")}`));
}

export const flag: Read<boolean> = (node, field, refuse) =>
  node.kind === "scalar" && typeof node.value === "boolean"
    ? node.value
    : refuseValue(node, field, "true or false", refuse);

function refuseValue(node: Node, field: string, expected: string, refuse: Refuse): undefined {
  return refuse({ where: node.where, field, message: `found ${showNode(node)}, must be ${expected}` });
}

const isNull = (node: Node) => node.kind === "scalar" && node.value === null;
const below = (field: string, name: string) => (field === "" ? name.slice(0, 60) : `${field}.${name.slice(0, 60)}`);
