import { realpathSync } from "node:fs";
import { basename } from "node:path/posix";

/** How the user has called this program: what a suggested command has to repeat, so that it asks the same agent when it is pasted. */
export interface Invocation {
  readonly program: string;
  /** Undefined for the default. */
  readonly rootDir: string | undefined;
}

/** The commands with the flag --root-dir, as texts mention them; not `berth exec: ` at the start of an error. */
const COMMANDS = /\bberth (pods|status|explain|logs|exec|doctor|cni (?:un)?install)(?![\w:-])/g;

/** A text whose commands call this program as the user has called it, with the same root directory. */
export function withInvocation(text: string, { program, rootDir }: Invocation): string {
  const flag = rootDir === undefined ? "" : ` --root-dir ${quoted(rootDir)}`;
  return text.replace(COMMANDS, (_, command: string) => `${quoted(program)} ${command}${flag}`);
}

const quoted = (word: string) => (/^[\w./:=@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

export interface StartedProgram {
  readonly argv0: string;
  readonly execPath: string;
  /** A run from source has the name of Bun. */
  readonly isCompiled: boolean;
  /** Where the shell finds a program of this name. */
  readonly which: (name: string) => string | null;
}

/**
 * What a user types to run this program: its path as it was given, such as `dist/berth`, or its name where the shell finds it by
 * that.
 */
export function programName({ argv0, execPath, isCompiled, which }: StartedProgram): string {
  if (!isCompiled) return "berth";
  const name = basename(argv0);
  const found = argv0.includes("/") ? which(name) : null;
  return found === null || realpathSync(found) !== execPath ? argv0 : name;
}
