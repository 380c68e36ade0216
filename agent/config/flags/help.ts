import { fieldAt } from "../fields/field-tree.ts";
import type { Flag, FlagGroup } from "./flag.ts";

const introduction = `Runs the pods of one Kubernetes node.

Flags win over the drop-ins of --config-dir, these over the file of --config, and that over the defaults.
Settings marked with * are known and have no effect yet.
`;

/** The help: every flag in its group, with what it sets and what stands where it is not given. */
export function describeFlags(groups: readonly FlagGroup[]): string {
  const rows = groups.flatMap(({ flags }) => flags);
  const width = Math.max(...rows.map((flag) => spell(flag).length));
  const sections = groups.map(({ title, flags }) => {
    const lines = flags.map((flag) => `  ${spell(flag).padEnd(width)}  ${explain(flag)}`);
    return `${title}:\n${lines.join("\n")}\n`;
  });
  return [introduction, ...sections].join("\n");
}

function spell({ name, shorthand, type }: Flag): string {
  if (name === shorthand) return `-${name} ${type}`;
  const value = type === "bool" || type === "version[=true]" ? "" : ` ${type}`;
  return `${shorthand === undefined ? "" : `-${shorthand}, `}--${name}${value}`;
}

function explain(flag: Flag): string {
  const field = flag.field === undefined ? undefined : fieldAt(flag.field);
  const isDone = flag.implemented && (field?.implemented ?? true);
  const byDefault = field === undefined ? flag.default : field.default;
  const shown =
    byDefault === undefined || byDefault === false || byDefault === "false" ? "" : ` (default ${show(byDefault)})`;
  return `${isDone ? "" : "* "}${flag.about ?? `sets ${flag.field}`}${shown}`;
}

function show(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
