import type { Log, LogFields } from "../log/log.ts";
import { createLogOnce } from "./log-once.ts";

/** Logs the failures of an operation that is retried: each reason once as a warning, then at debug level, until it succeeds. */
export interface FailureLog {
  /** `fields` go with this line. */
  report(error: unknown, fields?: LogFields): void;
  clear(): void;
}

/** `reasonOf` tells two failures apart; undefined for a failure that is no warning. */
export function createFailureLog(
  log: Log,
  message: string,
  reasonOf: (error: unknown) => string | undefined,
): FailureLog {
  const logged = createLogOnce();
  return {
    report(error, fields = {}) {
      const reason = reasonOf(error);
      const level = reason !== undefined && logged.shouldLog(reason) ? "warn" : "debug";
      log[level]({ ...fields, err: error }, message);
    },
    clear: logged.clear,
  };
}
