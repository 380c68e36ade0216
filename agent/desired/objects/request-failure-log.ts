import type { Log, LogFields } from "../../../host/log/log.ts";
import { isLoggedElsewhere } from "../../../kube/error.ts";
import { createOutageLog } from "../outage-log.ts";

/** Logs why a request that is repeated fails: when it first fails, when the reason changes, and when it is over. */
export interface RequestFailureLog {
  /** `reason` ends the line. An error that the session pool logs once for all requests is left out. */
  report(error: unknown, reason: string): void;
  clear(): void;
}

/** The lines of a log of requests: what the requests fail to do, and what is true again afterwards. */
interface RequestLogLines {
  readonly failure: string;
  readonly recovery: string;
}

/** `fields` go with every line. */
export function createRequestFailureLog(
  log: Log,
  fields: LogFields,
  { failure, recovery }: RequestLogLines,
): RequestFailureLog {
  const outageLog = createOutageLog(log, fields, recovery);
  return {
    report(error, reason) {
      if (!isLoggedElsewhere(error)) outageLog.report(`${failure}: ${reason}`);
    },
    clear: outageLog.clear,
  };
}
