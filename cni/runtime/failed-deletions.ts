import { type BackoffOptions, backoffMs } from "../../host/async/backoff.ts";
import { createKeyedLogOnChange } from "../../host/async/log-once.ts";
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
  /** DEL may not be called now, because nothing shows whether a pod still has the attachment. One that is due is due later. */
  postpone(fileName: string): void;
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
  const failed = new Map<string, { readonly count: number; readonly dueAtMs: number }>();
  const logged = createKeyedLogOnChange<string>();
  const isDue = (fileName: string) => (failed.get(fileName)?.dueAtMs ?? 0) <= monotonicMs();
  function delay(fileName: string, delayMs: (count: number) => number): void {
    const count = (failed.get(fileName)?.count ?? 0) + 1;
    failed.set(fileName, { count, dueAtMs: monotonicMs() + delayMs(count) });
  }
  function remove(fileName: string): void {
    failed.delete(fileName);
    logged.clear(fileName);
  }
  return {
    failures: (fileName) => failed.get(fileName)?.count ?? 0,
    isDue,
    add(fileName, error) {
      delay(fileName, (count) =>
        LASTING_CODES.has(error.code) ? Number.POSITIVE_INFINITY : backoffMs(BACKOFF, count),
      );
      return logged.shouldLog(fileName, describeCniError(error));
    },
    postpone(fileName) {
      if (failed.has(fileName) && isDue(fileName)) delay(fileName, (count) => backoffMs(BACKOFF, count));
    },
    remove,
    retain(fileNames) {
      const kept = new Set(fileNames);
      for (const fileName of failed.keys()) if (!kept.has(fileName)) remove(fileName);
    },
    againAfterMs() {
      const next = Math.min(...[...failed.values()].map(({ dueAtMs }) => dueAtMs));
      return Number.isFinite(next) ? Math.max(0, next - monotonicMs()) : undefined;
    },
  };
}
