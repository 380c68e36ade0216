import { fieldAt } from "../kubelet-config/config-fields.ts";
import type { Flag, FlagGroup } from "./flag.ts";

/** What the help of a command shows. */
export interface Help {
  /** How a user calls it: `berth run [flags]`. */
  readonly usage: string;
  readonly introduction: string;
  readonly groups: readonly FlagGroup[];
  /** What follows the flags, such as the exit codes. */
  readonly closing?: string;
}

/** The help of the agent, which is started by `berth run` or under the name kubelet. */
export function agentHelp(program: string, groups: readonly FlagGroup[]): Help {
  return {
    usage: `${program} [flags]`,
    introduction: `Runs the pods of one Kubernetes node.

Flags override the drop-ins of --config-dir, which override the file of --config, which overrides the defaults.
Settings marked with * are accepted, but have no effect yet, or only a part of it.
`,
    groups,
    closing:
      "Exit code 0: the agent has stopped, and its pods keep running. 1: it cannot start. 2: wrong flags or files.\n",
  };
}

/** The text of `--help`: how to call the command, what it does, and each flag in its group with its default. */
export function formatHelp({ usage, introduction, groups, closing }: Help): string {
  const rows = groups.flatMap(({ flags }) => flags);
  const width = Math.max(...rows.map((flag) => formatName(flag).length));
  const sections = groups.map(({ title, flags }) => {
    const lines = flags.map((flag) => `  ${formatName(flag).padEnd(width)}  ${describe(flag)}`);
    return `${title}:\n${lines.join("\n")}\n`;
  });
  return [`${usage}\n`, introduction, ...sections, ...(closing === undefined ? [] : [closing])].join("\n");
}

/** As pflag writes it: a flag without a shorthand is indented, so that the long names are below each other. */
function formatName({ name, shorthand, type }: Flag): string {
  if (name === shorthand) return `-${name} ${type}`;
  const value = type === "bool" || type === "version[=true]" ? "" : ` ${type}`;
  return `${shorthand === undefined ? "    " : `-${shorthand}, `}--${name}${value}`;
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
