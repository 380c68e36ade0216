import type { AttachmentKey } from "../../../cni/cache-entry.ts";
import { CniError, cniCodes, describeCniError } from "../../../cni/error.ts";
import type { CollectedGarbage, ListedSandboxes } from "../../../cni/garbage.ts";
import { createRepeatedTimeLimit, type TimeLimit } from "../../../cni/time-limit.ts";
import { type BackoffOptions, createBackoffCounter } from "../../../host/async/backoff.ts";
import { createCoalescingWorker } from "../../../host/async/coalescing-worker.ts";
import { createLogOnce, type LogOnce } from "../../../host/async/log-once.ts";
import type { Clock } from "../../../host/clock.ts";
import { messageOf } from "../../../host/error-message.ts";
import type { Log } from "../../../host/log/log.ts";

export interface NetworkAuditOptions {
  /** All sandboxes of the runtime. Rejects if the runtime does not answer, or does not call the delegate: then nothing is deleted. */
  readonly listSandboxes: () => Promise<ListedSandboxes>;
  /**
   * Deletes what has outlived its sandbox. The limit ends a plugin that hangs, and the wait for a lock, before the signal aborts: then the
   * error names them. Rejects with `CniError` or `FilesError`.
   */
  readonly collectGarbage: (
    sandboxes: ListedSandboxes,
    signal: AbortSignal,
    timeLimit: TimeLimit,
  ) => Promise<CollectedGarbage>;
  readonly clock: Clock;
  readonly log: Log;
}

/** Compares the network of pods with the sandboxes of the runtime. */
export interface NetworkAudit {
  /** The runtime has been listed, at the start or after an outage. */
  wake(): void;
  /** Cancels the audit under way. */
  stop(): Promise<void>;
}

/** No ADD of the network begins during GC. */
const TIMEOUT_MS = 60_000;

/** A runtime may come and go every second: a plugin that fails is not called each time. */
const BACKOFF: BackoffOptions = { initialMs: 10_000, maxMs: 600_000 };

/**
 * Creates an audit that runs after each `wake`. After a failure it runs again when the back-off is over, until it succeeds; a
 * `wake` does not shorten the back-off of a plugin. It also runs again when the collection says so: for an attachment that was too young, or
 * whose DEL has failed. In between there is no timer. Each failure is logged once until an audit succeeds, and never stops
 * the agent.
 */
export function createNetworkAudit(options: NetworkAuditOptions): NetworkAudit {
  const { clock } = options;
  const stopped = new AbortController();
  const backoff = createBackoffCounter(BACKOFF);
  const logged = createLogOnce();
  const worker = createCoalescingWorker(run);
  // By the monotonic clock: setting the wall clock neither shortens nor prolongs the back-off.
  let notBeforeMs = 0;
  let cancel = () => {};

  async function run(): Promise<void> {
    cancel();
    if (stopped.signal.aborted) return;
    const late = new AbortController();
    const timedOut = new CniError(cniCodes.internal, `it took longer than ${TIMEOUT_MS / 1_000} s`);
    const cancelTimeout = clock.wakeAt(clock.now() + TIMEOUT_MS, () => late.abort(timedOut));
    const outcome = await audit(options, logged, AbortSignal.any([stopped.signal, late.signal]));
    cancelTimeout();
    if (stopped.signal.aborted) return;
    notBeforeMs = 0;
    if (outcome.failed === undefined) {
      backoff.reset();
      logged.clear();
      const { againAfterMs } = outcome;
      if (againAfterMs !== undefined) cancel = clock.wakeAt(clock.now() + againAfterMs, worker.wake);
      return;
    }
    const delayMs = backoff.next();
    if (outcome.failed === "plugins") notBeforeMs = clock.monotonicMs() + delayMs;
    cancel = clock.wakeAt(clock.now() + delayMs, worker.wake);
  }

  return {
    wake() {
      // Otherwise the timer of the back-off is pending.
      if (clock.monotonicMs() >= notBeforeMs) worker.wake();
    },
    async stop() {
      stopped.abort();
      cancel();
      await worker.settled();
    },
  };
}

/** `runtime`: its sandboxes are unknown, or it does not call the delegate; no plugin was called. */
type Outcome =
  | { readonly failed: "runtime" | "plugins" }
  | ({ readonly failed: undefined } & Pick<CollectedGarbage, "againAfterMs">);

async function audit(options: NetworkAuditOptions, logged: LogOnce, signal: AbortSignal): Promise<Outcome> {
  const { listSandboxes, collectGarbage, clock, log } = options;
  const timeLimit = createRepeatedTimeLimit(TIMEOUT_MS, clock, signal);
  let sandboxes: ListedSandboxes | undefined;
  try {
    sandboxes = await listSandboxes();
    const { deleted, againAfterMs } = await collectGarbage(sandboxes, signal, timeLimit);
    if (deleted.length > 0)
      log.info(
        { attachments: deleted.map(nameOf) },
        "attachments to the network were deleted, since their sandboxes are gone",
      );
    return { failed: undefined, againAfterMs };
  } catch (error) {
    // An audit that was cancelled has not failed; one whose time is over has.
    if (!signal.aborted || signal.reason instanceof CniError) {
      const stderr = error instanceof CniError ? error.stderr : "";
      const reason = error instanceof CniError ? describeCniError(error) : messageOf(error);
      const message = "the network may keep addresses and interfaces of sandboxes that are gone";
      if (logged.shouldLog(reason)) log.warn({ reason, ...(stderr !== "" && { stderr }) }, message);
    }
    return { failed: sandboxes === undefined ? "runtime" : "plugins" };
  }
}

const nameOf = ({ network, containerId, ifName }: AttachmentKey) => `${network} ${containerId} ${ifName}`;
