import { createCoalescingWorker } from "../../../host/async/coalescing-worker.ts";
import { createLogOnce } from "../../../host/async/log-once.ts";
import { type Clock, sleep } from "../../../host/clock.ts";
import type { Log } from "../../../host/log/log.ts";
import type { KubeClient } from "../../../kube/client.ts";
import { hasCode, isOutage, isServerUnavailable, KubeError } from "../../../kube/error.ts";
import type { RequestOptions } from "../../../kube/request-options.ts";
import { events } from "../../../kube/resource.ts";
import type { Event } from "../../../proto/kubernetes/gen/types.ts";
import { incrementPatch, newEvent } from "../../decide/events/event-correlation.ts";
import { retryAfterMs } from "../retry.ts";
import { createEventCorrelator, type EventRecord } from "./correlator.ts";
import { createEventQueue } from "./queue.ts";

/** Sends events to the API server in the background. Never throws; during an outage it drops the oldest events. */
export interface EventRecorder {
  /** `at` is the time of the event, by default now. */
  record(involvedObject: Event["involvedObject"], event: Pick<Event, "type" | "reason" | "message">, at?: number): void;
  /** No further event is about the object with this uid. */
  forget(uid: string): void;
  /** The API server is reachable again: retry at once. */
  onRecovered(): void;
  /** Sends what waits at once; resolves when the queue is empty or the sender has stopped. */
  settled(): Promise<void>;
  stop(): void;
}

export interface EventRecorderOptions {
  readonly kube: Pick<KubeClient, "create" | "patch">;
  readonly nodeName: string;
  readonly clock: Clock;
  readonly log: Log;
  /** From 0 up to 1. */
  readonly random: () => number;
  /** How long an event waits for the next ones, milliseconds; default: `EVENT_DELAY_MS`. */
  readonly delayMs?: number;
}

/**
 * An event reports a step of a pod's start, and the next step follows at once: a request sent in the same moment would
 * delay it. After this time the runtime mostly has the next call.
 */
const EVENT_DELAY_MS = 20;
const MAX_WAITING = 1000;
/** As many requests as the client's flow control admits at once. */
const MAX_CONCURRENT = 8;
/** FORBIDDEN is retried this often in a row, which is about six seconds. */
const MAX_FORBIDDEN = 7;
const NANOS = 1_000_000n;
/** The sequence starts below this, so that the numbers of one millisecond do not wrap. */
const MAX_FIRST_SEQUENCE = 500_000;

export function createEventRecorder(options: EventRecorderOptions): EventRecorder {
  const { kube, nodeName, clock, log, random, delayMs = EVENT_DELAY_MS } = options;
  const correlator = createEventCorrelator();
  const queue = createEventQueue(MAX_WAITING);
  const stopping = new AbortController();
  const logRejection = createRejectionLog(log);
  // An earlier agent may have named events in this millisecond: without a real-time clock each boot starts at the same time.
  let sequence = BigInt(Math.trunc(random() * MAX_FIRST_SEQUENCE));
  const sender = createCoalescingWorker(sendAll);
  let retryWait: AbortController | undefined;
  let cancelDelay: (() => void) | undefined;

  /** The nanoseconds in the event's name: unique, and increasing in the order of the events. */
  function nanosOf(at: number): bigint {
    sequence = (sequence + 1n) % NANOS;
    return BigInt(Math.trunc(at)) * NANOS + sequence;
  }

  function scheduleSend(): void {
    if (delayMs === 0) sender.wake();
    else cancelDelay ??= clock.wakeAt(clock.now() + delayMs, sendNow);
  }

  function sendNow(): void {
    cancelDelay?.();
    cancelDelay = undefined;
    sender.wake();
  }

  /** Never rejects. */
  async function sendAll(): Promise<void> {
    let failures = 0;
    while (queue.size() > 0 && !stopping.signal.aborted) {
      // After a failure, probe the server with a single event.
      const batch = queue.take(failures === 0 ? MAX_CONCURRENT : 1);
      const failed = await sendConcurrently(kube, batch, stopping.signal);
      if (stopping.signal.aborted) return;
      const isAnyAccepted = failed.length < batch.length;
      const times = isAnyAccepted ? 1 : failures + 1;
      const retryable = failed.filter(({ error }) => isRetryable(error, times));
      for (const each of failed) if (!retryable.includes(each)) logRejection(each);
      if (retryable.length > 0) {
        failures = times;
        queue.requeue(retryable.map(({ eventRecord }) => eventRecord));
        await waitForRetry(Math.max(...retryable.map(({ error }) => retryAfterMs(failures, error))));
      } else if (isAnyAccepted) failures = 0;
    }
    logDropped("too many waited for the API server");
  }

  async function waitForRetry(ms: number): Promise<void> {
    retryWait = new AbortController();
    await sleep(clock, ms, AbortSignal.any([stopping.signal, retryWait.signal])).catch(() => {
      // The wait ended early: the API server is back, or the recorder stops.
    });
  }

  function logDropped(why: string): void {
    const events = queue.dropped();
    if (events > 0) log.warn({}, `events dropped because ${why}: ${events}`);
  }

  return {
    record(involvedObject, event, at = clock.now()) {
      if (stopping.signal.aborted) return;
      const eventRecord = correlator.correlate(
        newEvent(involvedObject, event, { nodeName, nanos: nanosOf(at) }, at),
        at,
      );
      if (eventRecord === undefined) return;
      queue.add(eventRecord);
      scheduleSend();
    },
    forget: correlator.forget,
    onRecovered: () => retryWait?.abort(),
    settled() {
      if (cancelDelay !== undefined) sendNow();
      return sender.settled();
    },
    stop() {
      stopping.abort();
      cancelDelay?.();
      queue.clear();
      logDropped("the agent stops");
    },
  };
}

interface FailedSend {
  readonly eventRecord: EventRecord;
  readonly error: unknown;
}

/** Sends the events concurrently and returns those that failed. Never rejects. */
async function sendConcurrently(
  kube: EventRecorderOptions["kube"],
  all: readonly EventRecord[],
  signal: AbortSignal,
): Promise<readonly FailedSend[]> {
  const failed: FailedSend[] = [];
  const sent = all.map((eventRecord) =>
    send(kube, eventRecord, signal).catch((error: unknown) => void failed.push({ eventRecord, error })),
  );
  await Promise.all(sent);
  return all.flatMap((eventRecord) => failed.filter((each) => each.eventRecord === eventRecord));
}

/**
 * Logs each kind of rejection once. Rejections because the namespace terminates are expected. The event's message is
 * not logged: it may contain a container's probe response, which does not belong into the node's log.
 */
function createRejectionLog(log: Log): (refused: FailedSend) => void {
  const logged = createLogOnce();
  return ({ eventRecord, error }) => {
    const kind = error instanceof KubeError ? `${error.code} ${error.status}` : "internal error";
    const isExpected = hasCode(error, "NOT_FOUND") || isNamespaceTerminating(error);
    const level = !isExpected && logged.shouldLog(kind) ? "warn" : "debug";
    const { reason, involvedObject } = eventRecord.event;
    log[level](
      { err: error, reason, kind: involvedObject.kind, name: involvedObject.name, namespace: involvedObject.namespace },
      "the API server rejected an event",
    );
  };
}

async function send(kube: EventRecorderOptions["kube"], eventRecord: EventRecord, signal: AbortSignal): Promise<void> {
  const { event } = eventRecord;
  const { name = "", namespace = "" } = event.metadata;
  const resource = events(namespace);
  const options: RequestOptions = { priorityLevel: "events", signal };
  if (eventRecord.isCreated) {
    try {
      await kube.patch(resource, name, { type: "strategic", body: incrementPatch(event) }, options);
      return;
    } catch (error) {
      // The API server deletes events after an hour (--event-ttl).
      if (!hasCode(error, "NOT_FOUND")) throw error;
    }
  }
  await kube.create(resource, event, options).catch((error: unknown) => {
    // An earlier attempt of ours succeeded, but its response was lost.
    if (!hasCode(error, "ALREADY_EXISTS")) throw error;
  });
  eventRecord.isCreated = true;
}

/** Whether a retry may succeed. Events of a terminating namespace and malformed events are dropped. */
function isRetryable(error: unknown, failures: number): boolean {
  // An API server that has just started may not have loaded the RBAC rules yet.
  const isForbiddenNow = hasCode(error, "FORBIDDEN") && !isNamespaceTerminating(error);
  return isOutage(error) || isServerUnavailable(error) || (isForbiddenNow && failures < MAX_FORBIDDEN);
}

/** A FORBIDDEN because the namespace terminates names the field metadata.namespace. */
function isNamespaceTerminating(error: unknown): boolean {
  return error instanceof KubeError && error.code === "FORBIDDEN" && error.fields.includes("metadata.namespace");
}
