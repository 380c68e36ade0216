import type { Clock } from "../../host/clock.ts";
import type { Log } from "../../host/log.ts";
import type { VersionResponse } from "../../proto/cri/gen/api.ts";
import type { Connection } from "../channel.ts";
import { CriError } from "../error.ts";
import type { CallOptions, RuntimeEventListener } from "../runtime.ts";
import { type EventStream, eventStreamsOf } from "./event-stream.ts";
import { socketMayBeBack } from "./wait-for-socket.ts";

const firstDelayMs = 100;
const longestDelayMs = 1_000;
/** A stream that lived so long was a good one: the back-off starts anew. */
const settledAfterMs = 10_000;
const answerWithinMs = 10_000;
/** How long a runtime without events is believed to stay so, unless its socket is made anew. */
const askAgainAfterMs = 3_600_000;

export interface EventNeeds {
  readonly connection: Connection;
  readonly version: (options: CallOptions) => Promise<VersionResponse>;
  readonly clock: Clock;
  readonly log: Log;
  readonly random: () => number;
}

/** `Runtime.events` over a connection: connects, follows the best source there is, and connects again. */
export async function followEvents(
  needs: EventNeeds,
  listener: RuntimeEventListener,
  signal: AbortSignal,
): Promise<void> {
  const { connection, clock, log, random } = needs;
  const socket = connection.socketPath;
  let delayMs = firstDelayMs;
  let isAway = false;
  while (!signal.aborted) {
    let connectedAt: number | undefined;
    const error = await followOnce(needs, signal, (event) => {
      if (event.kind === "connected") {
        connectedAt = clock.now();
        isAway = false;
        log.debug({ socket, source: event.source }, "container runtime connected");
      }
      listener(event);
    });
    if (signal.aborted) return;
    if (error === undefined) continue;
    if (connectedAt !== undefined && clock.now() - connectedAt >= settledAfterMs) delayMs = firstDelayMs;
    log.debug({ socket, err: error }, "container runtime does not answer as it should; trying again");
    if (!isAway) listener({ kind: "disconnected", error, socket });
    isAway = true;
    const jitter = 0.75 + random() / 2;
    const isNew = await socketMayBeBack(socket, delayMs * jitter, clock, signal);
    delayMs = isNew ? firstDelayMs : Math.min(2 * delayMs, longestDelayMs);
    // The channel may be waiting out a back-off of its own; any other error came from a runtime that is there.
    if (error.code === "UNAVAILABLE") connection.renew();
  }
}

/** Follows one stream until it ends, and returns why; undefined when nothing is wrong and a better source may be there by now. */
async function followOnce(
  needs: EventNeeds,
  signal: AbortSignal,
  listener: RuntimeEventListener,
): Promise<CriError | undefined> {
  const version = await answer(needs, signal);
  if (version instanceof CriError) return version;
  for (const stream of eventStreamsOf(version)) {
    const error = await followStream(needs, stream, signal, listener);
    if (error.code !== "UNIMPLEMENTED") return error;
  }
  listener({ kind: "connected", source: "none" });
  const isNew = await socketMayBeBack(needs.connection.socketPath, askAgainAfterMs, needs.clock, signal);
  return isNew ? new CriError("UNAVAILABLE", "GetContainerEvents", "the runtime's socket was made anew") : undefined;
}

async function followStream(
  needs: EventNeeds,
  { source, follow }: EventStream,
  signal: AbortSignal,
  listener: RuntimeEventListener,
): Promise<CriError> {
  const attempt = new AbortController();
  let tell: RuntimeEventListener = () => {};
  const ended = follow(needs.connection, (event) => tell(event), AbortSignal.any([signal, attempt.signal]));
  // Servers say nothing when a stream begins. But they take requests in order, so an answer to a later one means that
  // the subscription stands, or that its refusal is here already.
  const first = await Promise.race([ended, answer(needs, signal)]);
  if (first instanceof CriError) {
    attempt.abort();
    return first;
  }
  listener({ kind: "connected", source });
  tell = listener;
  return await ended;
}

async function answer({ version }: EventNeeds, signal: AbortSignal): Promise<VersionResponse | CriError> {
  try {
    return await version({ signal, deadlineMs: answerWithinMs });
  } catch (error) {
    if (error instanceof CriError) return error;
    throw error;
  }
}
