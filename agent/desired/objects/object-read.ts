import { createAutoResetEvent } from "../../../host/async/auto-reset-event.ts";
import { KubeError } from "../../../kube/error.ts";
import type { ReferencedObject } from "../../../proto/kubernetes/references.ts";
import { isCertainlyLater } from "../../../proto/kubernetes/values/resource-version.ts";
import { isRecent, type ObjectRead, resyncDelayMs } from "../../decide/volumes/object-age.ts";
import { AUTHORIZER_RETRY_MS, WAIT_FOR_AUTHORIZER_MS } from "./node-authorizer.ts";
import {
  labelOf,
  type ObjectSource,
  type ObjectSourceOptions,
  resourceOf,
  toReferencedObject,
  WAIT_FOR_FIRST_READ_MS,
} from "./object-source.ts";
import { createRequestFailureLog, type RequestFailureLog } from "./request-failure-log.ts";

export interface ObjectReadOptions extends ObjectSourceOptions {
  /** How long the object is used after a read; 0: for one start of a pod. */
  readonly ttlMs: () => number;
  /** Whether the API server may answer a repeated read from its own cache. */
  readonly mayBeCached: boolean;
  readonly syncFrequencyMs: number;
  /** Returns a number in [0, 1), for jitter. */
  readonly random: () => number;
  /** Whether a volume of a pod has content of the object, so that a change has to reach a running pod. */
  readonly isShown: () => boolean;
  /** A read that `refresh` has asked for has ended, and the object has not changed. May not throw. */
  readonly onUnchanged: () => void;
}

const DEADLINE_MS = 10_000;

/**
 * Reads one object with single requests, as the kubelet's strategies `Cache` and `Get` do: for each pod that is new, when a
 * container starts and what is known is too old, and for running pods that show it in a volume once in `syncFrequency` or
 * a little more. Unlike the kubelet's `Get` it serves what was read last while the API server does not answer.
 */
export function createObjectRead(options: ObjectReadOptions): ObjectSource {
  const { clock, syncFrequencyMs, random, isShown, onObject, onTimeout, onUnchanged } = options;
  const failureLog = createReadLog(options);
  const stopping = new AbortController();
  const { signal } = stopping;
  const request = createAutoResetEvent(clock);
  const startedAt = clock.monotonicMs();
  const known = createKnownObject(options);
  /** A read is wanted whose answer the API server gives from now on. */
  let isRequested = true;
  /** Pods start with what is known, though a read is under way. */
  let isOverdue = false;
  let hasFailed = false;

  /** Pods go on without an answer, or with the reason for its absence. */
  function giveUp(failure?: string): void {
    known.settle(false);
    if (known.object() === undefined) onTimeout(failure);
    else onUnchanged();
  }

  function handleAnswer(object: ReferencedObject | "absent", wasRequested: boolean): void {
    failureLog.clear();
    const isNew = known.replace(object);
    known.settle(true);
    if (isNew) onObject(object);
    else if (wasRequested && !isRequested) onUnchanged();
  }

  const isTooEarly = (error: KubeError) =>
    error.code === "FORBIDDEN" &&
    known.object() === undefined &&
    clock.monotonicMs() - startedAt < WAIT_FOR_AUTHORIZER_MS;

  /** Returns after how long the object is read again, in milliseconds. */
  async function read(): Promise<number> {
    const wasRequested = isRequested;
    isRequested = false;
    const cancelTimeout = clock.wakeAt(clock.now() + WAIT_FOR_FIRST_READ_MS, () => {
      isOverdue = true;
      giveUp();
    });
    const answer = await requestObject(options, known.object(), signal);
    cancelTimeout();
    isOverdue = false;
    if (signal.aborted) return 0;
    if (answer instanceof KubeError && isTooEarly(answer)) {
      isRequested = true;
      return AUTHORIZER_RETRY_MS;
    }
    hasFailed = answer instanceof KubeError;
    if (!(answer instanceof KubeError)) handleAnswer(answer, wasRequested);
    else {
      failureLog.report(answer, answer.message);
      giveUp(answer.serverMessage ?? answer.message);
    }
    return resyncDelay();
  }

  const resyncDelay = () => (isShown() ? resyncDelayMs(syncFrequencyMs, random()) : Number.POSITIVE_INFINITY);

  function readAgain(): void {
    isRequested = true;
    request.set();
  }

  return {
    async run() {
      while (!signal.aborted) {
        const delayMs = isRequested || !known.isRecent() ? await read() : resyncDelay();
        await request.wait(clock.now() + delayMs, signal);
      }
    },
    stop: () => stopping.abort(),
    isRecent: () => known.isRecent() && (isOverdue || !isRequested),
    refresh() {
      if (!isRequested && !known.isRecent()) readAgain();
    },
    invalidate: readAgain,
    retryAfterOutage() {
      if (hasFailed) readAgain();
    },
  };
}

/** What was read last, and when. */
function createKnownObject({ clock, ttlMs }: Pick<ObjectReadOptions, "clock" | "ttlMs">) {
  let object: ReferencedObject | "absent" | undefined;
  let last: ObjectRead | undefined;
  return {
    object: () => object,
    isRecent: () => last !== undefined && isRecent(last, ttlMs(), clock.monotonicMs()),
    /** Returns whether it is new. */
    replace(answer: ReferencedObject | "absent"): boolean {
      const isNew = object === undefined || isNewer(answer, object);
      if (isNew) object = answer;
      return isNew;
    },
    /** A read has ended: with an answer, or without. */
    settle(hasAnswer: boolean): void {
      last = { readAtMs: clock.monotonicMs(), isPresent: hasAnswer && object !== undefined && object !== "absent" };
    },
  };
}

const versionOf = (object: ReferencedObject | "absent") => (object === "absent" ? object : `version ${object.version}`);

/** Whether an answer replaces what is known. The API server's cache may be behind. */
function isNewer(object: ReferencedObject | "absent", known: ReferencedObject | "absent"): boolean {
  if (versionOf(object) === versionOf(known)) return false;
  return object === "absent" || known === "absent" || !isCertainlyLater(known.version, object.version);
}

/** Resolves with the failure of the request. */
async function requestObject(
  { kube, reference, mayBeCached }: Pick<ObjectReadOptions, "kube" | "reference" | "mayBeCached">,
  known: ReferencedObject | "absent" | undefined,
  signal: AbortSignal,
): Promise<ReferencedObject | "absent" | KubeError> {
  const isFromCache = mayBeCached && known !== undefined && known !== "absent";
  const options = { deadlineMs: DEADLINE_MS, signal, ...(isFromCache && { isFromCache }) };
  try {
    return toReferencedObject(await kube.get(resourceOf(reference), reference.name, options));
  } catch (error) {
    if (!(error instanceof KubeError)) throw error;
    return error.code === "NOT_FOUND" ? "absent" : error;
  }
}

function createReadLog({ log, reference }: Pick<ObjectReadOptions, "log" | "reference">): RequestFailureLog {
  const label = labelOf(reference);
  const failure = `${label} cannot be read from the API server`;
  return createRequestFailureLog(log, {}, { failure, recovery: `${label} is read from the API server` });
}
