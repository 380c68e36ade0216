import type { ContainerId } from "../../../proto/ids.ts";
import { containerAmounts } from "../../../proto/kubernetes/container-amounts.ts";
import { containerNamed, isEphemeral } from "../../../proto/kubernetes/containers.ts";
import type { Container, EphemeralContainer, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { fromUtf8 } from "../../../proto/utf8.ts";
import type { ContainerAction } from "../../decide/actions/container-actions.ts";
import { unsupportedInContainer } from "../../decide/admission/unsupported-features.ts";
import { containerHash } from "../../decide/container/container-hash.ts";
import { imageOf } from "../../decide/container/image.ts";
import { instanceKey, newestInstanceOf, type ObservedContainer } from "../../decide/pod/observed.ts";
import { qosClassOf } from "../../decide/status/qos.ts";
import { containerConfig } from "../../translate/container-config.ts";
import { FIRST_SANDBOX, sandboxConfig } from "../../translate/sandbox-config.ts";
import { TranslateError } from "../../translate/translate-error.ts";
import {
  containerDir,
  isPathPart,
  postStartMark,
  preStopMark,
  removedForRestartMark,
} from "../../translate/volumes/paths.ts";
import { hasSubPath, subPathsOf } from "../../translate/volumes/sub-paths.ts";
import { readEnvFiles } from "../env-files.ts";
import { markPostStart } from "../hooks/lifecycle-hooks.ts";
import { writeHostsFile } from "../hosts-file.ts";
import { rejectLogSymlinks, removeInstanceLogs } from "../logs/container-logs.ts";
import { logFolderOf } from "../logs/log-folder.ts";
import { createTerminationLog, removeTerminationLog } from "../termination-log.ts";
import { allocateIds } from "../user-namespaces.ts";
import type { NodeDirs } from "../volumes/pod-dirs.ts";
import { mountSubPaths } from "../volumes/sub-paths.ts";
import { type ActDeps, type ActInput, type Performers, podOf, refuseUnsupported } from "./performer.ts";
import { cgroupParentOf } from "./sandbox-performers.ts";

export const containerPerformers: Performers<ContainerAction> = {
  createContainer: {
    perform: async (...call) => ({ containerId: await createContainer(...call) }),
    effect(action, { containerId }, { pod, now }) {
      const container = pod && containerNamed(pod, action.name);
      if (containerId === undefined || pod === undefined || container === undefined) return { kind: "everything" };
      return { kind: "created", container: createdContainer(action, containerId, pod, container, now) };
    },
    // The image may have been removed meanwhile.
    changedImages: (_action, hasSucceeded) => (hasSucceeded ? "none" : "all"),
  },
  startContainer: {
    async perform(...call) {
      await startContainer(...call);
      return {};
    },
    effect(action, _output, { pod }) {
      const hook = pod && containerNamed(pod, action.name)?.lifecycle?.postStart;
      if (hook === undefined) return { kind: "container", id: action.id };
      return { kind: "hook", id: action.id, instance: instanceKey(action), isPending: true };
    },
  },
  removeContainer: {
    async perform({ runtime, disk }, input, action, signal) {
      await removeInstanceFiles(disk, input, action);
      if (action.isForRestartAll === true) await markRemovedForRestart(disk.root, input, action);
      await runtime.removeContainer(action.id, { signal });
      return {};
    },
    effect: ({ id, isForRestartAll }) => ({ kind: isForRestartAll === true ? "containerAndFiles" : "container", id }),
    needsSavedStatus: true,
  },
};

async function createContainer(
  { runtime, disk, mounts, networkFiles, facts, userNamespaces, cgroups }: ActDeps,
  input: ActInput,
  action: Extract<ContainerAction, { kind: "createContainer" }>,
  signal: AbortSignal,
): Promise<ContainerId> {
  const pod = podOf(input);
  const container = containerOf(pod, action.name);
  const image = input.observed.images.get(imageOf(container));
  const node = facts();
  const { attempt, crashes, podIPs, imageRef, imageVolumes = [], sandboxId } = action;
  const sandbox = input.observed.sandboxes.find(({ id }) => id === sandboxId);
  const targetId = targetContainerId(input, container);
  const ids = await allocateIds(userNamespaces, pod);
  const config = containerConfig({
    pod,
    container,
    ...(targetId === undefined ? {} : { targetId }),
    ...(ids && { ids }),
    attempt,
    crashes,
    podIPs,
    imageRef,
    volumeImages: new Map(imageVolumes.map((each) => [each.volume, each.imageRef])),
    hash: containerHash(container),
    qosClass: qosClassOf(pod),
    imageUser: image?.present === true ? image.user : { uid: undefined, username: "" },
    files: await readEnvFiles(disk.root, pod, container),
    facts: node,
  });
  await Promise.all([
    rejectLogSymlinks(disk.logs, pod, container.name, attempt),
    createTerminationLog(disk.root, pod, container, attempt),
    writeHostsFile(disk, pod, container, podIPs, node),
  ]);
  if (container.volumeMounts?.some(hasSubPath)) {
    const environment = new Map(config.envs.map(({ key, value }) => [key, fromUtf8(value)]));
    const subPaths = subPathsOf(pod, container, environment, node);
    await mountSubPaths({ disk, mounts, networkFiles }, container.name, subPaths, signal);
  }
  // A sandbox that an earlier agent ran without a cgroup of its pod keeps its containers where they are.
  const hasCgroup = input.observed.cgroup !== undefined;
  const placement = { ids, cgroupParent: hasCgroup ? cgroupParentOf(cgroups, pod) : undefined };
  const podSandboxConfig = sandboxConfig(pod, sandbox ?? FIRST_SANDBOX, node, placement);
  return await runtime.createContainer(sandboxId, config, podSandboxConfig, { signal });
}

/** A container right after CreateContainer has returned: it is what we asked for, and has not started. */
function createdContainer(
  { name, sandboxId, attempt, imageRef, crashes }: Extract<ContainerAction, { kind: "createContainer" }>,
  id: ContainerId,
  { spec }: Pod,
  container: Container,
  now: number,
): ObservedContainer {
  const { image = "", resources } = container;
  const [hash, amounts] = [containerHash(container), containerAmounts(resources, spec.resources)];
  return { state: "created", id, name, sandboxId, attempt, createdAt: now, image, imageRef, hash, crashes, amounts };
}

/** The container whose process namespace an ephemeral container joins (`targetContainerName`). */
function targetContainerId(
  { observed }: ActInput,
  { targetContainerName }: EphemeralContainer,
): ContainerId | undefined {
  if (!targetContainerName) return undefined;
  const target = newestInstanceOf(observed, targetContainerName)?.id;
  if (target === undefined)
    throw new TranslateError("CreateContainerConfigError", `unable to find target container ${targetContainerName}`);
  return target;
}

function containerOf(pod: Pod, name: string): NonNullable<ReturnType<typeof containerNamed>> {
  const container = containerNamed(pod, name);
  if (container === undefined)
    throw new TranslateError("CreateContainerConfigError", `the pod has no container ${name}`);
  if (isEphemeral(pod, name)) refuseUnsupported("CreateContainerConfigError", unsupportedInContainer(container));
  return container;
}

async function startContainer(
  { runtime, disk }: ActDeps,
  { desired }: ActInput,
  { id, name, attempt }: Extract<ContainerAction, { kind: "startContainer" }>,
  signal: AbortSignal,
): Promise<void> {
  const container = desired && containerNamed(desired.pod, name);
  if (desired !== undefined && container?.lifecycle?.postStart !== undefined)
    await markPostStart(disk.root, desired.pod, container, attempt);
  await runtime.startContainer(id, { signal });
}

/**
 * Removes the logs and the termination log before the container: while the container exists, a failed removal is
 * retried.
 */
async function removeInstanceFiles(
  { logs, root }: NodeDirs,
  input: ActInput,
  { name, id }: Extract<ContainerAction, { kind: "removeContainer" }>,
): Promise<void> {
  const folder = logFolderOf(input);
  const instances = input.observed.containers.filter((each) => each.name === name);
  const attempt = instances.find((each) => each.id === id)?.attempt;
  const others = instances.filter((each) => each.id !== id).map((each) => each.attempt);
  // A name that cannot be a path component never got any files.
  if (attempt === undefined || !isPathPart(name)) return;
  if (folder !== undefined) await removeInstanceLogs(logs, folder, { name, attempt, others });
  await removeTerminationLog(root, { uid: input.uid, container: name, attempt });
  if (input.observed.pendingPostStartHooks.has(instanceKey({ name, attempt })))
    await root.remove(postStartMark(input.uid, name, attempt));
  if (input.observed.endedPreStopHooks.has(instanceKey({ name, attempt })))
    await root.remove(preStopMark(input.uid, name, attempt));
}

/**
 * Marks on disk that RestartAllContainers removed this instance, for the next agent. Only the newest mark of a
 * container is kept.
 */
async function markRemovedForRestart(
  root: NodeDirs["root"],
  { uid, observed }: ActInput,
  { name, id }: Extract<ContainerAction, { kind: "removeContainer" }>,
): Promise<void> {
  const newest = newestInstanceOf(observed, name);
  const before = observed.removedAttempts.get(name);
  if (newest?.id !== id || newest.attempt <= (before ?? -1)) return;
  await root.makeFolder(containerDir(uid, name), 0o750);
  await root.makeFile(removedForRestartMark(uid, name, newest.attempt), 0o600);
  if (before !== undefined) await root.remove(removedForRestartMark(uid, name, before));
}
