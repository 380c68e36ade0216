import { parseBoolean } from "../../../proto/yaml/scalar.ts";
import { shorten } from "../../../proto/yaml/value-node.ts";
import type { Problem } from "../problem.ts";
import type { Flag, FlagGroup } from "./flag.ts";
import { nearestFlag } from "./nearest-flag.ts";
import { removalRelease } from "./removed-flags.ts";

/** One flag with its text, as found on the command line. */
export interface GivenFlag {
  readonly flag: Flag;
  readonly text: string;
}

export interface CommandLine {
  readonly given: readonly GivenFlag[];
  readonly problems: readonly Problem[];
}

/**
 * Splits a command line with the rules of spf13/pflag, which the kubelet uses: `--name=value`, `--name value`, `--name`
 * alone for a boolean flag, `-v 2`, `-v2`, `-v=2`, and `_` for `-` in names. Positional arguments, also after `--`, are
 * errors. `program`: the command whose help lists the flags; the error about an unknown one refers to it.
 */
export function splitCommandLine(argv: readonly string[], groups: readonly FlagGroup[], program?: string): CommandLine {
  const flags = groups.flatMap((group) => group.flags);
  const byName = new Map(flags.map((flag) => [flag.name, flag]));
  const byShorthand = new Map(flags.flatMap((flag) => (flag.shorthand === undefined ? [] : [[flag.shorthand, flag]])));
  const given: GivenFlag[] = [];
  const problems: Problem[] = [];
  let position = 0;

  const addProblem = (where: string, message: string) => problems.push({ where: shorten(where), field: "", message });
  function rejectArgument(argument: string, hint = referTo(program)) {
    addProblem("command line", `unexpected argument ${shorten(JSON.stringify(argument))}${hint}`);
  }

  /** A boolean flag takes its value only after an equals sign. */
  function rejectPositional(argument: string, previous: string) {
    const name = previous.replace(/^--/, "").replaceAll("_", "-");
    const isValue = parseBoolean(argument) !== undefined && byName.get(name)?.type === "bool";
    rejectArgument(argument, isValue ? `: write --${name}=${argument}` : undefined);
  }

  function addFlag(shownName: string, flag: Flag, attached: string | undefined) {
    const text = attached ?? (isBoolean(flag) ? "true" : argv[position++]);
    if (text === undefined) addProblem(shownName, `needs a value: a ${flag.type}`);
    else given.push({ flag, text });
  }

  /** Skips the probable value of an unknown flag, so that it is not reported as a second error. */
  function skipValue() {
    const next = argv[position];
    if (next !== undefined && !next.startsWith("-")) position += 1;
  }

  function parseLong(argument: string) {
    const [, writtenName = "", , attached] = /^--([^=]*)(=(.*))?$/s.exec(argument) ?? [];
    const name = writtenName.replaceAll("_", "-");
    const flag = byName.get(name);
    if (flag !== undefined) return addFlag(`--${name}`, flag, attached);
    if (attached === undefined) skipValue();
    const release = removalRelease(name);
    if (release !== undefined) return addProblem(`--${writtenName}`, `was removed in Kubernetes ${release}: remove it`);
    addProblem(`--${writtenName}`, describeUnknown("unknown flag", nearestFlag(name, flags), program));
  }

  /** Reports an unknown shorthand (`-x`), or a long flag written with one dash (`-config`). */
  function rejectShort(letters: string) {
    const [name = "", value] = letters.split("=", 2);
    const meant = name.length > 1 ? nearestFlag(name, flags) : undefined;
    if (meant !== undefined && value === undefined) skipValue();
    const hint = name.length === 1 || meant !== undefined ? "" : ` -${name[0]}; long flags begin with --`;
    addProblem(`-${letters}`, describeUnknown(`unknown flag${hint}`, meant, program));
  }

  function parseShort(letters: string) {
    const [letter = "", ...rest] = letters;
    const flag = byShorthand.get(letter);
    const tail = rest.join("");
    if (flag === undefined) return rejectShort(letters);
    if (tail.startsWith("=") && tail.length > 1) return addFlag(`-${letter}`, flag, tail.slice(1));
    if (!isBoolean(flag)) return addFlag(`-${letter}`, flag, tail === "" ? undefined : tail);
    addFlag(`-${letter}`, flag, undefined);
    if (tail !== "") parseShort(tail);
  }

  while (position < argv.length) {
    const argument = argv[position++] ?? "";
    if (argument === "--") for (const positional of argv.slice(position)) rejectArgument(positional);
    if (argument === "--") break;
    if (argument.startsWith("--")) parseLong(argument);
    else if (argument.startsWith("-") && argument !== "-") parseShort(argument.slice(1));
    else rejectPositional(argument, argv[position - 2] ?? "");
  }
  return { given, problems };
}

function referTo(program: string | undefined): string {
  return program === undefined ? "" : `; ${program} --help lists the flags`;
}

function describeUnknown(what: string, nearest: string | undefined, program: string | undefined): string {
  if (nearest === undefined) return `${what}${referTo(program)}`;
  return `${what}, did you mean --${nearest}?${referTo(program).slice(1)}`;
}

function isBoolean({ type }: Flag): boolean {
  return type === "bool" || type === "version[=true]";
}
