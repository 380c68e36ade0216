// The calls of the fake runtime: their record, and how a test makes them fail, wait or end.
import { CriError } from "../../cri/error.ts";
import type { CriCallOptions, Runtime } from "../../cri/runtime.ts";
import type { Clock } from "../../host/clock.ts";
import { noop } from "./runtime-objects.ts";

export type RuntimeVerb = Exclude<keyof Runtime, "events">;
/** Receives the subject of the call as `calls` shows it: "web/a #0", an id, an image. */
export type RuntimeHook = (subject: string) => Promise<void> | void;

export class FakeRuntimeCalls {
  /** The errors of the next calls of a verb, oldest first; a call that fails so has no effect. */
  failures: Partial<Record<RuntimeVerb, CriError[]>> = {};
  /** Awaited before a call takes effect; it may throw. */
  before: Partial<Record<RuntimeVerb, RuntimeHook>> = {};
  /** Awaited after a call took effect, before it is answered; it may throw. */
  after: Partial<Record<RuntimeVerb, RuntimeHook>> = {};
  /** Every call, in order: the verb and its subject. */
  readonly calls: string[] = [];
  /** The calls that their caller cancelled. */
  readonly cancelledCalls: string[] = [];

  readonly #clock: Clock;
  protected readonly requestTimeoutMs: number;
  readonly #interrupts = new Set<(error: CriError) => void>();
  #isDown = false;

  constructor(clock: Clock, requestTimeoutMs: number) {
    this.#clock = clock;
    this.requestTimeoutMs = requestTimeoutMs;
  }

  /** Holds every call of the verb, before it takes effect, until the returned function is called. */
  hang(verb: RuntimeVerb): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    const hook = () => promise;
    this.before[verb] = hook;
    return () => {
      if (this.before[verb] === hook) delete this.before[verb];
      resolve();
    };
  }

  /** Ends all calls, and each further one until `answerAgain`. */
  protected refuseCalls(error: CriError): void {
    this.#isDown = true;
    for (const interrupt of this.#interrupts) interrupt(error);
  }

  protected answerAgain(): void {
    this.#isDown = false;
  }

  protected async call<T>(
    verb: RuntimeVerb,
    subject: string,
    options: CriCallOptions | undefined,
    effect: (interrupted: AbortSignal) => T | Promise<T>,
    deadlineMs = this.requestTimeoutMs,
  ): Promise<T> {
    const name = subject === "" ? verb : `${verb} ${subject}`;
    this.calls.push(name);
    const interruption = this.#interruptible(verb, { deadlineMs, ...options });
    const recordCancelled = () => void this.cancelledCalls.push(name);
    options?.signal?.addEventListener("abort", recordCancelled, { once: true });
    const run = async () => {
      await this.before[verb]?.(subject);
      interruption.signal.throwIfAborted();
      const failure = this.failures[verb]?.shift();
      if (failure !== undefined) throw failure;
      const result = await effect(interruption.signal);
      await this.after[verb]?.(subject);
      return result;
    };
    try {
      return await Promise.race([interruption.promise, run()]);
    } finally {
      options?.signal?.removeEventListener("abort", recordCancelled);
      interruption.end();
    }
  }

  /** Returns a promise that rejects when the caller cancels, the deadline passes or the runtime dies. */
  #interruptible(verb: RuntimeVerb, { signal, deadlineMs = Number.POSITIVE_INFINITY }: CriCallOptions) {
    const { promise, reject } = Promise.withResolvers<never>();
    const controller = new AbortController();
    const interrupt = (error: CriError) => {
      controller.abort(error);
      reject(error);
    };
    const onAbort = () => interrupt(new CriError("CANCELLED", verb, "cancelled"));
    const onDeadline = () => interrupt(new CriError("DEADLINE_EXCEEDED", verb, `no answer within ${deadlineMs} ms`));
    const cancelTimer = Number.isFinite(deadlineMs)
      ? this.#clock.wakeAt(this.#clock.now() + deadlineMs, onDeadline)
      : noop;
    this.#interrupts.add(interrupt);
    signal?.addEventListener("abort", onAbort, { once: true });
    if (signal?.aborted) onAbort();
    else if (this.#isDown) interrupt(new CriError("UNAVAILABLE", verb, "the runtime is down"));
    const end = () => {
      cancelTimer();
      this.#interrupts.delete(interrupt);
      signal?.removeEventListener("abort", onAbort);
    };
    return { promise, signal: controller.signal, end };
  }
}
