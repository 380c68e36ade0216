import type { Semaphore } from "../../../host/async/semaphore.ts";
import type { Clock } from "../../../host/clock.ts";
import type { Log } from "../../../host/log/log.ts";
import type { KubeClient } from "../../../kube/client.ts";
import { hasCode, isServerFailure, KubeError } from "../../../kube/error.ts";
import type { KnownToken, TokenReference } from "../../../proto/kubernetes/token-references.ts";
import { tokenExpiresAt, tokenRefreshAt, tokenRetryAt } from "../../decide/volumes/token-refresh.ts";
import { versionOfText } from "../objects/known-values.ts";
import { createRequestFailureLog, type RequestFailureLog } from "../objects/request-failure-log.ts";
import { type GrantedToken, requestToken } from "./token-request.ts";

/** Requests one token of one pod, and refreshes it. Owns no timer. */
export interface ServiceAccountToken {
  /** How long nothing is due; infinite while a request is under way for which the pod does not wait. */
  idleMs(): number;
  /** Sends a request if one is due, or ends the wait for the first response. */
  runDue(): void;
  /** The API server serves us again: a failed request is repeated now. */
  retryAfterOutage(): void;
  /** Ends the request that is under way; `onKnown` is not called afterwards. */
  stop(): void;
  /** Resolves when no request is under way; never rejects. */
  settled(): Promise<void>;
}

export interface ServiceAccountTokenOptions {
  readonly kube: Pick<KubeClient, "requestToken">;
  readonly clock: Clock;
  /** Returns a number in [0, 1), for jitter. */
  readonly random: () => number;
  readonly log: Log;
  readonly reference: TokenReference;
  /** Limits the requests of all tokens. */
  readonly requestSlots: Semaphore;
  /** A token has arrived, or there is none for this reason. May not throw. */
  readonly onKnown: (known: KnownToken) => void;
  /** The result of `idleMs` has changed. */
  readonly onRescheduled: () => void;
}

/** The time for which pods wait for Secrets and ConfigMaps, too. */
const WAIT_FOR_FIRST_RESPONSE_MS = 1_000;
/** The wait begins when the request is sent, or so long after it could have been, behind others that hang. */
const WAIT_FOR_SLOT_MS = 10_000;
/** A request that ends without a result is a bug, which must not become a loop. */
const WITHOUT_RESULT_MS = 60_000;
/** The prefix of the kubelet's token manager. */
const FETCH_FAILED = "failed to fetch token: ";

export function createServiceAccountToken(options: ServiceAccountTokenOptions): ServiceAccountToken {
  const { clock, random, reference, onKnown, onRescheduled } = options;
  const failureLog = createTokenLog(options);
  const ending = new AbortController();
  let due = dueIn(clock, 0);
  let request: Promise<void> | undefined;
  const firstWait = createFirstWait(clock);
  let failures = 0;
  let failure: TokenFailure | undefined;
  let validUntil: number | undefined;

  function publish(known: KnownToken): void {
    firstWait.end();
    onKnown(known);
  }

  function handleGranted(granted: GrantedToken): void {
    const { token } = granted;
    validUntil = tokenExpiresAt(granted);
    failures = 0;
    failure = undefined;
    due = dueIn(clock, tokenRefreshAt(granted, random()) - clock.now());
    failureLog.clear();
    publish({ token, version: versionOfText(token), expiresAt: validUntil });
  }

  function handleFailure(error: KubeError): void {
    const failedAt = clock.now();
    const hasExpired = validUntil !== undefined && validUntil <= failedAt;
    const stillValidUntil = hasExpired ? undefined : validUntil;
    failure = toTokenFailure(reference, hasExpired, error);
    failures += 1;
    const isPodNew = firstWait.isRunning() && hasCode(error, "NOT_FOUND", "FORBIDDEN");
    const { retryAfterMs } = error;
    const retryAt = tokenRetryAt({ failedAt, failures, validUntil: stillValidUntil, isPodNew, retryAfterMs });
    due = dueIn(clock, retryAt - failedAt);
    if (isPodNew) return;
    failureLog.report(error, error.message);
    if (stillValidUntil === undefined) publish(failure);
  }

  function onSent(): void {
    firstWait.onSent();
    onRescheduled();
  }

  async function sendRequest(): Promise<void> {
    const response = await requestUntilAborted(options, onSent, ending.signal);
    // The response may have arrived in the moment of the end.
    if (response === undefined || ending.signal.aborted) return;
    if (response instanceof KubeError) handleFailure(response);
    else handleGranted(response);
  }

  return {
    idleMs: () =>
      Math.min(request === undefined ? remainingMs(clock, due) : Number.POSITIVE_INFINITY, firstWait.remainingMs()),
    runDue() {
      if (firstWait.remainingMs() <= 0) {
        // The fast retries for a new pod do not count.
        failures = 0;
        publish(failure ?? { failure: `${FETCH_FAILED}timed out waiting for the condition`, isOutage: true });
      }
      if (request !== undefined || remainingMs(clock, due) > 0) return;
      firstWait.begin();
      due = dueIn(clock, WITHOUT_RESULT_MS);
      request = sendRequest().finally(() => {
        request = undefined;
        onRescheduled();
      });
    },
    retryAfterOutage() {
      if (failure !== undefined && request === undefined) due = dueIn(clock, 0);
      onRescheduled();
    },
    stop: () => ending.abort(),
    settled: async () => await request,
  };
}

/** How long a pod waits for the first response before it fails for the lack of a token. */
function createFirstWait(clock: Clock) {
  let ends: DueTime | undefined;
  let isOver = false;
  let hasBeenSent = false;
  return {
    isRunning: () => ends !== undefined,
    remainingMs: () => (ends === undefined ? Number.POSITIVE_INFINITY : remainingMs(clock, ends)),
    begin(): void {
      if (!isOver) ends ??= dueIn(clock, WAIT_FOR_SLOT_MS);
    },
    onSent(): void {
      if (isOver || hasBeenSent) return;
      hasBeenSent = true;
      ends = dueIn(clock, WAIT_FOR_FIRST_RESPONSE_MS);
    },
    end(): void {
      isOver = true;
      ends = undefined;
    },
  };
}

/** Calls `onSent` once the request has a slot. Resolves with the failure of the request; with nothing if the signal has aborted it. */
async function requestUntilAborted(
  { kube, clock, reference, requestSlots }: ServiceAccountTokenOptions,
  onSent: () => void,
  signal: AbortSignal,
): Promise<GrantedToken | KubeError | undefined> {
  const send = () => {
    onSent();
    return requestToken({ kube, clock }, reference, { signal });
  };
  try {
    return await requestSlots.run(send, signal);
  } catch (error) {
    if (signal.aborted) return undefined;
    if (!(error instanceof KubeError)) throw error;
    return error;
  }
}

const accountOf = ({ namespace, serviceAccount }: TokenReference) => `${namespace}/${serviceAccount}`;

type TokenFailure = Extract<KnownToken, { readonly failure: string }>;

/** The server's own message follows, as with the kubelet. */
function toTokenFailure(reference: TokenReference, hasExpired: boolean, error: KubeError): TokenFailure {
  const prefix = hasExpired ? `token of ${accountOf(reference)} expired and refresh failed: ` : FETCH_FAILED;
  const failure = `${prefix}${error.serverMessage ?? error.message}`;
  return isServerFailure(error) ? { failure, isOutage: true } : { failure };
}

function createTokenLog({ log, reference }: Pick<ServiceAccountTokenOptions, "log" | "reference">): RequestFailureLog {
  const account = accountOf(reference);
  const failure = `the API server issues no token of the service account ${account}`;
  const recovery = `the API server issues tokens of the service account ${account}`;
  return createRequestFailureLog(log, { pod: `${reference.namespace}/${reference.podName}` }, { failure, recovery });
}

/** A time by both clocks: the wall clock also counts a sleep of the machine, and the other one cannot be set back. */
interface DueTime {
  readonly wallMs: number;
  readonly monotonicMs: number;
}

const dueIn = (clock: Clock, delayMs: number): DueTime => ({
  wallMs: clock.now() + delayMs,
  monotonicMs: clock.monotonicMs() + delayMs,
});

/** By the clock that reaches the time first. */
const remainingMs = (clock: Clock, { wallMs, monotonicMs }: DueTime): number =>
  Math.min(wallMs - clock.now(), monotonicMs - clock.monotonicMs());
