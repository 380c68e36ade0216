import { type BackoffOptions, backoffMs } from "../../host/async/backoff.ts";
import type { Clock } from "../../host/clock.ts";
import { type CniError, cniCodes, describeCniError } from "../error.ts";

/** The attachments whose DEL has failed, by the names of their cache files, and when each is tried again. Owns no timer. */
export interface FailedDeletions {
  /** How often DEL has failed. */
  failures(fileName: string): number;
  /** Whether DEL may be called now. */
  isDue(fileName: string): boolean;
  /** DEL has failed. Returns whether to log that: the reason differs from that of the last time. */
  add(fileName: string, error: CniError): boolean;
  /** DEL has succeeded. */
  remove(fileName: string): void;
  /** Forgets all attachments but these: the others are not left over any more. */
  retain(fileNames: readonly string[]): void;
  /** After how many milliseconds the next one is due; undefined if none ever is. */
  againAfterMs(): number | undefined;
}

const BACKOFF: BackoffOptions = { initialMs: 10_000, maxMs: 600_000 };

/**
 * The codes of failures that stay as long as plugins and cache are as they are: DEL has the cached configuration each time, and a plugin that was
 * uninstalled is not searched again and again.
 */
const LASTING_CODES: ReadonlySet<number> = new Set([
  cniCodes.incompatibleVersion,
  cniCodes.invalidNetworkConf,
  cniCodes.notAvailable,
]);

export function createFailedDeletions({ monotonicMs }: Pick<Clock, "monotonicMs">): FailedDeletions {
  const failed = new Map<string, { readonly count: number; readonly dueAtMs: number; readonly reason: string }>();
  return {
    failures: (fileName) => failed.get(fileName)?.count ?? 0,
    isDue: (fileName) => (failed.get(fileName)?.dueAtMs ?? 0) <= monotonicMs(),
    add(fileName, error) {
      const last = failed.get(fileName);
      const count = (last?.count ?? 0) + 1;
      const delayMs = LASTING_CODES.has(error.code) ? Number.POSITIVE_INFINITY : backoffMs(BACKOFF, count);
      const reason = describeCniError(error);
      failed.set(fileName, { count, dueAtMs: monotonicMs() + delayMs, reason });
      return reason !== last?.reason;
    },
    remove: (fileName) => void failed.delete(fileName),
    retain(fileNames) {
      const kept = new Set(fileNames);
      for (const fileName of failed.keys()) if (!kept.has(fileName)) failed.delete(fileName);
    },
    againAfterMs() {
      const next = Math.min(...[...failed.values()].map(({ dueAtMs }) => dueAtMs));
      return Number.isFinite(next) ? Math.max(0, next - monotonicMs()) : undefined;
    },
  };
}
