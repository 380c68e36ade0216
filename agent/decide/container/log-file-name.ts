/** More than any container is ever begun; and what CRI counts attempts with takes what is one more. */
const MOST_ATTEMPTS = 2 ** 31;

/**
 * The attempt that a file in a container's folder of logs is of: `3.log`, and of rotation `3.log.20060102-150405`, with `.gz` or `.tmp` behind
 * it, are of attempt 3. Undefined for what is no log: a container that reaches the folder may put any name there, and a number that no
 * attempt can have must not become the next one's.
 */
export function attemptOfLog(file: string): number | undefined {
  const [, digits] = /^(0|[1-9]\d*)\.log(?:\.|$)/.exec(file) ?? [];
  const attempt = Number(digits);
  return attempt < MOST_ATTEMPTS ? attempt : undefined;
}
