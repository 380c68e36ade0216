import { createLogOnChange } from "../../host/async/log-once.ts";
import type { Log, LogFields } from "../../host/log/log.ts";

/** Logs a recurring error when it first occurs, when its message changes, and when it is over. */
export interface OutageLog {
  report(message: string): void;
  clear(): void;
}

/** `fields` go with every line; `recoveryMessage` is logged at the end of an outage. */
export function createOutageLog(log: Log, fields: LogFields, recoveryMessage: string): OutageLog {
  const logged = createLogOnChange();
  return {
    report(message) {
      if (logged.shouldLog(message)) log.error(fields, message);
    },
    clear() {
      if (!logged.isEmpty()) log.info(fields, recoveryMessage);
      logged.clear();
    },
  };
}
