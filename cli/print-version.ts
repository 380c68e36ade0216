import { type Command, helpFlag, outputFlag, readFlags } from "./command.ts";
import { versionFields, versionLine } from "./version.ts";

const command: Command = {
  name: "version",
  synopsis: "[-o json]",
  introduction: "Shows the release.\n",
  flags: [outputFlag("text", "json"), helpFlag],
  closing: "Exit code 0: the release is shown. 2: wrong arguments.\n",
};

/** `berth version` with arguments. Exit code 2 for wrong ones. */
export function printVersion(args: readonly string[]): number {
  const given = readFlags(command, args);
  if (typeof given === "number") return given;
  process.stdout.write(given.text("output") === "json" ? `${JSON.stringify(versionFields())}\n` : versionLine());
  return 0;
}
