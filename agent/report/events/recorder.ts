import { type Clock, sleep } from "../../../host/clock.ts";
import type { Log } from "../../../host/log.ts";
import type { Kube } from "../../../kube/client.ts";
import { KubeError } from "../../../kube/error.ts";
import { events } from "../../../kube/resource.ts";
import type { Event } from "../../../proto/kubernetes/gen/types.ts";
import { newEvent, repetitionPatch } from "../../decide/events/event-correlation.ts";
import { hasCode, isOfServer, isOutage, retryAfterMs } from "../retry.ts";
import { createEventBook, type Series } from "./correlator.ts";
import { createEventQueue } from "./queue.ts";

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

const MOST_WAITING = 1000;
/** As many as the connection lets through at once. */
const MOST_AT_ONCE = 8;
/** How many refusals in a row are not taken as final: six seconds of them. */
const MOST_FORBIDDEN = 7;
const NANOS = 1_000_000n;

export function createEventRecorder({ kube, nodeName, clock, log }: EventRecorderSettings): EventRecorder {
  const book = createEventBook();
  const queue = createEventQueue(MOST_WAITING);
  const stopping = new AbortController();
  const refused = createRefusals(log);
  let count = 0n;
  let sending: Promise<void> | undefined;
  let wait: AbortController | undefined;

  /** Names sort in the order in which things happened, and no two are the same. */
  function nanosOf(at: number): bigint {
    count = (count + 1n) % NANOS;
    return BigInt(Math.trunc(at)) * NANOS + count;
  }

  function begin(): void {
    sending = sendAll().finally(() => {
      sending = undefined;
      // What has come after the last look and before this line found somebody sending, and left it to them.
      if (queue.size() > 0 && !stopping.signal.aborted) begin();
    });
  }

  /** Never rejects. */
  async function sendAll(): Promise<void> {
    await Promise.resolve();
    let failures = 0;
    while (queue.size() > 0 && !stopping.signal.aborted) {
      // After a failure one alone tries whether the server takes any.
      const taken = queue.take(failures === 0 ? MOST_AT_ONCE : 1);
      const failed = await sendTogether(kube, taken, stopping.signal);
      if (stopping.signal.aborted) return;
      const isAnyTaken = failed.length < taken.length;
      const times = isAnyTaken ? 1 : failures + 1;
      const again = failed.filter(({ error }) => mayHeal(error, times));
      for (const each of failed) if (!again.includes(each)) refused(each);
      if (again.length > 0) {
        failures = times;
        queue.putBack(again.map(({ series }) => series));
        await rest(Math.max(...again.map(({ error }) => retryAfterMs(failures, error))));
      } else if (isAnyTaken) failures = 0;
    }
    tellDropped();
  }

  async function rest(ms: number): Promise<void> {
    wait = new AbortController();
    await sleep(clock, ms, AbortSignal.any([stopping.signal, wait.signal])).catch(() => {
      // The API server is back before that, or nothing is to be sent any more.
    });
  }

  function tellDropped(): void {
    const events = queue.dropped();
    if (events > 0) log.warn({}, `events forgotten, since the API server did not take them in time: ${events}`);
  }

  return {
    record(about, event, at = clock.now()) {
      if (stopping.signal.aborted) return;
      const series = book.note(newEvent(about, event, { nodeName, nanos: nanosOf(at) }, at), at);
      if (series === undefined) return;
      queue.add(series);
      if (sending === undefined) begin();
    },
    back: () => wait?.abort(),
    async settled() {
      await sending;
    },
    stop() {
      stopping.abort();
      queue.clear();
      tellDropped();
    },
  };
}

interface Failed {
  readonly series: Series;
  readonly error: unknown;
}

/** Sends all at once, and returns those that failed; never rejects. */
async function sendTogether(
  kube: EventRecorderSettings["kube"],
  all: readonly Series[],
  signal: AbortSignal,
): Promise<readonly Failed[]> {
  const failed: Failed[] = [];
  const sent = all.map((series) =>
    send(kube, series, signal).catch((error: unknown) => void failed.push({ series, error })),
  );
  await Promise.all(sent);
  return all.flatMap((series) => failed.filter((each) => each.series === series));
}

/**
 * Says each kind of refusal once. What a namespace takes with it as it ends is no trouble. The message of the event is not said: it may
 * hold what a container has answered to a probe, which is no business of whoever reads the node's log.
 */
function createRefusals(log: Log): (refused: Failed) => void {
  const told = new Set<string>();
  return ({ series, error }) => {
    const kind = error instanceof KubeError ? `${error.code} ${error.status}` : "a mistake of ours";
    const isNoTrouble = hasCode(error, "NOT_FOUND") || isOfEndingNamespace(error);
    const level = isNoTrouble || told.has(kind) ? "debug" : "warn";
    const { reason, involvedObject: about } = series.event;
    log[level](
      { err: error, reason, kind: about.kind, name: about.name, namespace: about.namespace },
      "an event was refused",
    );
    if (!isNoTrouble) told.add(kind);
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
  // A server that has just started may not know yet what we may do.
  const isForbiddenNow = hasCode(error, "FORBIDDEN") && !isOfEndingNamespace(error);
  return isOutage(error) || isOfServer(error) || (isForbiddenNow && failures < MOST_FORBIDDEN);
}

/** The server names the field then. */
function isOfEndingNamespace(error: unknown): boolean {
  return error instanceof KubeError && error.code === "FORBIDDEN" && error.fields.includes("metadata.namespace");
}
