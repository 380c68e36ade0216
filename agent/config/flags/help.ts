import { fieldAt } from "../kubelet-config/config-fields.ts";
import type { Flag, FlagGroup } from "./flag.ts";

const introduction = `Runs the pods of one Kubernetes node.

Flags override the drop-ins of --config-dir, which override the file of --config, which overrides the defaults.
Settings marked with * are accepted, but have no effect yet, or only a part of it.
`;

/** The text of `--help`: every flag in its group, with its description and its default. */
export function describeFlags(groups: readonly FlagGroup[]): string {
  const rows = groups.flatMap(({ flags }) => flags);
  const width = Math.max(...rows.map((flag) => formatName(flag).length));
  const sections = groups.map(({ title, flags }) => {
    const lines = flags.map((flag) => `  ${formatName(flag).padEnd(width)}  ${describe(flag)}`);
    return `${title}:\n${lines.join("\n")}\n`;
  });
  return [introduction, ...sections].join("\n");
}

function formatName({ name, shorthand, type }: Flag): string {
  if (name === shorthand) return `-${name} ${type}`;
  const value = type === "bool" || type === "version[=true]" ? "" : ` ${type}`;
  return `${shorthand === undefined ? "" : `-${shorthand}, `}--${name}${value}`;
}

function describe(flag: Flag): string {
  const field = flag.field === undefined ? undefined : fieldAt(flag.field);
  const isImplemented =
    flag.implemented && (field?.implemented ?? true) && !(field !== undefined && "implementedValues" in field);
  const defaultValue = field === undefined ? flag.default : field.default;
  const shown =
    defaultValue === undefined || defaultValue === false || defaultValue === "false"
      ? ""
      : ` (default ${formatValue(defaultValue)})`;
  return `${isImplemented ? "" : "* "}${flag.description ?? `sets ${flag.field}`}${shown}`;
}

function formatValue(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}
