import type { Runtime } from "../../cri/runtime.ts";
import { createLimiter } from "../../host/async/token-bucket.ts";
import type { Clock } from "../../host/clock.ts";
import type { Log } from "../../host/log.ts";
import type { ContainerId, PodUid } from "../../proto/ids.ts";
import { containerNamed } from "../../proto/kubernetes/containers.ts";
import type { Container, Node, Pod } from "../../proto/kubernetes/gen/types.ts";
import { type ActScene, act, type Done } from "../act/act.ts";
import { explain } from "../act/failure-reasons.ts";
import type { MakeProviders } from "../act/images/credential-providers.ts";
import type { LoginFiles } from "../act/images/docker-config.ts";
import { createSharedPulls } from "../act/images/pull-coalescer.ts";
import { createPullQueue } from "../act/images/pull-queue.ts";
import { createLogLinks, type LogLinks } from "../act/logs/log-symlinks.ts";
import { createUserNamespaces } from "../act/user-namespaces.ts";
import type { PodDisk } from "../act/volumes/pod-volumes.ts";
import { createBlindness } from "../blindness.ts";
import type { AdmittingNode } from "../decide/admission/admission-node.ts";
import type { ImageVerification } from "../decide/admission/image-verification.ts";
import { containerHash } from "../decide/container/container-hash.ts";
import type { Action } from "../decide/pod/action.ts";
import { fullNameOf, type SourceKind } from "../decide/pod/desired.ts";
import { instanceKey, type ObservedContainer } from "../decide/pod/observed.ts";
import type { Settings } from "../decide/settings.ts";
import { isUnseen } from "../decide/status/status.ts";
import { createPodRecords } from "../desired/pod-checkpoints.ts";
import { createDesiredPods, type DesiredPods } from "../desired/pods.ts";
import { createRest } from "../loop/idle-timer.ts";
import { createLoop } from "../loop/loop.ts";
import { STUCK_AFTER_MS } from "../loop/start-limiter.ts";
import { createObservedImages, type ObservedImages } from "../observed/images.ts";
import { createObservedPods, type ObservedPods, type Touched } from "../observed/pods/pod-cache.ts";
import { createPodFiles } from "../observed/pods/pod-dirs.ts";
import { withRuntimeStory } from "../observed/pods/runtime-outages.ts";
import { followRuntime } from "../observed/pods/runtime-relist.ts";
import { createLastWords } from "../observed/pods/termination-message.ts";
import type { Probes } from "../observed/probes/prober.ts";
import type { RuntimeFeatures } from "../observed/runtime-features.ts";
import { createNodeStory, type NodeStory } from "../report/local/node-summary.ts";
import { createPodStories, type PodStories } from "../report/local/pod-reports.ts";
import type { Rooms } from "../rooms.ts";
import type { NodeFacts } from "../translate/node-facts.ts";
import type { IdSpace } from "../translate/security/user-namespace-ids.ts";
import type { Cluster, ClusterNeeds } from "./cluster.ts";
import { createImageAccess, type ImageAccess } from "./image-verifier.ts";
import { createProbing, withProbes } from "./probes.ts";

/** The adapters and settings that an agent is made of. */
export interface AgentParts {
  readonly runtime: Runtime;
  readonly clock: Clock;
  readonly log: Log;
  readonly disk: PodDisk;
  readonly mountsBelow: (path: string) => Promise<readonly string[]>;
  readonly facts: () => NodeFacts;
  /** The ids of the node that pods with users of their own get. */
  readonly idSpace: IdSpace;
  /** The runtime's name is asked of the runtime. */
  readonly settings: () => Omit<Settings, "runtimeName">;
  /** The node as pods are held against it, by what the API server has of it; undefined where there is none. */
  readonly admittingNode: (told: Node | undefined | "unknown") => AdmittingNode;
  readonly sources: readonly PodSource[];
  /** Makes the rooms that face the cluster; undefined where the node stands alone. */
  readonly join?: (needs: ClusterNeeds) => Cluster;
  /** A source that is configured cannot be heard, or none is: then nobody can say that a pod is unwanted, and none is ended. */
  readonly hasSilentSource: boolean;
  readonly pulls: { readonly parallel: number | undefined; readonly qps: number; readonly burst: number };
  /** Files with logins of the node for registries. */
  readonly loginFiles: LoginFiles;
  /** Makes the programs of the node that give logins for registries, of what can be asked of service accounts; undefined where there are none. */
  readonly providers: MakeProviders | undefined;
  /** Which images that are here a pod has to show a right to; undefined where nothing is written down of them either. */
  readonly imageVerification: ImageVerification | undefined;
  readonly startPlaces: number;
  /** From 0 up to 1, for what is not to happen to all pods at once. */
  readonly random: () => number;
  /** Called some seconds after the last thing that was done: the time to tidy up. */
  readonly atRest: () => void;
}

const AT_REST_MS = 5_000;

type Told = Parameters<ClusterNeeds["telling"]["tellOf"]>;

/** One source of pods; `follow` offers what it says until the signal aborts, and never rejects. */
export interface PodSource {
  readonly kind: SourceKind;
  readonly follow: (desired: DesiredPods, signal: AbortSignal) => Promise<void>;
}

/** All rooms, joined by the loop. */
export interface Agent {
  readonly desired: DesiredPods;
  readonly stories: PodStories;
  readonly node: NodeStory;
  readonly cluster: Cluster | undefined;
  /** Takes up what was left, then follows the sources and the runtime until the signal aborts. Resolves when the loop has ended. */
  run(signal: AbortSignal): Promise<void>;
  /** Every pod is looked at anew: something that all of them show has changed. */
  wakeAll(): void;
  /** Resolves when nothing is under way. */
  settled(): Promise<void>;
}

export function createAgent(parts: AgentParts): Agent {
  const { runtime, clock, log, disk } = parts;
  const wake = (uid: PodUid) => loop.wake(uid);
  const rest = createRest(clock, AT_REST_MS, parts.atRest);
  const stories = createPodStories({ log, clock, tellOfPod: (...told) => cluster?.tell(...told) });
  const node = createNodeStory(clock);
  const images = createObservedImages({ runtime, clock });
  const [files, lastWords] = [createPodFiles(disk.root, disk.logs), createLastWords(disk.root, disk.logs)];
  const seen = createObservedPods({ runtime, images, files, lastWords, clock, log, wake });
  const probes = createProbing(
    { runtime, clock, log, wake, hostIPs: () => parts.settings().hostIPs, random: parts.random },
    stories.unwell,
  );
  const access = createImageAccess(parts, () => cluster);
  const observed = withProbes(access.withAccess(withLogLinks(seen, createLogLinks(disk, log))), probes);
  const desired = createDesiredPods({
    records: createPodRecords(disk.root, log),
    clock,
    log,
    kinds: [...parts.sources.map(({ kind }) => kind), ...(parts.join === undefined ? [] : (["api"] as const))],
    hasSilentSource: parts.hasSilentSource,
    admission: admissionOf(parts, seen, () => ({ cluster, features: followed.features() })),
    wake,
    interrupt: (uid) => loop.interrupt(uid),
    refused: node.refused,
    doubled: (kind, namesakes) => cluster?.doubled(kind, namesakes),
    complete() {
      wakeAll();
      cluster?.complete();
    },
  });
  const telling = { root: disk.root, facts: parts.facts, wakeAll, tellOf: (...told: Told) => loop.tellOf(...told) };
  const ofImages = { imageSizeBytes: sizeOf(images), isAccessVerified: access.records !== undefined };
  const cluster = parts.join?.({ desired, ...ofImages, telling });
  // What is added for a node that stands alone is nothing.
  const settingsNow = () => ({ ...parts.settings(), ...(cluster && { cluster: cluster.facts.settings() }) });
  const factsNow = () => ({ ...followed.facts(parts.facts()), ...(cluster && { cluster: cluster.facts.facts() }) });

  function wakeAll(): void {
    loop.forgive();
    for (const { uid } of desired.all()) wake(uid);
    observed.wakeAll();
  }

  const followed = withRuntimeStory(observed, runtime, node.runtimeAway);

  function meetRuntime(): void {
    node.runtimeReady();
    desired.judge();
    wakeAll();
  }

  const loop = createLoop({
    clock,
    settings: () => ({ ...settingsNow(), runtimeName: followed.runtimeName() }),
    startPlaces: parts.startPlaces,
    rooms: joinRooms(
      { desired, observed, probes, stories, cluster, stir: rest.stir, log },
      createActing({ ...parts, facts: factsNow }, observed, { images, ...access }, async (uid) => {
        await cluster?.secured(uid);
      }),
    ),
  });

  async function run(signal: AbortSignal): Promise<void> {
    await desired.restore();
    rest.stir();
    await Promise.all([
      followRuntime({ runtime, pods: followed, images, clock, log, complete: meetRuntime }, signal),
      ...parts.sources.map(({ follow }) => follow(desired, signal)),
      cluster?.follow(signal),
    ]);
    rest.end();
    await Promise.all([loop.stop(), probes.stop()]);
  }

  return { desired, stories, node, cluster, run, wakeAll, settled: loop.settled };
}

/** The node as pods are held against it, and who knows of it. */
function admissionOf(
  { admittingNode, settings }: AgentParts,
  { isBegun }: ObservedPods,
  known: () => { readonly cluster: Cluster | undefined; readonly features: RuntimeFeatures | undefined },
) {
  return {
    node: () => admittingNode(known().cluster?.ownNode.latest()),
    askForNode: async () => (await known().cluster?.ownNode.ask()) ?? true,
    isBegun,
    canLeaveOutGroups: () => known().features?.supplementalGroupsPolicy,
    allowedUnsafeSysctls: settings().allowedUnsafeSysctls,
  };
}

interface Joined {
  readonly desired: DesiredPods;
  readonly observed: ObservedPods;
  readonly probes: Probes;
  readonly stories: PodStories;
  readonly cluster: Cluster | undefined;
  readonly stir: () => void;
  readonly log: Log;
}

/** What the loop asks of the rooms, and who of them hears of it. */
function joinRooms({ desired, observed, probes, stories, cluster, stir, log }: Joined, act: Rooms["act"]): Rooms {
  const blindness = createBlindness(log, (uid, event) => {
    const wanted = desired.get(uid);
    if (wanted !== undefined && wanted !== "unknown") cluster?.tell(uid, fullNameOf(wanted.pod), event);
  });
  return {
    desired: desired.get,
    observe: observed.observe,
    explain,
    report(uid, wanted, status, stage, obstacle) {
      if (!isUnseen(status)) blindness.forget(uid);
      desired.reported(wanted, status);
      if (stage !== "syncing") probes.ending(uid);
      stories.report(uid, wanted, status, stage, obstacle);
      cluster?.report(wanted, status, stage);
    },
    begins(beginning) {
      stories.begins(beginning);
      cluster?.begins(beginning);
    },
    took(taken) {
      stir();
      stories.took(taken);
      cluster?.took(taken);
    },
    blind: blindness.tell,
    finished(uid) {
      blindness.forget(uid);
      observed.forget(uid);
      stories.finished(uid);
      cluster?.finished(uid);
      void desired.finished(uid);
    },
    act,
  };
}

/** Each look at a pod brings its links up to date, so whoever died before one was made, the next look makes it. */
function withLogLinks(observed: ObservedPods, links: LogLinks): ObservedPods {
  return {
    ...observed,
    async observe(uid, desired) {
      const pod = await observed.observe(uid, desired);
      await links.keep(pod);
      return pod;
    },
    async audit() {
      await Promise.all([observed.audit(), links.audit()]);
    },
  };
}

function sizeOf(images: ObservedImages): (image: string) => Promise<number | undefined> {
  return async (image) => {
    const presence = await images.presence(image);
    return presence.present === true ? presence.sizeBytes : undefined;
  };
}

/** Acts, and notes what was touched: it is read again before anything else is decided. A failed call may have touched anything. */
function createActing(
  parts: AgentParts,
  observed: ObservedPods,
  { images, records, providers }: Pick<ImageAccess, "records" | "providers"> & { readonly images: ObservedImages },
  secured: (uid: PodUid) => Promise<void>,
): Rooms["act"] {
  const { runtime, clock, disk, mountsBelow, facts, loginFiles, idSpace } = parts;
  const pulls = createSharedPulls(createPullQueue({ clock, ...parts.pulls }));
  const userNamespaces = createUserNamespaces(disk.root, idSpace);
  const settings = { runtime, clock, disk, mountsBelow, facts, pulls, loginFiles, providers, records, userNamespaces };
  const teardowns = createLimiter({ clock, places: parts.startPlaces, stuckAfterMs: STUCK_AFTER_MS });
  const actNow = (scene: ActScene, action: Action, signal: AbortSignal) => {
    const work = () => act(settings, scene, action, signal);
    // Stops wait for grace periods and may be many; what costs the machine work ends sooner a few at a time, and sooner yet when
    // what was begun is brought to its end before something else is begun.
    if (action.kind === "stopSandbox") return teardowns.run(work, signal);
    return action.kind === "removeSandbox" ? teardowns.run(work, signal, true) : work();
  };
  return async (uid, desired, seen, action, { signal, began }) => {
    if (action.kind === "removeSandbox" || action.kind === "removeContainer") await secured(uid);
    // A hook may run long after its container has ended by itself.
    const stopping = action.kind === "stopContainer" && action.preStop !== true ? action.id : undefined;
    observed.mutating(uid, stopping);
    try {
      const done = await actNow({ uid, desired, observed: seen, began }, action, signal);
      observed.mutated(uid, touchedBy(action, done, desired?.pod, clock.now()), stopping);
      return done;
    } catch (error) {
      observed.mutated(uid, { kind: "everything" }, stopping);
      if (action.kind === "createContainer") images.doubt();
      throw error;
    } finally {
      if (action.kind === "pullImage") images.doubt(action.image);
    }
  };
}

/** What of the pod an action that succeeded has changed. */
function touchedBy(action: Action, { sandboxId, containerId }: Done, pod: Pod | undefined, now: number): Touched {
  switch (action.kind) {
    case "prepareVolumes":
      return { kind: "madeFiles", hasVolumes: pod?.spec.volumes?.some(({ emptyDir }) => emptyDir) === true };
    case "removeVolumes":
    case "releaseIds":
    case "removePodFiles":
      return { kind: "files" };
    case "pullImage":
      return { kind: "nothing" };
    case "runSandbox":
      if (sandboxId === undefined) return { kind: "everything" };
      return { kind: "sandbox", id: sandboxId, hasIds: pod?.spec.hostUsers === false };
    case "createContainer": {
      const container = pod && containerNamed(pod, action.name);
      if (containerId === undefined || container === undefined) return { kind: "everything" };
      return { kind: "made", container: madeContainer(action, containerId, container, now) };
    }
    case "startContainer": {
      const hook = pod && containerNamed(pod, action.name)?.lifecycle?.postStart;
      if (hook === undefined) return { kind: "container", id: action.id };
      return { kind: "hook", id: action.id, instance: instanceKey(action), isPending: true };
    }
    case "runHook":
      return { kind: "hook", id: action.id, instance: instanceKey(action), isPending: false };
    case "runPreStop":
    case "stopContainer":
      return { kind: "container", id: action.id };
    case "stopSandbox":
    case "removeSandbox":
      return { kind: "sandbox", id: action.id };
    case "removeContainer":
      return { kind: action.isCleared === true ? "marked" : "container", id: action.id };
  }
}

/** A container as it is right after CreateContainer has answered: made of what we asked for, and not started. */
function madeContainer(
  { name, sandboxId, attempt, imageRef, crashes }: Extract<Action, { kind: "createContainer" }>,
  id: ContainerId,
  container: Container,
  now: number,
): ObservedContainer {
  const { image = "" } = container;
  const hash = containerHash(container);
  return { state: "created", id, name, sandboxId, attempt, createdAt: now, image, imageRef, hash, crashes };
}
