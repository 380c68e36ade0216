import type { Clock } from "../../host/clock.ts";
import type { Log } from "../../host/log.ts";
import type { Kube } from "../../kube/client.ts";
import type { PodUid } from "../../proto/ids.ts";
import type { Node, Pod, PodStatus } from "../../proto/kubernetes/gen/types.ts";
import { pullSecretReferences, type Referents, referenceKey } from "../../proto/kubernetes/references.ts";
import { namesakeEvent, type PodEvent, unreadableEvent } from "../decide/events/pod-events.ts";
import { nodeReference } from "../decide/node/node-report.ts";
import type { Beginning, Taken } from "../decide/pod/action-call.ts";
import { type DesiredPod, fullNameOf, type SourceKind } from "../decide/pod/desired.ts";
import type { StageKind } from "../decide/pod/stage.ts";
import { mirrorOwnerOf } from "../decide/sources/mirror.ts";
import { type ApiPodListener, followApiPods } from "../desired/api/api-pods.ts";
import { createServiceAccounts, type ServiceAccounts } from "../desired/objects/service-accounts.ts";
import type { DesiredPods } from "../desired/pods.ts";
import { createPodEvents, type PodEvents } from "../report/events/pod-event-recorder.ts";
import { createEventRecorder, type EventRecorder } from "../report/events/recorder.ts";
import { createMirrorPods, type MirrorPods } from "../report/pod/mirror.ts";
import { createPodStatusReport, type PodStatusReport } from "../report/pod/status-reporter.ts";
import { type DnsTrouble, dnsTroubles } from "../translate/network/dns.ts";
import type { NodeFacts } from "../translate/node-facts.ts";
import { type ClusterFactsParts, createClusterFacts, type FollowedFacts } from "./cluster-objects.ts";

export interface ClusterParts {
  readonly kube: Kube;
  readonly nodeName: string;
  readonly clock: Clock;
  readonly log: Log;
  /** From 0 up to 1, for jitter. */
  readonly random: () => number;
  readonly ownNode: OwnNodeObject;
  /** Why the runtime can give no pod a network; undefined where it can, or has not told. */
  readonly networkProblem: () => string | undefined;
}

/** The object of this node. */
export interface OwnNodeObject {
  /** As it was heard last; undefined: there is none. */
  latest(): Node | undefined | "unknown";
  /** Asks for it; true when `latest` is up to date then, or will not be by asking; false when nobody answers. Never rejects. */
  ask(): Promise<boolean>;
}

/** What the rooms that face the cluster need of the others. */
export interface ClusterNeeds {
  readonly desired: DesiredPods;
  /** How large the runtime says an image is; undefined where it cannot say. */
  readonly imageSizeBytes: (image: string) => Promise<number | undefined>;
  /** Pods have to show a right to images that are here already. */
  readonly isAccessVerified: boolean;
  /** What it takes to tell pods of the cluster. */
  readonly telling: Pick<ClusterFactsParts, "root" | "wakeAll" | "tellOf"> & {
    /** What pods are told of the node; throws where it cannot tell. */
    readonly facts: () => NodeFacts;
  };
}

/** The pods of this node in the cluster: what it asks for, and what it is told of them. Only `follow` takes time. */
export interface Cluster {
  /** Hears of pods, and tells of them, until the signal aborts; never rejects. */
  follow(signal: AbortSignal): Promise<void>;
  report(desired: DesiredPod, status: PodStatus, stage: StageKind): void;
  /** Resolves when nothing on the node is needed to tell how a deleted pod has ended. Never rejects. */
  secured(uid: PodUid): Promise<void>;
  begins(beginning: Beginning): void;
  took(taken: Taken): void;
  /** What is told of a pod, `namespace/name`, besides what is done to it: of the answer to a probe, of a long pull. */
  tell(uid: PodUid, pod: string, event: PodEvent): void;
  finished(uid: PodUid): void;
  /** All pods of a kind of manifests that do not begin because another one of it has their name. */
  doubled(kind: SourceKind, namesakes: readonly Pod[]): void;
  /** Every source of pods has spoken. */
  complete(): void;
  /** This node's object, which is another than before in some way; undefined when it has none. */
  node(node: Node | undefined): void;
  readonly ownNode: OwnNodeObject;
  readonly serviceAccounts: ServiceAccounts;
  /** What pods are told of the cluster. */
  readonly facts: Pick<FollowedFacts, "settings" | "facts">;
  /** For what happens to the node itself. */
  readonly recorder: EventRecorder;
  /** Resolves when nothing is under way. */
  settled(): Promise<void>;
}

/** Joins the rooms that face the cluster. */
export function createCluster(
  parts: ClusterParts,
  { desired, imageSizeBytes, isAccessVerified, telling }: ClusterNeeds,
): Cluster {
  const recorder = createEventRecorder(parts);
  const podOf = (uid: PodUid) => {
    const wanted = desired.get(uid);
    return wanted === "unknown" ? undefined : wanted?.pod;
  };
  const events = createPodEvents({ recorder, imageSizeBytes, isAccessVerified, podOf });
  const statuses = createPodStatusReport({
    ...parts,
    keepLast: desired.keepLast,
  });
  const mirrors = createMirrorPods({
    ...parts,
    desired: desired.all,
    isComplete: desired.isComplete,
    made: statuses.seen,
  });
  const facts = createClusterFacts({ ...parts, ...telling, desired });
  const dns = createDnsEvents({ recorder, nodeName: parts.nodeName, podOf, facts: telling.facts });
  const newsOfStatics = createNewsOfStatics();
  const listener = createListener({ statuses, mirrors, recorder, events, facts, desired });

  return {
    async follow(signal) {
      // A server may fail what we tell it while its watches go on.
      parts.kube.onRecovery(listener.back, signal);
      await Promise.all([followApiPods({ ...parts, hear: desired.hear, listener }, signal), facts.follow(signal)]);
      for (const room of [statuses, mirrors, recorder]) room.stop();
    },
    secured: statuses.secured,
    report(wanted, status, stage) {
      facts.wanted(wanted, stage);
      events.report(wanted, status);
      statuses.report(wanted, status, stage);
      if (newsOfStatics.isNews(wanted)) mirrors.look();
    },
    begins(beginning) {
      if (beginning.action.kind === "createContainer") facts.used();
      for (const event of pullSecretEvents(beginning, podOf(beginning.uid), facts.facts().referents))
        events.tell(beginning.uid, beginning.pod, event);
      events.begins(beginning, dns(beginning));
    },
    took: events.took,
    tell: events.tell,
    finished(uid) {
      facts.finished(uid);
      events.finished(uid);
      statuses.finished(uid);
      newsOfStatics.forget(uid);
      mirrors.look();
    },
    doubled: createNamesakeEvents(events),
    complete: mirrors.look,
    node(node) {
      mirrors.node(mirrorOwnerOf(node));
      desired.judge();
    },
    ownNode: parts.ownNode,
    serviceAccounts: createServiceAccounts(parts),
    facts,
    recorder,
    async settled() {
      await Promise.all([statuses.settled(), mirrors.settled(), recorder.settled(), facts.settled()]);
    },
  };
}

interface Listening {
  readonly statuses: PodStatusReport;
  readonly mirrors: MirrorPods;
  readonly recorder: EventRecorder;
  readonly events: Pick<PodEvents, "tell">;
  readonly facts: Pick<FollowedFacts, "apiHeard">;
  readonly desired: Pick<DesiredPods, "judge">;
}

/** Who hears of pods as the API server has them, each in its turn. */
function createListener({ statuses, mirrors, recorder, events, facts, desired }: Listening): ApiPodListener {
  return {
    seen(pod, asOf) {
      statuses.seen(pod, asOf);
      mirrors.seen(pod, asOf);
    },
    gone(pod) {
      statuses.gone(pod);
      mirrors.gone(pod);
    },
    unreadable({ metadata: { uid, namespace, name } }, problem) {
      events.tell(uid as PodUid, `${namespace}/${name}`, unreadableEvent(problem));
    },
    complete() {
      facts.apiHeard();
      mirrors.complete();
    },
    away() {
      // Who has something to tell finds out by itself.
    },
    back() {
      statuses.back();
      mirrors.back();
      recorder.back();
      desired.judge();
    },
  };
}

interface DnsTelling {
  readonly recorder: EventRecorder;
  readonly nodeName: string;
  readonly podOf: (uid: PodUid) => Pod | undefined;
  readonly facts: () => NodeFacts;
}

/** Tells of the node what of a pod's DNS is its fault; what is to be told of the pod itself comes back. */
function createDnsEvents({ recorder, nodeName, podOf, facts }: DnsTelling) {
  const troublesOf = (pod: Pod): readonly DnsTrouble[] => {
    try {
      return dnsTroubles(pod, facts());
    } catch {
      // What cannot be read now fails the sandbox itself, and is told then.
      return [];
    }
  };
  return ({ uid, action }: Beginning): readonly PodEvent[] => {
    const pod = action.kind === "runSandbox" ? podOf(uid) : undefined;
    const troubles = pod === undefined ? [] : troublesOf(pod);
    for (const { reason, ofNode } of troubles)
      if (ofNode !== undefined)
        recorder.record(nodeReference({ nodeName }), { type: "Warning", reason, message: ofNode });
    return troubles.map(({ reason, message }) => ({ type: "Warning", reason, message }));
  };
}

/** What is told of Secrets for pulls that are not there, or could not be read, before anything is done with the pod's images. */
function pullSecretEvents({ action }: Beginning, pod: Pod | undefined, referents: Referents): readonly PodEvent[] {
  if (pod === undefined || (action.kind !== "pullImage" && action.kind !== "createContainer")) return [];
  const missing = pullSecretReferences(pod).filter(
    (each) => (referents.get(referenceKey(each)) ?? "absent") === "absent",
  );
  if (missing.length === 0) return [];
  const names = missing.map(({ name }) => name).join(", ");
  const message = `Unable to retrieve some image pull secrets (${names}); attempting to pull the image may not succeed.`;
  return [{ type: "Warning", reason: "FailedToRetrieveImagePullSecret", message }];
}

/** Tells of each namesake once, for as long as it is one. */
function createNamesakeEvents({ tell }: Pick<PodEvents, "tell">): Cluster["doubled"] {
  const told = new Map<SourceKind, ReadonlySet<string | undefined>>();
  return (kind, namesakes) => {
    const before = told.get(kind);
    told.set(kind, new Set(namesakes.map(({ metadata }) => metadata.uid)));
    for (const pod of namesakes)
      if (before?.has(pod.metadata.uid) !== true)
        tell(pod.metadata.uid as PodUid, fullNameOf(pod), namesakeEvent(pod, kind));
  };
}

/** Whether a static pod has come, has become another one, or has to end since it was last reported: then its mirror is looked at. */
function createNewsOfStatics() {
  const known = new Map<PodUid, string>();
  return {
    isNews({ uid, source, revision, termination }: DesiredPod): boolean {
      if (source.kind === "api") return false;
      const state = `${revision} ${termination === undefined}`;
      if (known.get(uid) === state) return false;
      known.set(uid, state);
      return true;
    },
    forget: (uid: PodUid) => known.delete(uid),
  };
}
