import { schema } from "../kubelet-config/schema.ts";
import type { Field } from "./field-rule.ts";

const fields: ReadonlyMap<string, Field> = new Map(Object.entries(schema));
const children: ReadonlyMap<string, readonly string[]> = groupByParent(fields.keys());

/** The schema's row of a path such as `logging.vmodule[].verbosity`, undefined where there is none. */
export function fieldAt(path: string): Field | undefined {
  return fields.get(path);
}

/** The names of the fields right below a struct, in the table's order; "" is the whole file, `x[]` an element of x. */
export function namesBelow(path: string): readonly string[] {
  return children.get(path) ?? [];
}

/** The path of a field below a struct. */
export function pathBelow(parent: string, name: string): string {
  return parent === "" ? name : `${parent}.${name}`;
}

/** How a message writes the path of a map's value: keys hold dots of their own. */
export function keyBelow(parent: string, key: string): string {
  return `${parent}[${JSON.stringify(key.slice(0, 60))}]`;
}

function groupByParent(paths: Iterable<string>): ReadonlyMap<string, readonly string[]> {
  const groups = new Map<string, string[]>();
  for (const path of paths) {
    const dot = path.lastIndexOf(".");
    const parent = path.slice(0, Math.max(0, dot));
    const names = groups.get(parent) ?? [];
    names.push(path.slice(dot + 1));
    groups.set(parent, names);
  }
  return groups;
}
