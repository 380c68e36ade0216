/** The rows of a schema by path, such as `logging.vmodule[].verbosity`. */
export interface FieldTree<Row> {
  /** The row of a path; undefined for an unknown one. */
  readonly fieldAt: (path: string) => Row | undefined;
  /** The field names of the object at a path, in the order of the field table. "" is the whole file, `x[]` an element of x. */
  readonly childNames: (path: string) => readonly string[];
}

export function createFieldTree<Row>(rows: Readonly<Record<string, Row>>): FieldTree<Row> {
  const fields: ReadonlyMap<string, Row> = new Map(Object.entries(rows));
  const children = groupByParent(fields.keys());
  return { fieldAt: (path) => fields.get(path), childNames: (path) => children.get(path) ?? [] };
}

/** The path of a field of a struct. */
export function childPath(parent: string, name: string): string {
  return parent === "" ? name : `${parent}.${name}`;
}

/** The path of a map entry in messages. Keys are quoted since they may contain dots. */
export function keyPath(parent: string, key: string): string {
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
