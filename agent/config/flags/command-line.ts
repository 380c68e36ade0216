import { parseBoolean } from "../../../proto/yaml/scalar.ts";
import { shorten } from "../../../proto/yaml/value-node.ts";
import type { Problem } from "../problem.ts";
import type { Flag, FlagGroup } from "./flag.ts";
import { nearestFlag } from "./nearest-flag.ts";
import { releaseThatRemoved } from "./removed-flags.ts";

/** One flag as it was written. */
export interface GivenFlag {
  readonly flag: Flag;
  readonly text: string;
}

export interface CommandLine {
  readonly given: readonly GivenFlag[];
  readonly problems: readonly Problem[];
}

/**
 * Splits a command line as the kubelet does: `--name=value`, `--name value`, `--name` alone for what is true by being
 * there, `-v 2`, `-v2`, `-v=2`, `_` for `-` in names, and `--` before words that are no flags, which are refused.
 * Rule: spf13/pflag.
 */
export function splitCommandLine(argv: readonly string[], groups: readonly FlagGroup[]): CommandLine {
  const flags = groups.flatMap((group) => group.flags);
  const byName = new Map(flags.map((flag) => [flag.name, flag]));
  const byShorthand = new Map(flags.flatMap((flag) => (flag.shorthand === undefined ? [] : [[flag.shorthand, flag]])));
  const given: GivenFlag[] = [];
  const problems: Problem[] = [];
  let position = 0;

  const refuse = (where: string, message: string) => problems.push({ where: shorten(where), field: "", message });
  function refuseWord(word: string, cure = "") {
    refuse("command line", `found ${shorten(JSON.stringify(word))}, which is no flag${cure}`);
  }

  /** A switch stands alone: what was meant as its value needs the equals sign. */
  function refuseSwitchValue(word: string, before: string) {
    const name = before.replace(/^--/, "").replaceAll("_", "-");
    const isValue = parseBoolean(word) !== undefined && byName.get(name)?.type === "bool";
    refuseWord(word, isValue ? `: write --${name}=${word}` : "");
  }

  function take(shown: string, flag: Flag, attached: string | undefined) {
    const text = attached ?? (needsNoValue(flag) ? "true" : argv[position++]);
    if (text === undefined) refuse(shown, `needs a value: a ${flag.type}`);
    else given.push({ flag, text });
  }

  /** What follows an unknown flag is most likely its value, and no second mistake. */
  function skipValue() {
    const next = argv[position];
    if (next !== undefined && !next.startsWith("-")) position += 1;
  }

  function takeLong(word: string) {
    const [, written = "", , attached] = /^--([^=]*)(=(.*))?$/s.exec(word) ?? [];
    const name = written.replaceAll("_", "-");
    const flag = byName.get(name);
    if (flag !== undefined) return take(`--${name}`, flag, attached);
    if (attached === undefined) skipValue();
    const release = releaseThatRemoved(name);
    if (release !== undefined) return refuse(`--${written}`, `was removed in Kubernetes ${release}: take it out`);
    const nearest = nearestFlag(name, flags);
    refuse(`--${written}`, `unknown flag${nearest === undefined ? "" : `, did you mean --${nearest}?`}`);
  }

  function takeShort(letters: string) {
    const [letter = "", ...rest] = letters;
    const flag = byShorthand.get(letter);
    const tail = rest.join("");
    if (flag === undefined) return refuse(`-${letters}`, `unknown flag -${letter}; long flags begin with --`);
    if (tail.startsWith("=") && tail.length > 1) return take(`-${letter}`, flag, tail.slice(1));
    if (!needsNoValue(flag)) return take(`-${letter}`, flag, tail === "" ? undefined : tail);
    take(`-${letter}`, flag, undefined);
    if (tail !== "") takeShort(tail);
  }

  while (position < argv.length) {
    const word = argv[position++] ?? "";
    if (word === "--") for (const last of argv.slice(position)) refuseWord(last);
    if (word === "--") break;
    if (word.startsWith("--")) takeLong(word);
    else if (word.startsWith("-") && word !== "-") takeShort(word.slice(1));
    else refuseSwitchValue(word, argv[position - 2] ?? "");
  }
  return { given, problems };
}

function needsNoValue({ type }: Flag): boolean {
  return type === "bool" || type === "version[=true]";
}
