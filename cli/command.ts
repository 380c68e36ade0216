import { type GivenFlag, splitCommandLine } from "../agent/config/flags/command-line.ts";
import type { Flag, FlagGroup } from "../agent/config/flags/flag.ts";
import { parseFlagOverrides } from "../agent/config/flags/flag-overrides.ts";
import { standaloneFlag } from "../agent/config/flags/flag-table.ts";
import { formatHelp } from "../agent/config/flags/help.ts";
import { describeProblem } from "../agent/config/problem.ts";
import { ownProgramName } from "./program-name.ts";
import { type Invocation, withProgram } from "./suggested-command.ts";

/** A command that asks the running agent or describes this program. Its flags follow the rules of the agent's. */
export interface Command {
  readonly name: string;
  /** What follows the name in the first line of the help. */
  readonly synopsis: string;
  readonly introduction: string;
  readonly flags: readonly Flag[];
  /** The flags that the help shows; all of them by default. */
  readonly shownFlags?: readonly Flag[];
  /** The flags of another program that the command takes, too, and those of them that its help shows. */
  readonly passedOn?: { readonly all: readonly FlagGroup[]; readonly shown: FlagGroup };
  readonly closing?: string;
}

/** The flags of a command line. */
export interface GivenFlags {
  /** The last text that was given, or the default. */
  text(name: string): string;
  isSet(name: string): boolean;
  /** Those of the other program, in the order of the command line. */
  readonly passedOn: readonly GivenFlag[];
}

export const helpFlag: Flag = { ...standaloneFlag("help", "bool", "print this help and exit"), shorthand: "h" };
export const rootDirFlag = standaloneFlag("root-dir", "string", "the agent's root directory", {
  default: "/var/lib/kubelet",
  must: "not empty",
});
/** How this program was called, with the root directory that was given. */
export function givenInvocation(given: Pick<GivenFlags, "text">): Invocation {
  return invocationOf(given.text(rootDirFlag.name));
}
/** How this program was called, for an agent with this root directory. */
export function invocationOf(rootDir: string): Invocation {
  return { program: ownProgramName(), rootDir: rootDir === rootDirFlag.default ? undefined : rootDir };
}
/** `-o`: the first format is the default. */
export const outputFlag = (...formats: readonly [string, ...string[]]): Flag => ({
  ...standaloneFlag("output", "string", formats.join(" or "), { default: formats[0], allowed: formats }),
  shorthand: "o",
});

/**
 * Reads the flags of a command. Returns the exit code if there is nothing more to do: 0 after printing the help, 2 after one
 * line on stderr for each error.
 */
export function readFlags(command: Command, args: readonly string[]): GivenFlags | number {
  const { name, flags, passedOn = { all: [] } } = command;
  const program = ownProgramName();
  const own = withProgram(`berth ${name}`, program);
  const { given, problems } = splitCommandLine(args, [...passedOn.all, { title: "", flags }], own);
  const overrides = parseFlagOverrides(given.filter(({ flag }) => flags.includes(flag)));
  const valueFor = (flag: string) =>
    overrides.byName.get(flag)?.value ?? flags.find((one) => one.name === flag)?.default ?? "";
  if (valueFor("help") === true) {
    process.stdout.write(withProgram(helpOf(command), program));
    return 0;
  }
  const errors = [...problems, ...overrides.problems];
  for (const error of errors) process.stderr.write(`berth ${name}: ${describeProblem(error)}\n`);
  if (errors.length > 0) return 2;
  return {
    text: (flag) => String(valueFor(flag)),
    isSet: (flag) => valueFor(flag) === true,
    passedOn: given.filter(({ flag }) => !flags.includes(flag)),
  };
}

function helpOf({ name, synopsis, introduction, flags, shownFlags = flags, passedOn, closing }: Command): string {
  const groups = [{ title: "Flags", flags: shownFlags }, ...(passedOn === undefined ? [] : [passedOn.shown])];
  const usage = `berth ${name} ${synopsis}`;
  return formatHelp({ usage, introduction, groups, ...(closing !== undefined && { closing }) });
}
