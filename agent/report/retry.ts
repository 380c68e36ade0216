import { createTold } from "../../host/async/event-source.ts";
import type { Log, LogFields } from "../../host/log.ts";
import { isToldByConnection, KubeError, type KubeErrorCode } from "../../kube/error.ts";

const FIRST_MS = 100;
const LONGEST_MS = 7_000;
/** The longest that a server may ask us to wait; a node whose heartbeats stop for longer is lost. */
const LONGEST_REQUESTED_MS = 20_000;

/** How long to wait after so many failures in a row: from a tenth of a second, doubling, up to seven, or as the server wants. */
export function retryAfterMs(failures: number, error: unknown): number {
  const requestedMs = error instanceof KubeError ? (error.retryAfterMs ?? 0) : 0;
  const delayMs = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(failures - 1, 16));
  return Math.max(delayMs, Math.min(requestedMs, LONGEST_REQUESTED_MS));
}

/** Whether it lies between us and the API server, and not in what was asked for: asked again, it may be carried out. */
export function isOutage(error: unknown): boolean {
  return isToldElsewhere(error) || hasCode(error, "TIMEOUT");
}

/** Whether nothing has to be said of it: the connection does, once for all, or there is nothing to say. */
function isToldElsewhere(error: unknown): boolean {
  return isToldByConnection(error) || hasCode(error, "CLOSED", "CANCELLED");
}

/** The server answers, and serves nobody, or not us: whatever the request was, it may be taken later. */
export function isOfServer(error: unknown): boolean {
  return hasCode(error, "SERVER", "TOO_MANY_REQUESTS", "TLS", "UNAUTHORIZED", "CREDENTIALS", "NOT_JSON");
}

/** True for an error of the API server, or of the way there, that has one of the codes. */
export function hasCode(error: unknown, ...codes: readonly KubeErrorCode[]): boolean {
  return error instanceof KubeError && codes.includes(error.code);
}

/** What stands in the way of something that is tried again and again: each reason is told once, until it is over. */
export interface Trouble {
  met(error: unknown): void;
  over(): void;
}

/** `sentence` is what the log says of each reason, with `fields` beside it. */
export function createTrouble(log: Log, sentence: string, fields: LogFields = {}): Trouble {
  const told = createTold();
  return {
    met(error) {
      const message = error instanceof Error ? error.message : String(error);
      const level = !isToldElsewhere(error) && told.isNews(message) ? "warn" : "debug";
      log[level]({ ...fields, err: error }, sentence);
    },
    over: told.clear,
  };
}
