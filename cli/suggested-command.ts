/**
 * The command with the root directory that this one was given, so that it asks the same agent; as it is if none was given, or if
 * it is not one of berth's.
 */
export function withRootDir(command: string, rootDir: string | undefined): string {
  if (rootDir === undefined || !command.startsWith("berth ")) return command;
  const [before = "", ...after] = command.split(" -- ");
  return [`${before} --root-dir ${quoted(rootDir)}`, ...after].join(" -- ");
}

const quoted = (word: string) => (/^[\w./:=@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
