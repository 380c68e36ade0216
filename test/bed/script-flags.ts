import { parseArgs } from "node:util";

/**
 * Reads the command line of a script that takes the switches `names`, each without a value, and `--help`. Returns those that
 * were given; or, once the help or what is wrong has been printed, the exit code.
 */
export function readSwitches(
  script: string,
  usage: string,
  names: readonly string[],
  args: readonly string[] = process.argv.slice(2),
): ReadonlySet<string> | number {
  const switches = names.map((name) => [name, { type: "boolean" as const }] as const);
  const options = { ...Object.fromEntries(switches), help: { type: "boolean" as const, short: "h" } };
  try {
    const { values } = parseArgs({ args: [...args], options });
    if (!values.help) return new Set(Object.keys(values));
    process.stdout.write(usage);
    return 0;
  } catch (error) {
    // What parseArgs adds is how to pass a positional argument, and there is none.
    const [problem] = (error instanceof Error ? error.message : String(error)).split(". ");
    process.stderr.write(`${script}: ${problem}\n\n${usage}`);
    return 2;
  }
}
