/** No container reaches this many attempts, and CRI's uint32 can hold the next one. */
const MAX_ATTEMPTS = 2 ** 31;

/**
 * The attempt that a file in a container's log directory belongs to: `3.log` and its rotated forms
 * (`3.log.20060102-150405`, with `.gz` or `.tmp`) belong to attempt 3. Undefined for any other name: a container that
 * reaches the directory may create any file, and an impossible number must not become the next attempt.
 */
export function attemptOfLog(file: string): number | undefined {
  const [, digits] = /^(0|[1-9]\d*)\.log(?:\.|$)/.exec(file) ?? [];
  const attempt = Number(digits);
  return attempt < MAX_ATTEMPTS ? attempt : undefined;
}
