import type { FileStat } from "../../host/fs/files.ts";

const SETTLED_AFTER_MS = 30;
const ONE_WRITE_BYTES = 4096;

/**
 * Whether a file may be half written still. A rename brings a file whole: one that has arrived, as far as is known, and has not been
 * written to since is read at once. What was written to, or nobody knows how it came, gets a moment after its last change; and
 * so does what is empty or larger than one write, since the news of a write may come after the look. Returns when to look again.
 */
export function unsettledUntil(
  { sizeBytes, modifiedMs }: FileStat,
  hasArrived: boolean,
  now: number,
): number | undefined {
  const isWhole = hasArrived && sizeBytes > 0 && sizeBytes <= ONE_WRITE_BYTES;
  const settledAt = modifiedMs + SETTLED_AFTER_MS;
  // A modification in the future is a clock that was set back, or a file that was packed elsewhere.
  return isWhole || settledAt <= now || modifiedMs > now + SETTLED_AFTER_MS ? undefined : settledAt;
}
