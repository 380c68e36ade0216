/** This program, and kubectl, which a user may have on another machine: their commands are always shown. */
const ALWAYS_SHOWN: readonly string[] = ["berth", "kubectl"];

/** For a user without EDITOR: the first of these that the machine has. */
const EDITORS = ["editor", "nano", "vim", "vi"] as const;

export interface AvailableCommandsOptions {
  /** Where the shell finds a program of this name. */
  readonly which: (name: string) => string | null;
  /** The environment variable EDITOR. */
  readonly editor: string | undefined;
}

/** Those of the suggested commands whose programs this machine has, with an editor that it has for `$EDITOR`. */
export function availableCommands(
  commands: readonly string[],
  { which, editor }: AvailableCommandsOptions,
): readonly string[] {
  const isThere = (name: string) => which(name) !== null;
  return commands.flatMap((command) => {
    const [program = "", ...words] = command.split(" ");
    if (program !== "$EDITOR") return ALWAYS_SHOWN.includes(program) || isThere(program) ? [command] : [];
    if (editor !== undefined && editor !== "") return [command];
    // Without any editor the path of the file still says what to change.
    return [[EDITORS.find(isThere) ?? "$EDITOR", ...words].join(" ")];
  });
}

const RUN = "run   ";

/** A text whose lines `run   COMMAND` are only those of available commands. */
export function withAvailableCommands(text: string, options: AvailableCommandsOptions): string {
  const lines = text.split("\n").flatMap((line) => {
    if (!line.startsWith(RUN)) return [line];
    return availableCommands([line.slice(RUN.length)], options).map((command) => `${RUN}${command}`);
  });
  return lines.join("\n");
}
