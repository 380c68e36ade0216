import { parseArgs } from "node:util";
import { versionFields, versionLine } from "./version.ts";

const usage = `berth version [-o json]

Shows the release.

  -o, --output FORMAT   json
`;

const options = {
  output: { type: "string", short: "o" },
  help: { type: "boolean", short: "h", default: false },
} as const;

/** `berth version` with arguments. Exit code 2 for wrong ones. */
export function printVersion(args: readonly string[]): number {
  const parsed = readArguments(args);
  if (typeof parsed === "string") {
    process.stderr.write(`berth version: ${parsed}\n`);
    return 2;
  }
  if (parsed.help) process.stdout.write(usage);
  else process.stdout.write(parsed.output === "json" ? `${JSON.stringify(versionFields())}\n` : versionLine());
  return 0;
}

function readArguments(args: readonly string[]) {
  try {
    const { values } = parseArgs({ args: [...args], options });
    return ["json", undefined].includes(values.output) ? values : `-o takes json, found ${values.output}`;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
