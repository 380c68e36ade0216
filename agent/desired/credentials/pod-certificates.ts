import { aborted } from "../../../host/async/abort.ts";
import { createSemaphore } from "../../../host/async/semaphore.ts";
import type { KubeClient } from "../../../kube/client.ts";
import { podCertificateRequests } from "../../../kube/resource.ts";
import type { PodUid } from "../../../proto/ids.ts";
import {
  type KnownPodCertificate,
  noPodCertificate,
  POD_CERTIFICATES_OFF,
  type PodCertificateReference,
  type PodCertificateRequest,
  podCertificatesOfPod,
} from "../../../proto/kubernetes/certificates.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { PodEvent } from "../../decide/events/pod-event.ts";
import { createKnownValues } from "../objects/known-values.ts";
import { createServedInformer, type ServedInformer } from "../objects/served-informer.ts";
import { createPodCertificate, type PodCertificate, type PodCertificateOptions } from "./pod-certificate.ts";

/**
 * Requests and refreshes the pod certificates in the projected volumes of this node's pods. Memory only: a new agent
 * requests all of them again.
 */
export interface PodCertificates {
  /** By `podCertificateKey`, also during an outage of the API server. A missing entry is still being requested. */
  latest(): ReadonlyMap<string, KnownPodCertificate>;
  /** The version of each by `podCertificateKey`; `failed` if there is none. */
  versions(): ReadonlyMap<string, string>;
  /** Requests the certificates of the pod's volumes, and refreshes them from now on. */
  retain(uid: PodUid, pod: Pod): void;
  /** The pod starts no more containers: forgets its keys. */
  release(uid: PodUid): void;
  /** Sends the requests until the signal aborts; never rejects. Called once. */
  run(signal: AbortSignal): Promise<void>;
}

export interface PodCertificatesOptions
  extends Pick<PodCertificateOptions, "clock" | "random" | "log" | "keyPairs" | "node"> {
  readonly kube: Pick<KubeClient, "create" | "get" | "isServed" | "listAndWatch" | "subscribeToRecovery">;
  /** The feature gate `PodCertificateRequest`. */
  readonly isEnabled: boolean;
  /** The certificate of this key has arrived or changed, or it is known now why there is none. May not throw. */
  readonly onChange: (uid: PodUid, key: string) => void;
  /** A request of the pod `namespace/name` was refused, or its certificate is late. May not throw. */
  readonly onEvent: (uid: PodUid, pod: string, event: PodEvent) => void;
}

interface Entry {
  readonly uid: PodUid;
  readonly reference: PodCertificateReference;
  /** Undefined before the requests of this node are read. */
  certificate: PodCertificate | undefined;
}

/** A node that starts with a hundred pods must not crowd out its other requests. */
const MAX_REQUESTS = 8;

export function createPodCertificates(options: PodCertificatesOptions): PodCertificates {
  const { kube, isEnabled, onChange } = options;
  const pods = new Map<PodUid, readonly string[]>();
  const entries = new Map<string, Entry>();
  const { latest, versions, ...values } = createKnownValues<KnownPodCertificate>();
  const requestSlots = createSemaphore({ permits: MAX_REQUESTS });
  const requests = createNodeRequests(options, onRequestsChanged);
  const running = new Set<Promise<void>>();
  let isRunning = false;

  function track(run: Promise<void>): void {
    const tracked = run.finally(() => running.delete(tracked));
    running.add(tracked);
  }

  function publish(key: string, { uid }: Entry, known: KnownPodCertificate): void {
    if (values.set(key, known)) onChange(uid, key);
  }

  function startCertificate(key: string, entry: Entry): void {
    const { uid, reference } = entry;
    const onKnown = (known: KnownPodCertificate) => publish(key, entry, known);
    const onEvent = (event: PodEvent) => options.onEvent(uid, `${reference.namespace}/${reference.podName}`, event);
    const { find } = requests;
    entry.certificate = createPodCertificate({ ...options, reference, requestSlots, find, onKnown, onEvent });
    track(entry.certificate.run());
  }

  /** Like the kubelet nothing is requested before the requests of this node are read. */
  function onRequestsChanged(): void {
    const progress = requests.progress();
    for (const [key, entry] of entries)
      if (entry.certificate !== undefined) entry.certificate.onRequestsChanged();
      else if (!isEnabled) publish(key, entry, { failure: POD_CERTIFICATES_OFF });
      else if (progress === "read") startCertificate(key, entry);
      else if (progress === "failing") publish(key, entry, { failure: noPodCertificate(entry.reference) });
  }

  function start(): void {
    if (isRunning && isEnabled && entries.size > 0 && !requests.isStarted()) track(requests.start());
  }

  return {
    latest: () => latest,
    versions: () => versions,
    retain(uid, pod) {
      // The volumes of a pod of the API never change.
      if (pods.has(uid)) return;
      const references = podCertificatesOfPod(pod);
      if (references.size === 0) return;
      pods.set(uid, [...references.keys()]);
      for (const [key, reference] of references) entries.set(key, { uid, reference, certificate: undefined });
      start();
      onRequestsChanged();
    },
    release(uid) {
      for (const key of pods.get(uid) ?? []) {
        entries.get(key)?.certificate?.stop();
        for (const each of [entries, values]) each.delete(key);
      }
      pods.delete(uid);
      if (entries.size === 0) requests.stop();
    },
    async run(signal) {
      isRunning = true;
      kube.subscribeToRecovery(() => {
        for (const { certificate } of entries.values()) certificate?.retryAfterOutage();
      }, signal);
      start();
      await aborted(signal);
      isRunning = false;
      requests.stop();
      for (const { certificate } of entries.values()) certificate?.stop();
      await Promise.all(running);
    },
  };
}

/** The PodCertificateRequests of this node, watched while a pod needs a certificate. */
function createNodeRequests(options: PodCertificatesOptions, onChange: () => void) {
  let requests: ReadonlyMap<string, PodCertificateRequest> = new Map();
  let watch: ServedInformer<PodCertificateRequest> | undefined;
  return {
    find: (namespace: string, name: string) => requests.get(`${namespace}/${name}`),
    /** `failing`: pods do not wait for the first list any longer. */
    progress(): "read" | "reading" | "failing" {
      const { kind } = watch?.latest() ?? { kind: "unread" };
      if (kind === "read") return kind;
      return kind === "unread" ? "reading" : "failing";
    },
    isStarted: () => watch !== undefined,
    /** Resolves after `stop`; never rejects. */
    start(): Promise<void> {
      const started = createServedInformer({
        ...options,
        versions: [podCertificateRequests()],
        // The node authorizer demands it.
        selector: { fieldSelector: `spec.nodeName=${options.node().name}` },
        transform: (request) => request,
        onChange() {
          const served = started.latest();
          if (served.kind === "read")
            requests = new Map(
              served.objects.map((each) => [`${each.metadata.namespace}/${each.metadata.name}`, each]),
            );
          onChange();
        },
      });
      watch = started;
      return started.run();
    },
    stop(): void {
      watch?.stop();
      watch = undefined;
      requests = new Map();
    },
  };
}
