/** The commands with the flag --root-dir, as texts mention them; not `berth exec: ` at the start of an error. */
const COMMANDS = /\bberth (pods|status|explain|logs|exec|doctor|cni (?:un)?install)(?![\w:-])/g;

/**
 * A text with the given root directory added to each command that it mentions, so that a pasted command asks the same agent. Without
 * a root directory the text stays as it is.
 */
export function withRootDir(text: string, rootDir: string | undefined): string {
  return rootDir === undefined ? text : text.replace(COMMANDS, (command) => `${command} --root-dir ${quoted(rootDir)}`);
}

const quoted = (word: string) => (/^[\w./:=@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
