import type { Files } from "../../../host/fs/files.ts";
import type { PodUid } from "../../../proto/ids.ts";
import { attemptOfLog } from "../../decide/container/log-file-name.ts";
import { instanceKey } from "../../decide/pod/observed.ts";
import type { Owner } from "./from-cri.ts";

export interface FoundFiles {
  readonly exist: boolean;
  /** There is a record of ids for users of the pod's own. */
  readonly hasIds: boolean;
  readonly hasVolumes: boolean;
  readonly loggedAttempts: ReadonlyMap<string, number>;
  /** By `instanceKey`. */
  readonly pendingHooks: ReadonlySet<string>;
  readonly clearedAttempts: ReadonlyMap<string, number>;
}

/** What is on the disk of a pod. */
export interface PodFiles {
  look(pod: Owner): Promise<FoundFiles>;
  /**
   * The pods that have a folder below `pods/` or one of logs; what else stands there is not ours to remove. Only the latter
   * tells namespace and name: without it, both are empty.
   */
  owners(): Promise<readonly Owner[]>;
}

/** The layout is the kubelet's (see translate/volumes.ts). */
const EMPTY_DIRS = "volumes/kubernetes.io~empty-dir";

/** `root` is the agent's root directory, `logs` its `podLogsDir`. */
export function createPodFiles(root: Files, logs: Files): PodFiles {
  return {
    async look({ uid, namespace, name }) {
      const [folder, containers] = await Promise.all([
        root.stat(`pods/${uid}`),
        logs.list(`${namespace}_${name}_${uid}`),
      ]);
      const attempts = await Promise.all(
        (containers ?? [])
          .filter(({ kind }) => kind === "directory")
          .map(async (each) => [each.name, await newestLog(logs, `${namespace}_${name}_${uid}/${each.name}`)] as const),
      );
      const exists = async (path: string) =>
        folder !== undefined && (await root.stat(`pods/${uid}/${path}`)) !== undefined;
      const [hasIds, hasVolumes] = await Promise.all([exists("userns"), exists(EMPTY_DIRS)]);
      return {
        exist: folder !== undefined || containers !== undefined,
        hasIds,
        hasVolumes,
        ...(folder === undefined ? noMarks() : await marksOf(root, `pods/${uid}/containers`)),
        loggedAttempts: new Map(
          attempts.flatMap(([container, n]) => (n === undefined ? [] : [[container, n] as const])),
        ),
      };
    },
    async owners() {
      const [folders, logFolders] = await Promise.all([foldersOf(root, "pods"), foldersOf(logs, ".")]);
      const logged = logFolders.flatMap(ownerOfLogs);
      const known = new Set<string>(logged.map(({ uid }) => uid));
      const nameless = folders.filter((name) => looksLikeUid(name) && !known.has(name));
      return [...logged, ...nameless.map((uid) => ({ uid: uid as PodUid, namespace: "", name: "" }))];
    },
  };
}

/**
 * Each instance whose hook is due has a mark, which `act/hook.ts` makes before the start and removes after the hook's success; so has the last
 * one that was removed to begin anew (`act/act.ts`).
 */
async function marksOf(root: Files, folder: string): Promise<ReturnType<typeof noMarks>> {
  const marks = noMarks();
  const { pendingHooks, clearedAttempts } = marks;
  for (const name of await foldersOf(root, folder))
    for (const { name: file } of (await root.list(`${folder}/${name}`)) ?? []) {
      const [, kind, digits = ""] = /^(post-start|cleared)-([0-9a-f]{8})$/.exec(file) ?? [];
      const attempt = Number.parseInt(digits, 16);
      if (kind === "post-start") pendingHooks.add(instanceKey({ name, attempt }));
      if (kind === "cleared") clearedAttempts.set(name, Math.max(attempt, clearedAttempts.get(name) ?? -1));
    }
  return marks;
}

const noMarks = () => ({ pendingHooks: new Set<string>(), clearedAttempts: new Map<string, number>() });

async function foldersOf(files: Files, path: string): Promise<readonly string[]> {
  return ((await files.list(path)) ?? []).filter(({ kind }) => kind === "directory").map(({ name }) => name);
}

/** `<namespace>_<name>_<uid>`; namespaces and names have no underscore. */
function ownerOfLogs(folder: string): readonly Owner[] {
  const [, namespace = "", name = "", uid = ""] = /^([a-z0-9-]+)_([a-z0-9.-]+)_(.+)$/.exec(folder) ?? [];
  return looksLikeUid(uid) ? [{ uid: uid as PodUid, namespace, name }] : [];
}

/**
 * Uids are UUIDs or, of manifests, 32 hexadecimal digits. A manifest may choose a shorter one; that pod is known by its record,
 * and should it be lost, a folder too many does less harm than somebody's `old` or `lost+found` removed as a pod.
 */
function looksLikeUid(name: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._-]{7,127}$/.test(name);
}

/** The highest N of the files `N.log` in a container's log folder, as `restartCount` counts. */
async function newestLog(logs: Files, folder: string): Promise<number | undefined> {
  const numbers = ((await logs.list(folder)) ?? []).flatMap(({ name }) => attemptOfLog(name) ?? []);
  return numbers.length === 0 ? undefined : Math.max(...numbers);
}
