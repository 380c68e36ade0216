import type { Clock } from "../host/clock.ts";
import type { Log } from "../host/log.ts";
import type { VersionResponse } from "../proto/cri/gen/api.ts";
import type { Connection } from "./connection.ts";
import { CriError } from "./error.ts";
import { type EventStream, eventStreamsOf } from "./event-source.ts";
import type { CallOptions, EventSource, RuntimeEventListener } from "./runtime.ts";
import { socketMayBeBack } from "./socket.ts";

const firstDelayMs = 100;
const longestDelayMs = 1_000;
/** A stream that lived so long was a good one: the back-off starts anew, and its end is said in the log. */
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
  const story = createStory(log, connection.socketPath);
  let delayMs = firstDelayMs;
  while (!signal.aborted) {
    let connectedAt: number | undefined;
    const error = await followOnce(needs, signal, (event) => {
      if (event.kind === "connected") {
        connectedAt = clock.now();
        story.connected(event.source);
      }
      listener(event);
    });
    if (signal.aborted) return;
    if (connectedAt !== undefined && clock.now() - connectedAt >= settledAfterMs) {
      delayMs = firstDelayMs;
      story.settled();
    }
    story.disconnected(error);
    if (connectedAt !== undefined) listener({ kind: "disconnected", error });
    const jitter = 0.75 + random() / 2;
    const isNew = await socketMayBeBack(connection.socketPath, delayMs * jitter, clock, signal);
    delayMs = isNew ? firstDelayMs : Math.min(2 * delayMs, longestDelayMs);
    // The channel may be waiting out a back-off of its own; any other error came from a runtime that is there.
    if (error.code === "UNAVAILABLE") connection.renew();
  }
}

/** Follows one stream until it ends, and returns why. */
async function followOnce(needs: EventNeeds, signal: AbortSignal, listener: RuntimeEventListener): Promise<CriError> {
  const version = await answer(needs, signal);
  if (version instanceof CriError) return version;
  for (const stream of eventStreamsOf(version)) {
    const error = await followStream(needs, stream, signal, listener);
    if (error.code !== "UNIMPLEMENTED") return error;
  }
  listener({ kind: "connected", source: "none" });
  await socketMayBeBack(needs.connection.socketPath, askAgainAfterMs, needs.clock, signal);
  return new CriError("UNAVAILABLE", "GetContainerEvents", "looking again for a source of events");
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

/** Says in the log what becomes of the connection, each thing once: a runtime that is down must not fill the log. */
function createStory(log: Log, socket: string) {
  const complainedOf = new Set<string>();
  let saidConnected = false;
  return {
    connected(source: EventSource) {
      if (!saidConnected) log.info({ socket, source }, "container runtime connected");
      saidConnected = true;
    },
    disconnected({ code, message }: CriError) {
      if (complainedOf.has(code)) return log.debug({ socket, code, error: message }, "container runtime still fails");
      complainedOf.add(code);
      saidConnected = false;
      log.warn({ socket, code, error: message }, "container runtime does not answer as it should; trying again");
    },
    settled: () => complainedOf.clear(),
  };
}
