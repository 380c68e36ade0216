import { type Clock, sleep } from "../../host/clock.ts";
import type { Log } from "../../host/log.ts";
import type { Kube } from "../../kube/client.ts";
import { KubeError } from "../../kube/error.ts";
import { events } from "../../kube/resource.ts";
import type { Event } from "../../proto/kubernetes/gen/types.ts";
import { newEvent, repetitionPatch } from "../decide/event-series.ts";
import { createEventBook, type Series } from "./event-book.ts";
import { hasCode, isOfServer, isOutage, retryAfterMs } from "./retry.ts";

/** Tells the cluster what happens. Nothing waits for it, it never throws, and in an outage it forgets the oldest. */
export interface EventRecorder {
  /** `about` is what it has happened to; `at`, now if left out, is when. */
  record(about: Event["involvedObject"], event: Pick<Event, "type" | "reason" | "message">, at?: number): void;
  /** The API server answers again. */
  back(): void;
  /** Resolves when nothing is waiting to be sent, or all of it waits for the API server. */
  settled(): Promise<void>;
  stop(): void;
}

export interface EventRecorderSettings {
  readonly kube: Pick<Kube, "create" | "patch">;
  readonly nodeName: string;
  readonly clock: Clock;
  readonly log: Log;
}

/** What waits to be sent: an event that happens again meanwhile takes no second place. */
const MOST_WAITING = 1000;
/** How many refusals in a row are not taken as final: six seconds of them. */
const MOST_FORBIDDEN = 7;
const NANOS = 1_000_000n;

export function createEventRecorder({ kube, nodeName, clock, log }: EventRecorderSettings): EventRecorder {
  const book = createEventBook();
  const waiting = new Set<Series>();
  const stopping = new AbortController();
  let count = 0n;
  let sending: Promise<void> | undefined;
  let wait: AbortController | undefined;

  /** Names sort in the order in which things happened, and no two are the same. */
  function nanosOf(at: number): bigint {
    count = (count + 1n) % NANOS;
    return BigInt(Math.trunc(at)) * NANOS + count;
  }

  function enqueue(series: Series): void {
    waiting.add(series);
    const [oldest] = waiting;
    if (waiting.size > MOST_WAITING && oldest !== undefined) waiting.delete(oldest);
    if (sending === undefined) begin();
  }

  function begin(): void {
    sending = sendAll().finally(() => {
      sending = undefined;
      // What has come after the last look and before this line found somebody sending, and left it to them.
      if (waiting.size > 0 && !stopping.signal.aborted) begin();
    });
  }

  /** One after the other: events hurry nobody. Never rejects. */
  async function sendAll(): Promise<void> {
    await Promise.resolve();
    let failures = 0;
    for (let [series] = waiting; series !== undefined && !stopping.signal.aborted; [series] = waiting) {
      waiting.delete(series);
      try {
        await send(kube, series, stopping.signal);
        failures = 0;
      } catch (error) {
        failures += 1;
        if (!mayHeal(error, failures)) {
          log.debug({ err: error, event: series.event.message }, "an event was refused");
          continue;
        }
        putBack(series);
        wait = new AbortController();
        const either = AbortSignal.any([stopping.signal, wait.signal]);
        await sleep(clock, retryAfterMs(failures, error), either).catch(() => {
          // The API server is back before that, or nothing is to be sent any more.
        });
      }
    }
  }

  /** It stays the first, unless it happened once more meanwhile, or there is no room. */
  function putBack(series: Series): void {
    const others = [...waiting];
    if (others.length >= MOST_WAITING || waiting.has(series)) return;
    waiting.clear();
    for (const each of [series, ...others]) waiting.add(each);
  }

  return {
    record(about, event, at = clock.now()) {
      if (stopping.signal.aborted) return;
      const series = book.note(newEvent(about, event, { nodeName, nanos: nanosOf(at) }, at), at);
      if (series !== undefined) enqueue(series);
    },
    back: () => wait?.abort(),
    async settled() {
      await sending;
    },
    stop() {
      stopping.abort();
      waiting.clear();
    },
  };
}

async function send(kube: EventRecorderSettings["kube"], series: Series, signal: AbortSignal): Promise<void> {
  const { event } = series;
  const { name = "", namespace = "" } = event.metadata;
  const resource = events(namespace);
  const options = { lane: "events", signal } as const;
  if (series.isMade) {
    try {
      await kube.patch(resource, name, { type: "strategic", body: repetitionPatch(event) }, options);
      return;
    } catch (error) {
      // The cluster forgets events after an hour.
      if (!hasCode(error, "NOT_FOUND")) throw error;
    }
  }
  await kube.create(resource, event, options).catch((error: unknown) => {
    // Our own try before, whose answer was lost.
    if (!hasCode(error, "ALREADY_EXISTS")) throw error;
  });
  series.isMade = true;
}

/** What the server will never take (its namespace ends, it is malformed) is dropped; everything else is told later. */
function mayHeal(error: unknown, failures: number): boolean {
  return isOutage(error) || isOfServer(error) || (isForbiddenNow(error) && failures < MOST_FORBIDDEN);
}

/** A server that has just started may not know yet what we may do. Of a namespace that ends it names the field. */
function isForbiddenNow(error: unknown): boolean {
  return error instanceof KubeError && error.code === "FORBIDDEN" && !error.fields.includes("metadata.namespace");
}
