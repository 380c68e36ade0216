import { createAutoResetEvent } from "../../../host/async/auto-reset-event.ts";
import { createBackoffCounter } from "../../../host/async/backoff.ts";
import type { Semaphore } from "../../../host/async/semaphore.ts";
import type { Clock } from "../../../host/clock.ts";
import type { KeyPairs } from "../../../host/key-pairs.ts";
import type { Log } from "../../../host/log/log.ts";
import type { KubeClient } from "../../../kube/client.ts";
import { KubeError } from "../../../kube/error.ts";
import { podCertificateRequests, serviceAccounts } from "../../../kube/resource.ts";
import { encodeBase64 } from "../../../proto/base64.ts";
import {
  type KnownPodCertificate,
  POD_CERTIFICATE_NOT_ISSUED,
  type PodCertificateReference,
  type PodCertificateRequest,
} from "../../../proto/kubernetes/certificates.ts";
import type { PodEvent } from "../../decide/events/pod-event.ts";
import {
  type CertificateOutcome,
  certificateRefreshAt,
  lateEvents,
  outcomeOf,
  refusalEvent,
  refusalText,
  requestAbandonedAt,
} from "../../decide/volumes/pod-certificates.ts";
import { versionOfText } from "../objects/known-values.ts";
import { createRequestFailureLog } from "../objects/request-failure-log.ts";

/** Requests one certificate of one pod, and refreshes it. */
export interface PodCertificate {
  /** Runs until the certificate is refused, or until `stop`; never rejects. Called once. */
  run(): Promise<void>;
  /** The requests of this node have changed. */
  onRequestsChanged(): void;
  /** The API server serves us again: a failed request is repeated now. */
  retryAfterOutage(): void;
  /** Ends it; no callback is called afterwards. */
  stop(): void;
}

export interface PodCertificateOptions {
  readonly kube: Pick<KubeClient, "create" | "get">;
  readonly clock: Clock;
  /** Returns a number in [0, 1), for jitter. */
  readonly random: () => number;
  readonly log: Log;
  readonly keyPairs: KeyPairs;
  /** The name and the uid of the Node object; the uid is undefined before it was read. */
  readonly node: () => { readonly name: string; readonly uid: string | undefined };
  readonly reference: PodCertificateReference;
  /** Limits the requests of all certificates. */
  readonly requestSlots: Semaphore;
  /** The request as the watch shows it; undefined if the watch does not show it. */
  readonly find: (namespace: string, name: string) => PodCertificateRequest | undefined;
  /** A certificate has arrived, or there is none for this reason. May not throw. */
  readonly onKnown: (known: KnownPodCertificate) => void;
  /** May not throw. */
  readonly onEvent: (event: PodEvent) => void;
}

/** A request that the signer has not answered yet. Its key is only here. */
interface PendingRequest {
  readonly name: string;
  readonly privateKey: string;
  readonly requestedAt: number;
}

/** The time for which pods wait for Secrets and tokens, too, before they report what they lack. */
const WAIT_FOR_FIRST_ANSWER_MS = 1_000;
/** The node authorizer and the node's admission learn of a new pod shortly after the node does. */
const RETRY = { initialMs: 100, maxMs: 300_000 };
const DEADLINE_MS = 10_000;

/**
 *        ┌───────────────── deleted, or abandoned ──────────────────┐
 *        ▼                                                          │
 *     request ──► wait for its signer ──► issued: shown ──► wait until it is due for refresh
 *        ▲               └──► denied, failed: the end               │
 *        └──────────────────────────────────────────────────────────┘
 *
 * While a certificate is refreshed its pod keeps the one that it has.
 */
export function createPodCertificate(options: PodCertificateOptions): PodCertificate {
  const { clock, random, reference, onKnown, onEvent } = options;
  const stopping = new AbortController();
  const { signal } = stopping;
  const pause = createPause(options, signal);
  const absence = createAbsence(options, signal);

  /** Resolves once the API server has accepted a request; with nothing once the signal has aborted. */
  async function request(): Promise<PendingRequest | undefined> {
    while (!signal.aborted) {
      const answer = await sendRequest(options, absence.isOver() ? "refresh" : "initial", signal);
      if (signal.aborted || answer === undefined) return undefined;
      absence.explain(answer instanceof Error ? answer : undefined);
      if (!(answer instanceof Error)) return answer;
      await pause.beforeRetry();
    }
    return undefined;
  }

  /** Shows the certificate. Returns when it is due for refresh. */
  function show({ privateKey, name }: PendingRequest, issued: Extract<CertificateOutcome, { kind: "issued" }>): number {
    const { certificateChain, notAfter } = issued;
    const refreshAt = certificateRefreshAt(issued, clock.now(), random());
    pause.onIssued(lateEvents(refreshAt, notAfter));
    absence.end();
    // The name of the request makes the version another one for each key.
    onKnown({ privateKey, certificateChain, version: versionOfText(`${name}\n${certificateChain}`) });
    return refreshAt;
  }

  async function keepCertificate(): Promise<void> {
    while (!signal.aborted) {
      const pending = await request();
      if (pending === undefined) return;
      const outcome = await answerTo(options, pending, pause, signal);
      if (signal.aborted) return;
      if (outcome === "deleted") await pause.beforeRetry();
      else if (outcome.kind === "issued") await pause.until(show(pending, outcome));
      else {
        onEvent(refusalEvent(`${reference.namespace}/${pending.name}`, outcome));
        absence.end();
        return onKnown({ failure: refusalText(outcome) });
      }
    }
  }

  return {
    async run() {
      const cancelTimeout = clock.wakeAt(clock.now() + WAIT_FOR_FIRST_ANSWER_MS, absence.begin);
      await keepCertificate();
      cancelTimeout();
    },
    onRequestsChanged: pause.wake,
    retryAfterOutage: pause.retryNow,
    stop: () => stopping.abort(),
  };
}

/** Waits, and records meanwhile the events about what is late. */
interface Pause {
  /** Until something has changed, or the time has come. */
  next(until: number): Promise<void>;
  until(time: number): Promise<void>;
  /** Ever longer, until a certificate is issued; it ends when the API server serves us again. */
  beforeRetry(): Promise<void>;
  onIssued(late: ReturnType<typeof lateEvents>): void;
  wake(): void;
  retryNow(): void;
}

function createPause({ clock, onEvent }: Pick<PodCertificateOptions, "clock" | "onEvent">, signal: AbortSignal): Pause {
  const changed = createAutoResetEvent(clock);
  const backoff = createBackoffCounter(RETRY);
  let hasRecovered = false;
  let late: ReturnType<typeof lateEvents> = [];

  async function next(until: number): Promise<void> {
    await changed.wait(Math.min(until, ...late.map(([at]) => at)), signal);
    const now = clock.now();
    const due = late.filter(([at]) => at <= now);
    late = late.filter(([at]) => at > now);
    if (!signal.aborted) for (const [, event] of due) onEvent(event);
  }

  return {
    next,
    async until(time) {
      while (!signal.aborted && clock.now() < time) await next(time);
    },
    async beforeRetry() {
      const retryAt = clock.now() + backoff.next();
      hasRecovered = false;
      while (!signal.aborted && clock.now() < retryAt && !hasRecovered) await next(retryAt);
    },
    onIssued(events) {
      late = events;
      backoff.reset();
    },
    wake: changed.set,
    retryNow() {
      hasRecovered = true;
      changed.set();
    },
  };
}

/** Reports why the pod has no certificate yet, once it has waited for a while. */
function createAbsence({ log, reference, onKnown }: PodCertificateOptions, signal: AbortSignal) {
  const { namespace, podName, volume } = reference;
  const failureLog = createRequestFailureLog(
    log,
    { pod: `${namespace}/${podName}`, volume },
    { failure: "the pod certificate cannot be requested", recovery: "the pod certificate is requested again" },
  );
  let hasWaited = false;
  let isOver = false;
  let why = "";

  function report(): void {
    if (hasWaited && !isOver && !signal.aborted) onKnown({ failure: `${POD_CERTIFICATE_NOT_ISSUED}${why}` });
  }

  return {
    /** The pod has waited long enough for it to be reported. */
    begin(): void {
      hasWaited = true;
      report();
    },
    /** The request has failed, or was accepted. */
    explain(error: Error | undefined): void {
      why = error === undefined ? "" : `: ${error.message}`;
      if (error === undefined) failureLog.clear();
      else if (hasWaited) failureLog.report(error.cause, error.message);
      report();
    },
    end(): void {
      isOver = true;
    },
    isOver: () => isOver,
  };
}

/** Waits for the signer's answer. A request that the watch has shown, and does not show any more, was deleted. */
async function answerTo(
  { clock, random, reference, find }: PodCertificateOptions,
  { name, requestedAt }: PendingRequest,
  pause: Pick<Pause, "next">,
  signal: AbortSignal,
): Promise<CertificateOutcome | "deleted"> {
  const abandonedAt = requestAbandonedAt(requestedAt, random());
  let wasFound = false;
  while (!signal.aborted) {
    const found = find(reference.namespace, name);
    wasFound ||= found !== undefined;
    const outcome = found && outcomeOf(found);
    if (outcome !== undefined) return outcome;
    if (found === undefined && (wasFound || clock.now() >= abandonedAt)) break;
    await pause.next(found === undefined ? abandonedAt : Number.POSITIVE_INFINITY);
  }
  return "deleted";
}

/** Makes a key and sends its request. Resolves with the failure in the kubelet's words; with nothing once the signal has aborted. */
async function sendRequest(
  { kube, clock, keyPairs, node, reference, requestSlots }: PodCertificateOptions,
  kind: "initial" | "refresh",
  signal: AbortSignal,
): Promise<PendingRequest | Error | undefined> {
  const options = { deadlineMs: DEADLINE_MS, signal };
  const { namespace, serviceAccount, projection } = reference;
  let step = "while fetching service account";
  const send = async (): Promise<PendingRequest> => {
    const account = await kube.get(serviceAccounts(namespace), serviceAccount, options);
    step = "while getting node object from local cache";
    const { name: nodeName, uid: nodeUID } = node();
    if (nodeUID === undefined) throw new Error(`node ${JSON.stringify(nodeName)} not found`);
    step = `while creating ${kind} PodCertificateRequest: while generating keypair`;
    const { privateKey, certificateRequest } = await keyPairs.generate(projection.keyType);
    step = `while creating ${kind} PodCertificateRequest: while creating on API`;
    const nodeIdentity = { nodeName, nodeUID, serviceAccountUID: account.metadata.uid ?? "" };
    const body = requestBody(reference, nodeIdentity, encodeBase64(certificateRequest));
    const { metadata } = await kube.create(podCertificateRequests(namespace), body, options);
    return { name: metadata.name ?? "", privateKey, requestedAt: clock.now() };
  };
  try {
    return await requestSlots.run(send, signal);
  } catch (error) {
    if (signal.aborted) return undefined;
    if (!(error instanceof Error)) throw error;
    const message = error instanceof KubeError ? (error.serverMessage ?? error.message) : error.message;
    return new Error(`${step}: ${message}`, { cause: error });
  }
}

function requestBody(
  { namespace, podName, podUid, serviceAccount, projection }: PodCertificateReference,
  identity: Pick<PodCertificateRequest["spec"], "nodeName" | "nodeUID" | "serviceAccountUID">,
  stubPKCS10Request: string,
): PodCertificateRequest {
  const { signerName, maxExpirationSeconds, userAnnotations } = projection;
  return {
    metadata: {
      namespace,
      generateName: "req-",
      ownerReferences: [{ apiVersion: "v1", kind: "Pod", name: podName, uid: podUid }],
    },
    spec: {
      signerName,
      podName,
      podUID: podUid,
      serviceAccountName: serviceAccount,
      ...identity,
      ...(maxExpirationSeconds !== undefined && { maxExpirationSeconds }),
      stubPKCS10Request,
      ...(userAnnotations && { unverifiedUserAnnotations: userAnnotations }),
    },
  };
}
