import { shellWord } from "../proto/shell-word.ts";

/** How the user has called this program: what a suggested command has to repeat, so that it asks the same agent when it is pasted. */
export interface Invocation {
  readonly program: string;
  /** Undefined for the default. */
  readonly rootDir: string | undefined;
}

/** The commands with the flag --root-dir, as texts mention them, and their flags; not `berth exec: ` at the start of an error. */
const COMMANDS = /\bberth (pods|status|explain|logs|exec|doctor|cni (?:un)?install)(?![\w:-])((?: --[\w-]+[ =]\S+)*)/g;

/** A text whose commands call this program as the user has called it, with the same root directory. */
export function withInvocation(text: string, { program, rootDir }: Invocation): string {
  const flag = rootDir === undefined ? "" : ` --root-dir ${shellWord(rootDir)}`;
  return text.replace(COMMANDS, (_, command: string, flags: string) => {
    const hasOwn = / --root-dir[ =]/.test(flags);
    return `${shellWord(program)} ${command}${hasOwn ? "" : flag}${flags}`;
  });
}

/** Any command as a help mentions it; not `berth exec: ` at the start of an error. */
const MENTIONS =
  /(?<![\w./-])berth (?=(?:--help|COMMAND|run|pods|explain|status|logs|exec|cni|doctor|version)(?![\w:-]))/g;

/** A text, such as a help, whose commands call this program as the user has called it. */
export function withProgram(text: string, program: string): string {
  return text.replace(MENTIONS, () => `${shellWord(program)} `);
}
