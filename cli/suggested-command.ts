/** The commands that ask an agent, or that act for it, as texts mention them. `berth exec: ` is the beginning of an error. */
const COMMANDS = /\bberth (pods|status|explain|logs|exec|doctor|cni (?:un)?install)(?![\w:-])/g;

/**
 * A text with the root directory that this command was given in each command that it mentions, so that a pasted one asks the
 * same agent; as it is if none was given.
 */
export function withRootDir(text: string, rootDir: string | undefined): string {
  return rootDir === undefined ? text : text.replace(COMMANDS, (command) => `${command} --root-dir ${quoted(rootDir)}`);
}

const quoted = (word: string) => (/^[\w./:=@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
