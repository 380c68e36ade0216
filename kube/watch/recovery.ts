import type { Clock, Instant } from "../../host/clock.ts";
import { KubeError, type KubeErrorCode } from "../error.ts";
import type { Connection } from "../transport/connection.ts";

/** Whether the API server serves us, as far as requests have shown, and who waits for it to do so. */
export interface Recovery {
  /** The same connection, whose requests are listened to. */
  listen(connection: Connection): Connection;
  /**
   * Resolves after a time; sooner where the server has not served us for a while, and does so again. Rejects with the signal's
   * reason.
   */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
  /** Calls `recovered` each time when sleepers are woken, until the signal aborts. */
  tell(recovered: () => void, signal: AbortSignal): void;
}

/** As opposed to what is wrong with one request. */
const NOT_SERVED: ReadonlySet<KubeErrorCode> = new Set([
  "UNREACHABLE",
  "TIMEOUT",
  "CLOSED",
  "TLS",
  "CREDENTIALS",
  "UNAUTHORIZED",
  "TOO_MANY_REQUESTS",
  "SERVER",
  "NOT_JSON",
]);
/** A server that fails one request and serves the next is none that comes back: who waits for it has its own reason to. */
const SHORTEST_OUTAGE_MS = 3_000;
/** All nodes see it come back at one moment. */
const SPREAD_MS = 1_000;

/**
 * Whoever has failed for long waits for long, each by itself. One request that is served tells all of them, so that the return of a
 * server is found by whoever asks first.
 */
export function createRecovery(clock: Clock, random: () => number): Recovery {
  const sleepers = createSleepers(clock, random);
  let failingSince: Instant | undefined;

  function served(): void {
    const since = failingSince;
    failingSince = undefined;
    if (since !== undefined && clock.now() - since >= SHORTEST_OUTAGE_MS) sleepers.wake();
  }

  function failed(error: unknown): void {
    if (!(error instanceof KubeError)) return;
    if (NOT_SERVED.has(error.code)) failingSince ??= clock.now();
    else if (error.status !== undefined) served();
  }

  return {
    listen: (connection) => ({
      state: () => connection.state(),
      close: () => connection.close(),
      async request(request) {
        try {
          const answer = await connection.request(request);
          served();
          return answer;
        } catch (error) {
          failed(error);
          throw error;
        }
      },
      async lines(request, onLine, opened) {
        const begun = () => {
          served();
          opened?.();
        };
        const error = await connection.lines(request, onLine, begun);
        failed(error);
        return error;
      },
    }),
    sleep: sleepers.sleep,
    tell(recovered, signal) {
      const sleepOn = () => {
        sleepers.sleep(Number.POSITIVE_INFINITY, signal).then(
          () => {
            sleepOn();
            recovered();
          },
          () => {
            // Nobody wants to be told any more.
          },
        );
      };
      sleepOn();
    },
  };
}

function createSleepers(clock: Clock, random: () => number) {
  const wakers = new Set<() => void>();
  return {
    wake(): void {
      for (const wake of [...wakers]) wake();
    },
    sleep(ms: number, signal: AbortSignal): Promise<void> {
      return new Promise((resolve, reject) => {
        if (signal.aborted) return reject(signal.reason);
        const due = clock.now() + ms;
        let cancel = Number.isFinite(due) ? clock.wakeAt(due, over) : () => {};
        wakers.add(wake);
        signal.addEventListener("abort", onAbort, { once: true });

        function leave(): void {
          cancel();
          wakers.delete(wake);
          signal.removeEventListener("abort", onAbort);
        }
        function over(): void {
          leave();
          resolve();
        }
        function onAbort(): void {
          leave();
          reject(signal.reason);
        }
        function wake(): void {
          cancel();
          wakers.delete(wake);
          cancel = clock.wakeAt(Math.min(due, clock.now() + random() * SPREAD_MS), over);
        }
      });
    },
  };
}
