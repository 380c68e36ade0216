import type { Clock } from "../../../host/clock.ts";
import type { TrackedResponse } from "./api-response.ts";

/** A client that takes nothing of a chunk for this time is disconnected. */
const WRITE_TIMEOUT_MS = 5 * 60_000;
/** So long a client may take for the rest of an answer whose last byte is written: a page has some megabytes at most. */
const REST_TIMEOUT_MS = 10 * 60_000;
/** A refusal is a few bytes, and its client has no right to hold a connection. */
const REFUSAL_TIMEOUT_MS = 30_000;

/**
 * Ends answers that their clients do not read: such clients could otherwise hold all connections. An answer that has nothing
 * to write, as the log of a silent container, has no limit.
 */
export function withWriteTimeout(response: TrackedResponse, clock: Clock): TrackedResponse {
  return {
    ...response,
    async write(chunk) {
      const cancel = clock.wakeAt(clock.now() + WRITE_TIMEOUT_MS, response.abort);
      try {
        await response.write(chunk);
      } finally {
        cancel();
      }
    },
  };
}

/** Aborts an answer that has ended, unless the function that this returns is called before: the client has taken all. */
export function limitRest(response: TrackedResponse, isAuthenticated: boolean, clock: Clock): () => void {
  return clock.wakeAt(clock.now() + (isAuthenticated ? REST_TIMEOUT_MS : REFUSAL_TIMEOUT_MS), response.abort);
}
