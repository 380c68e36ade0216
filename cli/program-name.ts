import { realpathSync } from "node:fs";
import { basename } from "node:path/posix";

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
 *
 * @internal
 */
export function programName({ argv0, execPath, isCompiled, which }: StartedProgram): string {
  if (!isCompiled) return "berth";
  const name = basename(argv0);
  const found = argv0.includes("/") ? which(name) : null;
  return found === null || realpathSync(found) !== execPath ? argv0 : name;
}

/** What the user has typed to run this process. */
export function ownProgramName(): string {
  const { argv0, execPath } = process;
  return programName({ argv0, execPath, isCompiled: import.meta.path.startsWith("/$bunfs/"), which: Bun.which });
}
