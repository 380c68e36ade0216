import type { Runtime } from "../../cri/runtime.ts";
import type { Clock } from "../../host/clock.ts";
import type { ContainerId, PodUid, SandboxId } from "../../proto/ids.ts";
import { containerNamed, isEphemeral } from "../../proto/kubernetes/containers.ts";
import type { EphemeralContainer, Pod } from "../../proto/kubernetes/gen/types.ts";
import { unsupportedBy, unsupportedBySandbox, unsupportedByVolumes } from "../decide/admission/unsupported-features.ts";
import { containerHash } from "../decide/container/container-hash.ts";
import { imageOf } from "../decide/container/image.ts";
import type { Action } from "../decide/pod/action.ts";
import type { DesiredPod } from "../decide/pod/desired.ts";
import { instanceKey, newestOf, type ObservedPod } from "../decide/pod/observed.ts";
import { qosClassOf } from "../decide/status/qos.ts";
import { containerConfig } from "../translate/container-config.ts";
import { podLogFolder } from "../translate/log-path.ts";
import type { NodeFacts } from "../translate/node-facts.ts";
import { runtimeHandlerOf } from "../translate/runtime-handler.ts";
import { sandboxConfig } from "../translate/sandbox-config.ts";
import { checkOwnUsers, hasOwnUsers, type IdRange } from "../translate/security/user-namespace.ts";
import { TranslateError } from "../translate/translate-error.ts";
import { clearedMark, containerFolder, isPathPart, postStartMark } from "../translate/volumes/paths.ts";
import { readEnvFiles } from "./env-files.ts";
import { markPostStart, runPostStart, runPreStop, stopContainer } from "./hooks/lifecycle-hooks.ts";
import { makeHostsFile } from "./hosts-file.ts";
import type { CredentialProviders } from "./images/credential-providers.ts";
import type { LoginFiles } from "./images/docker-config.ts";
import type { ImageRecords } from "./images/image-records.ts";
import { pullImage } from "./images/pull.ts";
import type { SharedPulls } from "./images/pull-coalescer.ts";
import { refuseLinksToLog, removeInstanceLogs } from "./logs/container-logs.ts";
import { makeTerminationLog, removeTerminationLog } from "./termination-log.ts";
import type { UserNamespaces } from "./user-namespaces.ts";
import { type PodDisk, prepareVolumes, removePodFiles, removeVolumes } from "./volumes/pod-volumes.ts";

/** What an action brought forth. */
export interface Done {
  readonly imageRef?: string;
  readonly sandboxId?: SandboxId;
  readonly containerId?: ContainerId;
  readonly hookFailure?: string;
  readonly askedInPlainText?: string;
}

export interface ActSettings {
  readonly runtime: Runtime;
  readonly clock: Clock;
  readonly disk: PodDisk;
  readonly mountsBelow: (path: string) => Promise<readonly string[]>;
  readonly pulls: SharedPulls;
  readonly loginFiles: LoginFiles;
  /** Programs that give logins for registries; undefined where the node has none. */
  readonly providers: CredentialProviders | undefined;
  /** Undefined where nobody has to show a right to an image that is here. */
  readonly records: ImageRecords | undefined;
  readonly facts: () => NodeFacts;
  readonly userNamespaces: UserNamespaces;
}

/** The pod that an action is for; `desired` is undefined where nobody asks for it any more. */
export interface ActScene {
  readonly uid: PodUid;
  readonly desired: DesiredPod | undefined;
  readonly observed: ObservedPod;
  /** Called when an action that may have to wait for others of its kind waits no more. */
  readonly began: () => void;
}

/**
 * Carries out one action by one outside call. Holds no policy: never asks whether, only how. Rejects with the error class of
 * whatever failed (`CriError`, `FilesError`, `TranslateError`).
 */
export async function act(settings: ActSettings, scene: ActScene, action: Action, signal: AbortSignal): Promise<Done> {
  const { runtime, disk, mountsBelow, userNamespaces } = settings;
  switch (action.kind) {
    case "prepareVolumes":
      refuse("FailedMount", unsupportedByVolumes(podOf(scene)));
      await prepareVolumes(disk, podOf(scene));
      return {};
    case "pullImage":
      return { imageRef: await pullImage(pullSettings(settings), { ...scene, ...action, pod: podOf(scene) }, signal) };
    case "runSandbox":
      return { sandboxId: await runSandbox(settings, scene, action, signal) };
    case "createContainer":
      return { containerId: await createContainer(settings, scene, action, signal) };
    case "startContainer":
      await startContainer(settings, scene, action, signal);
      return {};
    case "runHook":
      return await runPostStart(hookSettings(settings), { ...scene, pod: scene.desired?.pod }, action, signal);
    case "runPreStop":
      return await runPreStop(hookSettings(settings), { ...scene, pod: scene.desired?.pod }, action, signal);
    case "stopContainer":
      return await stopContainer(hookSettings(settings), { ...scene, pod: scene.desired?.pod }, action, signal);
    case "removeContainer":
      await removeWordsOf(disk, scene, action);
      if (action.isCleared === true) await markCleared(disk.root, scene, action);
      await runtime.removeContainer(action.id, { signal });
      return {};
    case "stopSandbox":
      await runtime.stopPodSandbox(action.id, { signal });
      return {};
    case "removeSandbox":
      await runtime.removePodSandbox(action.id, { signal });
      return {};
    case "removeVolumes":
      await removeVolumes(disk, mountsBelow, scene.uid);
      return {};
    case "releaseIds":
      await userNamespaces.release(scene.uid);
      return {};
    case "removePodFiles":
      await removePodFiles(disk, mountsBelow, { uid: scene.uid, logFolder: logFolderOf(scene) });
      await userNamespaces.forget(scene.uid);
      return {};
  }
}

const pullSettings = ({ runtime, pulls, disk: { machine }, loginFiles, providers, records, facts }: ActSettings) => {
  return { runtime, pulls, machine, loginFiles, providers, records, facts };
};
const hookSettings = ({ runtime, clock, disk: { root }, facts }: ActSettings) => ({ runtime, clock, root, facts });

async function runSandbox(
  { runtime, facts, userNamespaces }: ActSettings,
  scene: ActScene,
  action: Extract<Action, { kind: "runSandbox" }>,
  signal: AbortSignal,
): Promise<SandboxId> {
  const [pod, node] = [podOf(scene), facts()];
  refuse("CreatePodSandboxError", unsupportedBySandbox(pod));
  const handler = runtimeHandlerOf(pod, node);
  if (hasOwnUsers(pod)) checkOwnUsers(handler, node.handlersWithUsers ?? new Map());
  const config = sandboxConfig(pod, action, node, await idsOf(userNamespaces, pod));
  return await runtime.runPodSandbox(config, handler, { signal });
}

/** The ids of a pod with users of its own; recorded before its sandbox is made, so that they stay the same for all of its life. */
async function idsOf(userNamespaces: UserNamespaces, pod: Pod): Promise<IdRange | undefined> {
  return hasOwnUsers(pod) ? await userNamespaces.take(pod.metadata.uid ?? "") : undefined;
}

async function startContainer(
  { runtime, disk }: ActSettings,
  { desired }: ActScene,
  { id, name, attempt }: Extract<Action, { kind: "startContainer" }>,
  signal: AbortSignal,
): Promise<void> {
  const container = desired && containerNamed(desired.pod, name);
  if (desired !== undefined && container?.lifecycle?.postStart !== undefined)
    await markPostStart(disk.root, desired.pod, container, attempt);
  await runtime.startContainer(id, { signal });
}

const FIRST_SANDBOX = { attempt: 0, crashes: 0 };

function podOf({ uid, desired }: Pick<ActScene, "uid" | "desired">): Pod {
  if (desired === undefined) throw new Error(`pod ${uid} is not wanted; nothing can be started for it`);
  return desired.pod;
}

/** A pod found only by its folder has no name; its logs, if any, are found by theirs. */
function logFolderOf({ uid, desired, observed: { namespace, name } }: ActScene): string | undefined {
  if (desired !== undefined) return podLogFolder(desired.pod);
  return name === "" ? undefined : podLogFolder({ metadata: { namespace, name, uid } });
}

/** Logs and last words go first: as long as the container is there, what is left of them is asked for again. */
async function removeWordsOf(
  { logs, root }: PodDisk,
  scene: ActScene,
  { name, id }: Extract<Action, { kind: "removeContainer" }>,
): Promise<void> {
  const folder = logFolderOf(scene);
  const instances = scene.observed.containers.filter((each) => each.name === name);
  const attempt = instances.find((each) => each.id === id)?.attempt;
  const others = instances.filter((each) => each.id !== id).map((each) => each.attempt);
  // Where a name can be no folder's, nobody has made a file of it.
  if (attempt === undefined || !isPathPart(name)) return;
  if (folder !== undefined) await removeInstanceLogs(logs, folder, { name, attempt, others });
  await removeTerminationLog(root, { uid: scene.uid, container: name, attempt });
  if (scene.observed.pendingHooks.has(instanceKey({ name, attempt })))
    await root.remove(postStartMark(scene.uid, name, attempt));
}

/** Whoever comes after us knows by it that the container is to begin anew. Of one container the last mark is enough. */
async function markCleared(
  root: PodDisk["root"],
  { uid, observed }: ActScene,
  { name, id }: Extract<Action, { kind: "removeContainer" }>,
): Promise<void> {
  const newest = newestOf(observed, name);
  const before = observed.clearedAttempts.get(name);
  if (newest?.id !== id || newest.attempt <= (before ?? -1)) return;
  await root.makeFolder(containerFolder(uid, name), 0o750);
  await root.makeFile(clearedMark(uid, name, newest.attempt), 0o600);
  if (before !== undefined) await root.remove(clearedMark(uid, name, before));
}

async function createContainer(
  { runtime, disk, facts, userNamespaces }: ActSettings,
  scene: ActScene,
  action: Extract<Action, { kind: "createContainer" }>,
  signal: AbortSignal,
): Promise<ContainerId> {
  const pod = podOf(scene);
  const container = containerOf(pod, action.name);
  const image = scene.observed.images.get(imageOf(container));
  const node = facts();
  const { attempt, crashes, podIPs, imageRef, sandboxId } = action;
  const sandbox = scene.observed.sandboxes.find(({ id }) => id === sandboxId);
  const targetId = targetOf(scene, container);
  const ids = await idsOf(userNamespaces, pod);
  const config = containerConfig({
    pod,
    container,
    ...(targetId === undefined ? {} : { targetId }),
    ...(ids && { ids }),
    attempt,
    crashes,
    podIPs,
    imageRef,
    hash: containerHash(container),
    qosClass: qosClassOf(pod),
    imageUser: image?.present === true ? image.user : { uid: undefined, username: "" },
    files: await readEnvFiles(disk.root, pod, container),
    facts: node,
  });
  await refuseLinksToLog(disk.logs, pod, container.name, attempt);
  await makeTerminationLog(disk.root, pod, container, attempt);
  await makeHostsFile(disk, pod, container, podIPs, node);
  const ofSandbox = sandboxConfig(pod, sandbox ?? FIRST_SANDBOX, node, ids);
  return await runtime.createContainer(sandboxId, config, ofSandbox, { signal });
}

/** Throws `TranslateError` where this release lacks something that a pod cannot do without. */
function refuse(reason: TranslateError["reason"], unsupported: readonly string[]): void {
  if (unsupported.length > 0)
    throw new TranslateError(reason, `not supported by this release yet: ${unsupported.join(", ")}`);
}

/** The container whose processes an ephemeral one is to see. */
function targetOf({ observed }: ActScene, { targetContainerName }: EphemeralContainer): ContainerId | undefined {
  if (!targetContainerName) return undefined;
  const target = newestOf(observed, targetContainerName)?.id;
  if (target === undefined)
    throw new TranslateError("CreateContainerConfigError", `unable to find target container ${targetContainerName}`);
  return target;
}

function containerOf(pod: Pod, name: string): NonNullable<ReturnType<typeof containerNamed>> {
  const container = containerNamed(pod, name);
  if (container === undefined)
    throw new TranslateError("CreateContainerConfigError", `the pod has no container ${name}`);
  if (isEphemeral(pod, name)) refuse("CreateContainerConfigError", unsupportedBy(container));
  return container;
}
