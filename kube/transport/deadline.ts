import type { Clock } from "../../host/clock.ts";
import { KubeError } from "../error.ts";

export interface Limits {
  readonly verb: string;
  readonly deadlineMs: number;
  /** The caller's. */
  readonly signal: AbortSignal | undefined;
  /** Aborts with the reason why everything ends. */
  readonly closing: AbortSignal;
  readonly clock: Clock;
  /** What keeps the request from its answer, if anything is known. */
  readonly obstacle: () => KubeError | undefined;
}

export interface Limit {
  /** Aborts with a `KubeError` as its reason. */
  readonly signal: AbortSignal;
  leftMs(): number;
  /** Takes the deadline off; the signals stay. */
  lift(): void;
}

/** Does some work under a signal that aborts at the deadline, with the caller's signal, and when everything is closed. */
export async function withinLimits<T>(limits: Limits, work: (limit: Limit) => Promise<T>): Promise<T> {
  const { verb, deadlineMs, signal, closing, clock, obstacle } = limits;
  const controller = new AbortController();
  const at = clock.now() + deadlineMs;
  const expire = () => {
    const cause = obstacle();
    const why = cause === undefined ? "" : `: ${cause.message}`;
    const message = `${verb}: no answer within ${inSeconds(deadlineMs)}${why}`;
    controller.abort(new KubeError("TIMEOUT", message, { cause }));
  };
  const cancel = () => controller.abort(new KubeError("CANCELLED", `${verb}: cancelled`));
  const close = () => controller.abort(closing.reason);
  const lift = clock.wakeAt(at, expire);
  signal?.addEventListener("abort", cancel, { once: true });
  closing.addEventListener("abort", close, { once: true });
  if (signal?.aborted) cancel();
  if (closing.aborted) close();
  try {
    controller.signal.throwIfAborted();
    return await work({ signal: controller.signal, leftMs: () => at - clock.now(), lift });
  } finally {
    lift();
    signal?.removeEventListener("abort", cancel);
    closing.removeEventListener("abort", close);
  }
}

/** Waits for what others wait for too, no longer than the signal allows. */
export function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const onAbort = () => reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}

function inSeconds(ms: number): string {
  return ms % 1000 === 0 ? `${ms / 1000} s` : `${ms} ms`;
}
