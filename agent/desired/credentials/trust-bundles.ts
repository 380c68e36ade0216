import { aborted } from "../../../host/async/abort.ts";
import type { Clock } from "../../../host/clock.ts";
import type { Log } from "../../../host/log/log.ts";
import type { KubeClient } from "../../../kube/client.ts";
import { clusterTrustBundles } from "../../../kube/resource.ts";
import type { PodUid } from "../../../proto/ids.ts";
import {
  type ClusterTrustBundle,
  type KnownTrustAnchors,
  TRUST_BUNDLES_UNREAD,
  trustAnchorsOfPod,
} from "../../../proto/kubernetes/certificates.ts";
import type { ClusterTrustBundleProjection, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { TRUST_BUNDLES_UNSUPPORTED, trustAnchorsOf } from "../../decide/volumes/trust-anchors.ts";
import { createKnownValues, versionOfText } from "../objects/known-values.ts";
import { createServedInformer, type ServedInformer, type ServedObjects } from "../objects/served-informer.ts";

/** The trust anchors that projected volumes of this node's pods show. ClusterTrustBundles are watched while a pod needs one. */
export interface TrustBundles {
  /** By `trustAnchorKey`, as last read, also during an outage of the API server. A missing entry is still being read. */
  latest(): ReadonlyMap<string, KnownTrustAnchors>;
  /** The version of each by `trustAnchorKey`; `failed` if there are none. */
  versions(): ReadonlyMap<string, string>;
  /** Watches for the pod's volumes from now on. */
  retain(uid: PodUid, pod: Pod): void;
  /** The pod starts no more containers. */
  release(uid: PodUid): void;
  /** Runs the watch until the signal aborts; never rejects. Called once. */
  run(signal: AbortSignal): Promise<void>;
}

export interface TrustBundlesOptions {
  readonly kube: Pick<KubeClient, "isServed" | "listAndWatch" | "subscribeToRecovery">;
  readonly clock: Clock;
  readonly log: Log;
  /** The feature gate `ClusterTrustBundleProjection`. */
  readonly isEnabled: boolean;
  /** The trust anchors of this key, which a volume of the pod has, were read or have changed. May not throw. */
  readonly onChange: (uid: PodUid, key: string) => void;
}

interface Entry {
  readonly projection: ClusterTrustBundleProjection;
  readonly users: Set<PodUid>;
}

/** The kubelet's words. */
const NO_INFORMER =
  "failed to ensure informer manager for ClusterTrustBundles: failed to determine which informer manager to choose: ";

export function createTrustBundles(options: TrustBundlesOptions): TrustBundles {
  const { isEnabled, onChange } = options;
  const pods = new Map<PodUid, readonly string[]>();
  const entries = new Map<string, Entry>();
  const { latest, versions, ...values } = createKnownValues<KnownTrustAnchors>();
  const running = new Set<Promise<void>>();
  let isRunning = false;
  let watch: ServedInformer<ClusterTrustBundle> | undefined;

  function update(key: string, { projection, users }: Entry): void {
    const known = isEnabled
      ? watch && knownAnchors(watch.latest(), projection)
      : { failure: TRUST_BUNDLES_UNSUPPORTED };
    if (known === undefined || !values.set(key, known)) return;
    for (const uid of users) onChange(uid, key);
  }

  function start(): void {
    if (!isRunning || !isEnabled || watch !== undefined || entries.size === 0) return;
    watch = createServedInformer({
      ...options,
      versions: [clusterTrustBundles("v1beta1"), clusterTrustBundles("v1alpha1")],
      selector: {},
      transform,
      onChange() {
        for (const [key, entry] of entries) update(key, entry);
      },
    });
    const run = watch.run().finally(() => running.delete(run));
    running.add(run);
  }

  function stop(): void {
    watch?.stop();
    watch = undefined;
  }

  return {
    latest: () => latest,
    versions: () => versions,
    retain(uid, pod) {
      // The volumes of a pod of the API never change.
      if (pods.has(uid)) return;
      const projections = trustAnchorsOfPod(pod);
      if (projections.size === 0) return;
      pods.set(uid, [...projections.keys()]);
      for (const [key, projection] of projections) {
        const entry = entries.get(key) ?? { projection, users: new Set() };
        entries.set(key, entry);
        entry.users.add(uid);
        update(key, entry);
      }
      start();
    },
    release(uid) {
      for (const key of pods.get(uid) ?? []) {
        const users = entries.get(key)?.users;
        users?.delete(uid);
        if (users === undefined || users.size > 0) continue;
        for (const each of [entries, values]) each.delete(key);
      }
      pods.delete(uid);
      if (entries.size === 0) stop();
    },
    async run(signal) {
      isRunning = true;
      start();
      await aborted(signal);
      isRunning = false;
      stop();
      await Promise.all(running);
    },
  };
}

/** Undefined while they are being read for the first time. */
function knownAnchors(
  served: ServedObjects<ClusterTrustBundle>,
  projection: ClusterTrustBundleProjection,
): KnownTrustAnchors | undefined {
  switch (served.kind) {
    case "unread":
      return undefined;
    case "late":
      return { failure: TRUST_BUNDLES_UNREAD, isOutage: true };
    case "unserved":
      return { failure: TRUST_BUNDLES_UNSUPPORTED };
    case "failed":
      return { failure: `${NO_INFORMER}${served.message}`, isOutage: true };
    case "read": {
      const anchors = trustAnchorsOf(served.objects, projection);
      return "failure" in anchors ? anchors : { ...anchors, version: versionOfText(anchors.pem) };
    }
  }
}

/** The object may be malformed. */
function transform({ metadata: { name, labels }, spec }: ClusterTrustBundle): ClusterTrustBundle | undefined {
  const { signerName, trustBundle } = (spec ?? {}) as Partial<ClusterTrustBundle["spec"]>;
  if (name === undefined || typeof trustBundle !== "string") return undefined;
  return {
    metadata: { name, ...(labels && { labels }) },
    spec: { trustBundle, ...(signerName !== undefined && signerName !== "" && { signerName }) },
  };
}
