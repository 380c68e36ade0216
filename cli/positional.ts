import type { Flag } from "../agent/config/flags/flag.ts";

export interface SplitArguments {
  /** The arguments that are neither flags nor their values. */
  readonly positionals: readonly string[];
  readonly flags: readonly string[];
  /** What follows `--`; undefined without it. */
  readonly afterDashes: readonly string[] | undefined;
}

/**
 * Splits the arguments of a command that takes more than flags, such as the name of a pod. An unknown flag counts as
 * one without a value.
 */
export function splitPositionals(args: readonly string[], flags: readonly Flag[]): SplitArguments {
  const dashes = args.indexOf("--");
  const [before, afterDashes] = dashes < 0 ? [args, undefined] : [args.slice(0, dashes), args.slice(dashes + 1)];
  const positionals: string[] = [];
  const found: string[] = [];
  let isValue = false;
  for (const argument of before) {
    if (isValue || (argument.startsWith("-") && argument !== "-")) {
      found.push(argument);
      isValue = !isValue && needsValue(argument, flags);
    } else positionals.push(argument);
  }
  return { positionals, flags: found, afterDashes };
}

/** Whether the next argument is the value of this flag: `--name`, or `-n` at the end of a group of letters. */
function needsValue(argument: string, flags: readonly Flag[]): boolean {
  if (argument.includes("=")) return false;
  const takesValue = (flag: Flag | undefined): boolean => flag !== undefined && flag.type !== "bool";
  if (argument.startsWith("--")) return takesValue(flags.find(({ name }) => name === argument.slice(2)));
  const letters = [...argument.slice(1)].map((letter) => flags.find((flag) => flag.shorthand === letter));
  // Only the last letter: what follows a letter that takes a value is the value.
  return takesValue(letters.at(-1)) && !letters.slice(0, -1).some(takesValue);
}
