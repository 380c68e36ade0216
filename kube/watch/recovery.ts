import { onAbort } from "../../host/async/abort.ts";
import type { Clock, Instant } from "../../host/clock.ts";
import { KubeError, type KubeErrorCode } from "../error.ts";
import type { KubeConnection } from "../transport/connection.ts";

/**
 * Detects from the results of all requests that the API server serves us again after an outage, and ends the back-offs
 * that wait for it.
 */
export interface Recovery {
  /** Returns the same connection with its requests observed. */
  track(connection: KubeConnection): KubeConnection;
  /**
   * Resolves after `ms`, or sooner when the server serves us again after an outage. Rejects with the signal's reason.
   */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
  /** Calls `onRecovered` each time an outage ends, until the signal aborts. */
  subscribeToRecovery(onRecovered: () => void, signal: AbortSignal): void;
}

/** The server does not serve us at all, as opposed to an error of one request. */
const OUTAGE_CODES: ReadonlySet<KubeErrorCode> = new Set([
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
/**
 * A server that fails one request and serves the next was not away: a caller then backs off for a reason of its own.
 */
const MIN_OUTAGE_MS = 3_000;
/** Wake-ups are spread over this time, since all nodes see the server return at the same moment. */
const SPREAD_MS = 1_000;

/**
 * After a long outage each reflector and reporter is in a long back-off of its own. The first request that the server
 * serves wakes all of them.
 */
export function createRecovery(clock: Clock, random: () => number): Recovery {
  const sleepers = createSleepers(clock, random);
  let failingSince: Instant | undefined;

  function served(): void {
    const since = failingSince;
    failingSince = undefined;
    if (since !== undefined && clock.now() - since >= MIN_OUTAGE_MS) sleepers.wake();
  }

  function failed(error: unknown): void {
    if (!(error instanceof KubeError)) return;
    if (OUTAGE_CODES.has(error.code)) failingSince ??= clock.now();
    else if (error.status !== undefined) served();
  }

  return {
    track: (connection) => ({
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
      async lines(request, onLine, onOpen) {
        const onStart = () => {
          served();
          onOpen?.();
        };
        const error = await connection.lines(request, onLine, onStart);
        failed(error);
        return error;
      },
    }),
    sleep: sleepers.sleep,
    subscribeToRecovery(onRecovered, signal) {
      const subscribe = () => {
        sleepers.sleep(Number.POSITIVE_INFINITY, signal).then(
          () => {
            subscribe();
            onRecovered();
          },
          () => {
            // The signal has aborted: the subscription has ended.
          },
        );
      };
      subscribe();
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
        let cancel = Number.isFinite(due) ? clock.wakeAt(due, finish) : () => {};
        wakers.add(wake);
        const remove = onAbort(signal, () => {
          cleanUp();
          reject(signal.reason);
        });

        function cleanUp(): void {
          cancel();
          wakers.delete(wake);
          remove();
        }
        function finish(): void {
          cleanUp();
          resolve();
        }
        function wake(): void {
          cancel();
          wakers.delete(wake);
          cancel = clock.wakeAt(Math.min(due, clock.now() + random() * SPREAD_MS), finish);
        }
      });
    },
  };
}
