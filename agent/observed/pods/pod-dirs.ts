import type { Files } from "../../../host/fs/files.ts";
import type { PodUid } from "../../../proto/ids.ts";
import {
  formatLogDir,
  PODS_DIR,
  parseInstanceMark,
  parseLogDir,
  SUB_PATHS_DIR,
  USER_NAMESPACE_FILE,
  volumeDeviceOf,
  volumePluginDirs,
} from "../../../proto/kubelet/pod-dirs.ts";
import { attemptOfLog } from "../../decide/container/log-file-name.ts";
import { instanceKey, type ProbeMark } from "../../decide/pod/observed.ts";
import type { PodResource } from "../../decide/pod/resources.ts";
import type { Owner } from "./from-cri.ts";

export interface PodDirContents {
  readonly resources: readonly PodResource[];
  readonly loggedAttempts: ReadonlyMap<string, number>;
  /** By `instanceKey`. */
  readonly pendingPostStartHooks: ReadonlySet<string>;
  /** By `instanceKey`. */
  readonly endedPreStopHooks: ReadonlySet<string>;
  readonly removedAttempts: ReadonlyMap<string, number>;
  readonly probeMarks: readonly ProbeMark[];
}

/** Reads the directories of pods below the root directory and the log directory. */
export interface PodDirReader {
  read(pod: Owner): Promise<PodDirContents>;
  /**
   * The pods that have a directory below `pods/` or a log directory; anything else there is not ours to remove. Only
   * the name of a log directory contains namespace and name: without one, both are empty.
   */
  list(): Promise<readonly Owner[]>;
}

/** `root` is the agent's root directory, `logs` its `podLogsDir`. */
export function createPodDirReader(root: Files, logs: Files): PodDirReader {
  return {
    async read(pod) {
      const podDir = `${PODS_DIR}/${pod.uid}`;
      const logDir = formatLogDir(pod);
      const [found, containers] = await Promise.all([root.stat(podDir), logs.list(logDir)]);
      const attempts = await Promise.all(
        (containers ?? [])
          .filter(({ kind }) => kind === "directory")
          .map(async (each) => [each.name, await newestLog(logs, `${logDir}/${each.name}`)] as const),
      );
      return {
        resources: [
          ...(found === undefined ? [] : await readResources(root, podDir)),
          ...(containers === undefined ? [] : [{ of: "logDir" } as const]),
        ],
        ...(found === undefined ? emptyMarks() : await readMarks(root, `${podDir}/containers`)),
        loggedAttempts: new Map(
          attempts.flatMap(([container, n]) => (n === undefined ? [] : [[container, n] as const])),
        ),
      };
    },
    async list() {
      const [podDirs, logDirs] = await Promise.all([directoriesOf(root, PODS_DIR), directoriesOf(logs, ".")]);
      const logged = logDirs.flatMap(ownerOfLogs);
      const known = new Set<string>(logged.map(({ uid }) => uid));
      const withoutName = podDirs.filter((name) => isUidLike(name) && !known.has(name));
      return [...logged, ...withoutName.map((uid) => ({ uid: uid as PodUid, namespace: "", name: "" }))];
    },
  };
}

const knownPluginDirs: ReadonlySet<string> = new Set(Object.values(volumePluginDirs));

/**
 * The resources of a pod that has a directory: the ids of its user namespace, each volume with a directory or a symlink
 * to its block device, and the mounts of `subPath`.
 */
async function readResources(root: Files, podDir: string): Promise<readonly PodResource[]> {
  const [ids, subPaths, devices, pluginDirs] = await Promise.all([
    root.stat(`${podDir}/${USER_NAMESPACE_FILE}`),
    root.stat(`${podDir}/${SUB_PATHS_DIR}`),
    root.list(`${podDir}/${volumeDeviceOf(volumePluginDirs.local, "")}`),
    directoriesOf(root, `${podDir}/volumes`),
  ]);
  const known = pluginDirs.filter((pluginDir) => knownPluginDirs.has(pluginDir));
  const volumes = await Promise.all(known.map((pluginDir) => directoriesOf(root, `${podDir}/volumes/${pluginDir}`)));
  return [
    { of: "podDirs" },
    ...(ids === undefined ? [] : [{ of: "userIds" } as const]),
    ...[...volumes.flat(), ...(devices ?? []).map(({ name }) => name)].map((name) => ({ of: "volume", name }) as const),
    ...(subPaths === undefined ? [] : [{ of: "subPaths" } as const]),
  ];
}

/**
 * Reads the marker files. `post-start`: the hook is due; `act` creates the mark before the start and removes it after the
 * hook's success. `pre-stop`: the hook has ended; the mark stays until the instance is removed. `cleared`: the last
 * instance that RestartAllContainers removed. `started`, `ready`: by its probes.
 */
async function readMarks(root: Files, folder: string): Promise<ReturnType<typeof emptyMarks>> {
  const marks = emptyMarks();
  for (const name of await directoriesOf(root, folder))
    for (const { name: file } of (await root.list(`${folder}/${name}`)) ?? []) {
      const found = parseInstanceMark(file);
      if (found !== undefined) addMark(marks, name, found);
    }
  return marks;
}

function addMark(
  { pendingPostStartHooks, endedPreStopHooks, removedAttempts, probeMarks }: ReturnType<typeof emptyMarks>,
  name: string,
  { mark, attempt }: NonNullable<ReturnType<typeof parseInstanceMark>>,
): void {
  switch (mark) {
    case "post-start":
      pendingPostStartHooks.add(instanceKey({ name, attempt }));
      break;
    case "pre-stop":
      endedPreStopHooks.add(instanceKey({ name, attempt }));
      break;
    case "cleared":
      removedAttempts.set(name, Math.max(attempt, removedAttempts.get(name) ?? -1));
      break;
    case "started":
    case "ready":
      probeMarks.push({ mark, name, attempt });
      break;
  }
}

const emptyMarks = () => ({
  pendingPostStartHooks: new Set<string>(),
  endedPreStopHooks: new Set<string>(),
  removedAttempts: new Map<string, number>(),
  probeMarks: [] as ProbeMark[],
});

async function directoriesOf(files: Files, path: string): Promise<readonly string[]> {
  return ((await files.list(path)) ?? []).filter(({ kind }) => kind === "directory").map(({ name }) => name);
}

function ownerOfLogs(folder: string): readonly Owner[] {
  const owner = parseLogDir(folder);
  return owner !== undefined && isUidLike(owner.uid) ? [{ ...owner, uid: owner.uid as PodUid }] : [];
}

/**
 * Uids are UUIDs or, for manifests, 32 hexadecimal digits. A manifest may set a shorter one; that pod is known by its
 * checkpoint. If that is lost, a leftover directory does less harm than an administrator's `old` or `lost+found`
 * removed as a pod.
 */
function isUidLike(name: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._-]{7,127}$/.test(name);
}

/** Whether the lists of directories and of cgroups find a pod by its uid: slices of systemd do not keep `.` and `_`. */
export const isFoundByLists = (uid: PodUid): boolean => isUidLike(uid) && !/[._]/.test(uid);

/** The highest N of the files `N.log` in a container's log folder, as `restartCount` counts. */
async function newestLog(logs: Files, folder: string): Promise<number | undefined> {
  const numbers = ((await logs.list(folder)) ?? []).flatMap(({ name }) => attemptOfLog(name) ?? []);
  return numbers.length === 0 ? undefined : Math.max(...numbers);
}
