import type { Files } from "../../../host/fs/files.ts";
import type { PodUid } from "../../../proto/ids.ts";
import { attemptOfLog } from "../../decide/container/log-file-name.ts";
import { instanceKey } from "../../decide/pod/observed.ts";
import type { PodResource } from "../../decide/pod/resources.ts";
import type { Owner } from "./from-cri.ts";

export interface PodDirContents {
  readonly resources: readonly PodResource[];
  readonly loggedAttempts: ReadonlyMap<string, number>;
  /** By `instanceKey`. */
  readonly pendingPostStartHooks: ReadonlySet<string>;
  readonly removedAttempts: ReadonlyMap<string, number>;
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

/** The layout is the kubelet's (see translate/volumes.ts). */
const EMPTY_DIRS = "volumes/kubernetes.io~empty-dir";

/** `root` is the agent's root directory, `logs` its `podLogsDir`. */
export function createPodDirReader(root: Files, logs: Files): PodDirReader {
  return {
    async read({ uid, namespace, name }) {
      const [podDir, containers] = await Promise.all([
        root.stat(`pods/${uid}`),
        logs.list(`${namespace}_${name}_${uid}`),
      ]);
      const attempts = await Promise.all(
        (containers ?? [])
          .filter(({ kind }) => kind === "directory")
          .map(async (each) => [each.name, await newestLog(logs, `${namespace}_${name}_${uid}/${each.name}`)] as const),
      );
      return {
        resources: [
          ...(podDir === undefined ? [] : await readResources(root, `pods/${uid}`)),
          ...(containers === undefined ? [] : [{ of: "logDir" } as const]),
        ],
        ...(podDir === undefined ? emptyMarks() : await readMarks(root, `pods/${uid}/containers`)),
        loggedAttempts: new Map(
          attempts.flatMap(([container, n]) => (n === undefined ? [] : [[container, n] as const])),
        ),
      };
    },
    async list() {
      const [podDirs, logDirs] = await Promise.all([directoriesOf(root, "pods"), directoriesOf(logs, ".")]);
      const logged = logDirs.flatMap(ownerOfLogs);
      const known = new Set<string>(logged.map(({ uid }) => uid));
      const withoutName = podDirs.filter((name) => isUidLike(name) && !known.has(name));
      return [...logged, ...withoutName.map((uid) => ({ uid: uid as PodUid, namespace: "", name: "" }))];
    },
  };
}

/** The resources of a pod that has a directory: the ids of its user namespace, and each emptyDir. */
async function readResources(root: Files, podDir: string): Promise<readonly PodResource[]> {
  const [ids, emptyDirs] = await Promise.all([root.stat(`${podDir}/userns`), root.list(`${podDir}/${EMPTY_DIRS}`)]);
  return [
    { of: "podDirs" },
    ...(ids === undefined ? [] : [{ of: "userIds" } as const]),
    ...(emptyDirs ?? []).map(({ name }) => ({ of: "volume", name }) as const),
  ];
}

/**
 * Reads the marker files. An instance whose `postStart` hook is due has one, which `act` creates before the start and
 * removes after the hook's success; so does the last instance that was removed to restart all containers.
 */
async function readMarks(root: Files, folder: string): Promise<ReturnType<typeof emptyMarks>> {
  const marks = emptyMarks();
  const { pendingPostStartHooks, removedAttempts } = marks;
  for (const name of await directoriesOf(root, folder))
    for (const { name: file } of (await root.list(`${folder}/${name}`)) ?? []) {
      const [, kind, digits = ""] = /^(post-start|cleared)-([0-9a-f]{8})$/.exec(file) ?? [];
      const attempt = Number.parseInt(digits, 16);
      if (kind === "post-start") pendingPostStartHooks.add(instanceKey({ name, attempt }));
      if (kind === "cleared") removedAttempts.set(name, Math.max(attempt, removedAttempts.get(name) ?? -1));
    }
  return marks;
}

const emptyMarks = () => ({ pendingPostStartHooks: new Set<string>(), removedAttempts: new Map<string, number>() });

async function directoriesOf(files: Files, path: string): Promise<readonly string[]> {
  return ((await files.list(path)) ?? []).filter(({ kind }) => kind === "directory").map(({ name }) => name);
}

/** `<namespace>_<name>_<uid>`; namespaces and names have no underscore. */
function ownerOfLogs(folder: string): readonly Owner[] {
  const [, namespace = "", name = "", uid = ""] = /^([a-z0-9-]+)_([a-z0-9.-]+)_(.+)$/.exec(folder) ?? [];
  return isUidLike(uid) ? [{ uid: uid as PodUid, namespace, name }] : [];
}

/**
 * Uids are UUIDs or, for manifests, 32 hexadecimal digits. A manifest may set a shorter one; that pod is known by its
 * checkpoint. If that is lost, a leftover directory does less harm than an administrator's `old` or `lost+found`
 * removed as a pod.
 */
function isUidLike(name: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._-]{7,127}$/.test(name);
}

/** The highest N of the files `N.log` in a container's log folder, as `restartCount` counts. */
async function newestLog(logs: Files, folder: string): Promise<number | undefined> {
  const numbers = ((await logs.list(folder)) ?? []).flatMap(({ name }) => attemptOfLog(name) ?? []);
  return numbers.length === 0 ? undefined : Math.max(...numbers);
}
