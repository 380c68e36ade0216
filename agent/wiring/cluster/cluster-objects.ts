import type { Clock } from "../../../host/clock.ts";
import type { Files } from "../../../host/fs/files.ts";
import type { KeyPairs } from "../../../host/key-pairs.ts";
import type { Log } from "../../../host/log/log.ts";
import type { KubeClient } from "../../../kube/client.ts";
import type { PodUid } from "../../../proto/ids.ts";
import { type KnownTrustAnchors, trustAnchorsOfPod } from "../../../proto/kubernetes/certificates.ts";
import { claimReferencesOf } from "../../../proto/kubernetes/claims.ts";
import type { Node } from "../../../proto/kubernetes/gen/types.ts";
import { hasKey, referencesOf } from "../../../proto/kubernetes/references.ts";
import { type KnownToken, tokenReferencesOf } from "../../../proto/kubernetes/token-references.ts";
import type { Config } from "../../config/config.ts";
import type { PodEvent } from "../../decide/events/pod-event.ts";
import { type DesiredPod, needsReferencedObjects } from "../../decide/pod/desired.ts";
import type { ClusterSettings } from "../../decide/settings.ts";
import { cacheTtlMs } from "../../decide/volumes/object-age.ts";
import { createPodCertificates } from "../../desired/credentials/pod-certificates.ts";
import {
  createServiceAccountTokens,
  type ServiceAccountTokens,
} from "../../desired/credentials/service-account-tokens.ts";
import { createTrustBundles } from "../../desired/credentials/trust-bundles.ts";
import { type Claims, createClaims } from "../../desired/objects/claims.ts";
import { createKeptObjects, type KeptObjects, removeKeptObjects } from "../../desired/objects/kept-objects.ts";
import { createRuntimeClasses } from "../../desired/objects/runtime-classes.ts";
import {
  type ChangeDetection,
  createReferencedObjectCache,
  type ReferencedObjectCache,
} from "../../desired/objects/secrets-and-configmaps.ts";
import { createServices } from "../../desired/objects/services.ts";
import type { DesiredPods } from "../../desired/pods.ts";
import type { ClusterFacts } from "../../translate/node-facts.ts";

export interface ClusterObjectsOptions {
  readonly kube: Pick<
    KubeClient,
    "create" | "get" | "isServed" | "listAndWatch" | "requestToken" | "subscribeToRecovery"
  >;
  readonly clock: Clock;
  /** Returns a number in [0, 1), for jitter. */
  readonly random: () => number;
  readonly nodeName: string;
  readonly keyPairs: KeyPairs;
  readonly certificateGates: Config["certificateGates"];
  /** `--keep-referenced-objects`: keeps on the disk what pods refer to. Without it, what was kept is removed. */
  readonly keepsReferencedObjects: boolean;
  /** `configMapAndSecretChangeDetectionStrategy` and `syncFrequency`. */
  readonly changeDetection: Pick<ChangeDetection, "strategy" | "syncFrequencyMs">;
  readonly log: Log;
  /** The agent's root directory. */
  readonly root: Files;
  readonly desired: Pick<DesiredPods, "all" | "subscribe">;
  /** Syncs every pod. */
  readonly wakeAll: () => void;
  /** Syncs one pod. */
  readonly wake: (uid: PodUid) => void;
  /**
   * A Secret or ConfigMap that the pod refers to, with this `referenceKey`, was read or has changed, or a token of the
   * pod's volumes, with this `tokenKey`, or a claim of one, with this `claimKey`, or trust anchors or a certificate, with
   * their keys.
   */
  readonly onReferenceChanged: (uid: PodUid, key: string) => void;
  readonly nodeObject: { latest(): Node | undefined | "unknown" };
  /** Records an event of the pod `namespace/name`. */
  readonly recordEvent: (uid: PodUid, pod: string, event: PodEvent) => void;
}

/**
 * The cluster's objects that pods depend on: Services, RuntimeClasses, Secrets, ConfigMaps, claims, and tokens of
 * service accounts. Which ones are watched or requested follows from the desired pods.
 */
export interface ClusterObjects {
  /** Which objects are read, for decisions. */
  settings(): ClusterSettings;
  /** The objects themselves, for messages to the runtime. */
  facts(): ClusterFacts;
  /** A container is being created with variables of the current Services, which it keeps for life: saves them. */
  markServicesUsed(): void;
  /** A pod was synced: with the strategies `Cache` and `Get` it needs objects that are not too old. */
  onPodSynced(uid: PodUid): void;
  /** The Node object has changed; undefined if there is none. */
  onNodeChanged(node: Node | undefined): void;
  /** The API server has listed this node's pods, so its Services will be read, too. */
  onApiSynced(): void;
  /** How many objects and tokens of pods are known only because they were kept: the API server has not answered. */
  keptReferences(): number;
  /** Runs the watches until the signal aborts; never rejects. */
  run(signal: AbortSignal): Promise<void>;
  /** Resolves when nothing is being written. */
  settled(): Promise<void>;
}

export function createClusterObjects(options: ClusterObjectsOptions): ClusterObjects {
  const { kube, clock, log, root, desired, wakeAll, nodeObject } = options;
  let isApiSynced = false;
  const services = createServices({
    kube,
    clock,
    log,
    root,
    namespaces: () => new Set(desired.all().map(({ pod }) => pod.metadata.namespace ?? "default")),
    isApiSynced: () => isApiSynced,
    onAvailable: wakeAll,
  });
  const runtimeClasses = createRuntimeClasses({ kube, log, onSynced: wakeAll });
  const { kept, referencedObjects, tokens, claims, known } = createReferences(options);
  const certificates = createCertificates(options, kept);
  const ofPods = [referencedObjects, tokens, claims, ...certificates.caches];
  const release = (uid: PodUid) => {
    for (const each of ofPods) each.release(uid);
    // Before the first list, pods may be missing whose objects are kept.
    if (isApiSynced) kept?.prune(keysOf(desired.all()));
  };
  desired.subscribe({
    onPodUpdated(desiredPod) {
      const { uid, pod } = desiredPod;
      if (pod.spec.runtimeClassName) runtimeClasses.startWatch();
      if (needsReferencedObjects(desiredPod)) for (const each of ofPods) each.retain(uid, pod);
      else release(uid);
    },
    onPodRemoved: release,
  });
  return {
    settings: () => ({
      areServicesRead: services.canStartPods(),
      areRuntimeClassesRead: runtimeClasses.handlers() !== undefined,
      settledReferences: referencedObjects.settledKeys(),
      ...known.versions(),
      hasReferencedKey: known.hasKey,
      certificateVersions: certificates.versions(),
    }),
    facts: () => ({
      services: services.latest(),
      runtimeHandlers: runtimeClasses.handlers(),
      ...known.latest(),
      referenceFailures: referencedObjects.failures(),
      ...certificates.latest(),
      nodeLabels: labelsOf(nodeObject.latest()) ?? (nodeObject.latest() === "unknown" ? kept?.nodeLabels() : undefined),
    }),
    keptReferences: () =>
      kept?.count({
        objects: referencedObjects.latest(),
        tokens: tokens.latest(),
        claims: claims.latest(),
        trustAnchors: certificates.anchors(),
      }) ?? 0,
    markServicesUsed: services.markUsed,
    onPodSynced: referencedObjects.onPodSynced,
    onNodeChanged(node) {
      if (node !== undefined) kept?.updateNodeLabels(labelsOf(node) ?? {});
    },
    onApiSynced() {
      isApiSynced = true;
      kept?.prune(keysOf(desired.all()));
    },
    async run(signal) {
      // Before the first timeout of a read, so that pods find what is kept.
      await (kept?.load() ?? removeKeptObjects(root).catch(logRemoval(log)));
      const runs = [services, runtimeClasses, ...ofPods].map((each) => each.run(signal));
      await Promise.all(runs);
    },
    async settled() {
      await Promise.all([services.settled(), kept?.settled()]);
    },
  };
}

/** The caches of what pods refer to, and what is kept of it on the disk. */
function createReferences(options: ClusterObjectsOptions) {
  const { kube, clock, log, random, root, changeDetection, nodeObject, wake, onReferenceChanged } = options;
  const kept = options.keepsReferencedObjects ? createKeptObjects({ root, clock, log }) : undefined;
  const referencedObjects = createReferencedObjectCache({
    kube,
    clock,
    log,
    changeDetection: { ...changeDetection, random, ttlMs: () => cacheTtlMs(annotationsOf(nodeObject.latest())) },
    onUnchanged: wake,
    onChange(uid, key) {
      const object = referencedObjects.latest().get(key);
      if (object !== undefined) kept?.updateObject(key, object);
      onReferenceChanged(uid, key);
    },
  });
  const tokens = createServiceAccountTokens({
    kube,
    clock,
    log,
    random,
    onChange(uid, key) {
      const token = tokens.latest().get(key);
      if (token !== undefined) kept?.updateToken(key, token);
      onReferenceChanged(uid, key);
    },
  });
  const claims = createClaims({
    kube,
    clock,
    isKept: (key) => kept?.has(key) === true,
    onChange(uid, key) {
      const claim = claims.latest().get(key);
      if (claim !== undefined) kept?.updateClaim(key, claim, labelsOf(nodeObject.latest()));
      onReferenceChanged(uid, key);
    },
  });
  const known = createKnownReferences({ referencedObjects, tokens, claims, kept });
  return { kept, referencedObjects, tokens, claims, known };
}

/** What projections of `certificates.k8s.io` show. */
function createCertificates(options: ClusterObjectsOptions, kept: KeptObjects | undefined) {
  const { certificateGates: gates, nodeName, nodeObject, onReferenceChanged, recordEvent } = options;
  const trustBundles = createTrustBundles({
    ...options,
    isEnabled: gates.clusterTrustBundleProjection,
    onChange(uid, key) {
      const known = trustBundles.latest().get(key);
      if (known !== undefined) kept?.updateTrustAnchors(key, known);
      onReferenceChanged(uid, key);
    },
  });
  const anchors = () => kept?.withTrustAnchors(trustBundles.latest()) ?? trustBundles.latest();
  const podCertificates = createPodCertificates({
    ...options,
    isEnabled: gates.podCertificateRequest,
    node: () => ({ name: nodeName, uid: uidOf(nodeObject.latest()) }),
    onChange: onReferenceChanged,
    onEvent: recordEvent,
  });
  return {
    caches: [trustBundles, podCertificates],
    versions(): ReadonlyMap<string, string> {
      const [withKept, ofPods] = [anchors(), podCertificates.versions()];
      const ofBundles = withKept === trustBundles.latest() ? trustBundles.versions() : versionsOf(withKept);
      return ofPods.size === 0 ? ofBundles : new Map([...ofBundles, ...ofPods]);
    },
    latest: (): Pick<ClusterFacts, "trustAnchors" | "podCertificates"> => ({
      trustAnchors: anchors(),
      podCertificates: podCertificates.latest(),
    }),
    anchors: trustBundles.latest,
  };
}

const keysOf = (pods: readonly Pick<DesiredPod, "pod">[]): ReadonlySet<string> =>
  new Set(
    pods
      .flatMap(({ pod }) => [referencesOf(pod), tokenReferencesOf(pod), claimReferencesOf(pod), trustAnchorsOfPod(pod)])
      .flatMap((references) => [...references.keys()]),
  );

const logRemoval = (log: Log) => (error: unknown) =>
  log.warn({ err: error }, "cannot remove what an agent with --keep-referenced-objects has kept");

interface KnownReferencesDeps {
  readonly referencedObjects: Pick<ReferencedObjectCache, "latest" | "versions">;
  readonly tokens: Pick<ServiceAccountTokens, "latest" | "versions">;
  readonly claims: Pick<Claims, "latest">;
  readonly kept: KeptObjects | undefined;
}

/** What pods refer to, and its versions: as the API server has last answered, and otherwise as kept. */
function createKnownReferences({ referencedObjects, tokens, claims, kept }: KnownReferencesDeps) {
  const objects = () => kept?.withObjects(referencedObjects.latest()) ?? referencedObjects.latest();
  const allTokens = () => kept?.withTokens(tokens.latest()) ?? tokens.latest();
  return {
    latest: (): Pick<ClusterFacts, "referencedObjects" | "tokens" | "claims"> => ({
      referencedObjects: objects(),
      tokens: allTokens(),
      claims: kept?.withClaims(claims.latest()) ?? claims.latest(),
    }),
    hasKey(reference: string, key: string): boolean {
      const object = objects().get(reference);
      return object !== undefined && object !== "absent" && hasKey(object, key);
    },
    versions(): Pick<ClusterSettings, "referenceVersions" | "tokenVersions" | "settledClaims"> {
      const [withKept, withKeptTokens] = [objects(), allTokens()];
      return {
        settledClaims: claims.latest(),
        referenceVersions:
          withKept === referencedObjects.latest()
            ? referencedObjects.versions()
            : new Map([...withKept].map(([key, object]) => [key, object === "absent" ? object : object.version])),
        tokenVersions: withKeptTokens === tokens.latest() ? tokens.versions() : versionsOf(withKeptTokens),
      };
    },
  };
}

/** `failed` where there is nothing. */
const versionsOf = (known: ReadonlyMap<string, KnownToken | KnownTrustAnchors>): ReadonlyMap<string, string> =>
  new Map([...known].map(([key, each]) => [key, "failure" in each ? "failed" : each.version]));

function uidOf(node: Node | undefined | "unknown"): string | undefined {
  return node === undefined || node === "unknown" ? undefined : node.metadata.uid;
}

const annotationsOf = (node: Node | undefined | "unknown") =>
  node === "unknown" ? undefined : node?.metadata.annotations;

function labelsOf(node: Node | undefined | "unknown"): Readonly<Record<string, string>> | undefined {
  return node === undefined || node === "unknown" ? undefined : (node.metadata.labels ?? {});
}
