import { parseArgs } from "node:util";

/**
 * Parses the command line of a script that takes the flags `names`, each without a value, and `--help`. Returns the
 * flags that were given, or the exit code after it has printed the help or an error.
 */
export function readScriptFlags(
  script: string,
  usage: string,
  names: readonly string[],
  args: readonly string[] = process.argv.slice(2),
): ReadonlySet<string> | number {
  const flags = names.map((name) => [name, { type: "boolean" as const }] as const);
  const options = { ...Object.fromEntries(flags), help: { type: "boolean" as const, short: "h" } };
  try {
    const { values } = parseArgs({ args: [...args], options });
    if (!values.help) return new Set(Object.keys(values));
    process.stdout.write(usage);
    return 0;
  } catch (error) {
    // Drops the hint of parseArgs on positional arguments, which the scripts do not take.
    const [problem] = (error instanceof Error ? error.message : String(error)).split(". ");
    process.stderr.write(`${script}: ${problem}\n\n${usage}`);
    return 2;
  }
}
