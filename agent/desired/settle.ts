import type { FileStat } from "../../host/files.ts";

const SETTLED_AFTER_MS = 30;
const ONE_WRITE_BYTES = 4096;

/**
 * Whether a file may be half written still. A rename brings a file whole, and so does a single small write; what is empty or
 * larger than one write, and was touched a moment ago, gets that moment. Returns when to look again, or undefined.
 */
export function unsettledUntil({ sizeBytes, modifiedMs }: FileStat, now: number): number | undefined {
  const isWhole = sizeBytes > 0 && sizeBytes <= ONE_WRITE_BYTES;
  const settledAt = modifiedMs + SETTLED_AFTER_MS;
  // A modification in the future is a clock that was set back, or a file that was packed elsewhere.
  return isWhole || settledAt <= now || modifiedMs > now + SETTLED_AFTER_MS ? undefined : settledAt;
}
