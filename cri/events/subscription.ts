import { createBackoffCounter } from "../../host/async/backoff.ts";
import type { Clock } from "../../host/clock.ts";
import type { Log } from "../../host/log/log.ts";
import type { VersionResponse } from "../../proto/cri/gen/api.ts";
import type { Channel } from "../channel.ts";
import { CriError } from "../error.ts";
import type { CriCallOptions, RuntimeEventListener } from "../runtime.ts";
import { type EventStream, eventStreamsOf } from "./event-stream.ts";
import { waitForSocket } from "./wait-for-socket.ts";

const RECONNECT_BACKOFF = { initialMs: 100, maxMs: 1_000 } as const;
/** A stream that was open for so long resets the back-off. */
const RESET_BACKOFF_AFTER_MS = 10_000;
const ANSWER_TIMEOUT_MS = 10_000;
/** How often a runtime without events is checked again, unless its socket is created again. */
const RECHECK_AFTER_MS = 3_600_000;

export interface EventSubscriptionDeps {
  readonly channel: Channel;
  readonly version: (options: CriCallOptions) => Promise<VersionResponse>;
  readonly clock: Clock;
  readonly log: Log;
  readonly random: () => number;
}

/**
 * Implements `Runtime.events`: subscribes to the best event stream of the runtime, and reconnects after each failure.
 */
export async function subscribeToEvents(
  deps: EventSubscriptionDeps,
  listener: RuntimeEventListener,
  signal: AbortSignal,
): Promise<void> {
  const { channel, clock, log, random } = deps;
  const socket = channel.socketPath;
  const backoff = createBackoffCounter({ ...RECONNECT_BACKOFF, jitter: { from: 0.75, to: 1.25, random } });
  /** Why the runtime is away; undefined while it is connected, and before the first failure. */
  let reportedReason: string | undefined;
  while (!signal.aborted) {
    let connectedAt: number | undefined;
    const error = await subscribeOnce(deps, signal, (event) => {
      if (event.kind === "connected") {
        connectedAt = clock.now();
        reportedReason = undefined;
        log.debug({ socket, source: event.source }, "container runtime connected");
      }
      listener(event);
    });
    if (signal.aborted) return;
    if (error === undefined) continue;
    if (connectedAt !== undefined && clock.now() - connectedAt >= RESET_BACKOFF_AFTER_MS) backoff.reset();
    log.debug({ socket, err: error }, "no event stream from the container runtime; reconnecting");
    if (error.message !== reportedReason) listener({ kind: "disconnected", error, socket });
    reportedReason = error.message;
    const isSocketNew = await waitForSocket(socket, backoff.next(), clock, signal);
    if (isSocketNew) backoff.reset();
    // grpc-js may wait for a back-off of its own; any other error came from a runtime that is running.
    if (error.code === "UNAVAILABLE") channel.reconnect();
  }
}

/** Runs one stream until it ends, and returns why; undefined if a runtime without events is to be checked again. */
async function subscribeOnce(
  deps: EventSubscriptionDeps,
  signal: AbortSignal,
  listener: RuntimeEventListener,
): Promise<CriError | undefined> {
  const version = await requestVersion(deps, signal);
  if (version instanceof CriError) return version;
  for (const stream of eventStreamsOf(version)) {
    const error = await runStream(deps, stream, signal, listener);
    if (error.code !== "UNIMPLEMENTED") return error;
  }
  listener({ kind: "connected", source: "none" });
  const isSocketNew = await waitForSocket(deps.channel.socketPath, RECHECK_AFTER_MS, deps.clock, signal);
  return isSocketNew
    ? new CriError("UNAVAILABLE", "GetContainerEvents", "the runtime's socket was created again")
    : undefined;
}

async function runStream(
  deps: EventSubscriptionDeps,
  { source, run }: EventStream,
  signal: AbortSignal,
  listener: RuntimeEventListener,
): Promise<CriError> {
  const attempt = new AbortController();
  let forward: RuntimeEventListener = () => {};
  const end = run(deps.channel, (event) => forward(event), AbortSignal.any([signal, attempt.signal]));
  // Servers do not confirm a new stream. But they process requests in order, so the answer to a later request proves
  // that the subscription is active, or that its error has arrived already.
  const first = await Promise.race([end, requestVersion(deps, signal)]);
  if (first instanceof CriError) {
    attempt.abort();
    return first;
  }
  listener({ kind: "connected", source });
  forward = listener;
  return await end;
}

async function requestVersion(
  { version }: EventSubscriptionDeps,
  signal: AbortSignal,
): Promise<VersionResponse | CriError> {
  try {
    return await version({ signal, deadlineMs: ANSWER_TIMEOUT_MS });
  } catch (error) {
    if (error instanceof CriError) return error;
    throw error;
  }
}
