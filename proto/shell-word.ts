/** A word as a user pastes it into a shell: with quotes unless the shell takes it as it is. */
export const shellWord = (word: string): string =>
  /^[\w./:=@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
