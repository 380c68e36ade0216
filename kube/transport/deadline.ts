import { onAbort } from "../../host/async/abort.ts";
import type { Clock } from "../../host/clock.ts";
import { KubeError } from "../error.ts";

export interface DeadlineOptions {
  readonly verb: string;
  readonly deadlineMs: number;
  /** The caller's. */
  readonly signal: AbortSignal | undefined;
  /** Aborts when the client is closed, with the error as its reason. */
  readonly closed: AbortSignal;
  readonly clock: Clock;
  /** The known reason why requests fail at the moment, for the timeout's message. */
  readonly currentOutage: () => KubeError | undefined;
}

export interface Deadline {
  /** Aborts with a `KubeError` as its reason. */
  readonly signal: AbortSignal;
  remainingMs(): number;
  /** Removes the deadline; the signals stay in effect. */
  remove(): void;
}

/** Runs `work` under a signal that aborts at the deadline, with the caller's signal, and when the client is closed. */
export async function withDeadline<T>(options: DeadlineOptions, work: (deadline: Deadline) => Promise<T>): Promise<T> {
  const { verb, deadlineMs, signal, closed, clock, currentOutage } = options;
  const controller = new AbortController();
  const at = clock.now() + deadlineMs;
  const onDeadline = () => {
    const cause = currentOutage();
    const suffix = cause === undefined ? "" : `: ${cause.message}`;
    const message = `${verb}: no answer within ${formatSeconds(deadlineMs)}${suffix}`;
    controller.abort(new KubeError("TIMEOUT", message, { cause }));
  };
  const remove = clock.wakeAt(at, onDeadline);
  const removeListeners = [
    onAbort(signal, () => controller.abort(new KubeError("CANCELLED", `${verb}: cancelled`))),
    onAbort(closed, () => controller.abort(closed.reason)),
  ];
  try {
    controller.signal.throwIfAborted();
    return await work({ signal: controller.signal, remainingMs: () => at - clock.now(), remove });
  } finally {
    remove();
    for (const removeListener of removeListeners) removeListener();
  }
}

function formatSeconds(ms: number): string {
  return ms % 1000 === 0 ? `${ms / 1000} s` : `${ms} ms`;
}
