import { onAbort } from "../host/async/abort.ts";
import type { Clock } from "../host/clock.ts";
import { CgroupError, ownCgroupError } from "./error.ts";
import { readIsPopulated, watchIsPopulated } from "./events.ts";
import type { CgroupFiles } from "./files.ts";

/** The folders of cgroup v2. Paths are absolute. */
export interface CgroupTree {
  /** Makes the folders, of which each is below the one before it, and enables the controllers in those above the last. */
  make(folders: readonly string[]): Promise<void>;
  /** Enables those of the controllers that the root has, in the folders above the last one, from the top down. Makes none. */
  enable(folders: readonly string[], controllers: readonly string[]): Promise<void>;
  exists(folder: string): boolean;
  /** Whether it exists with the controllers that pods need, as far as the root has them. */
  hasControllers(folder: string): boolean;
  /** The controllers that the root has and pods use. */
  offered(): readonly string[];
  /** Kills the processes of a cgroup and of those below, and waits until they have ended. Success if absent. */
  killProcesses(folder: string, signal?: AbortSignal): Promise<void>;
  /** Removes a cgroup and those below, bottom-up, after it has killed what still runs in them. Success if absent. */
  remove(folder: string, signal?: AbortSignal): Promise<void>;
}

export interface CgroupTreeDeps {
  /** Where cgroup v2 is mounted. */
  readonly root: string;
  readonly files: CgroupFiles;
  readonly clock: Clock;
  /** How long killed processes may take to end. */
  readonly killTimeoutMs: number;
}

/** The controllers of limits and stats. A cgroup without `io` serves pods, too. */
const USED = ["cpu", "cpuset", "memory", "hugetlb", "pids", "io"] as const;
/** Those without which a cgroup does not serve pods. Rule: the kubelet's getSupportedUnifiedControllers. */
const POD_CONTROLLERS: readonly string[] = USED.filter((name) => name !== "io");

/** How often a removal begins again because a process or a cgroup has appeared meanwhile. */
const MAX_REMOVALS = 3;

export function createCgroupTree(deps: CgroupTreeDeps): CgroupTree {
  const { root, files } = deps;
  const words = (file: string) => files.read(file)?.split(" ");

  function offered(): readonly string[] {
    const file = `${root}/cgroup.controllers`;
    const found = words(file);
    if (found === undefined)
      throw new CgroupError("ENOENT", file, undefined, `${file} does not exist: cgroup v2 is not mounted at ${root}`);
    return USED.filter((name) => found.includes(name));
  }

  async function enableControllers(folder: string, wanted: readonly string[]): Promise<void> {
    const file = `${folder}/cgroup.subtree_control`;
    const enabled = words(file) ?? [];
    const missing = wanted.filter((name) => !enabled.includes(name));
    if (missing.length > 0) await files.write(file, missing.map((name) => `+${name}`).join(" "));
  }

  return {
    async make(folders) {
      const wanted = offered();
      let parent = root;
      for (const folder of folders) {
        await enableControllers(parent, wanted);
        if (files.read(`${folder}/cgroup.controllers`) === undefined) await files.makeFolder(folder);
        parent = folder;
      }
    },
    async enable(folders, controllers) {
      const wanted = offered().filter((name) => controllers.includes(name));
      for (const folder of [root, ...folders.slice(0, -1)]) await enableControllers(folder, wanted);
    },
    exists: (folder) => files.read(`${folder}/cgroup.controllers`) !== undefined,
    hasControllers(folder) {
      const found = words(`${folder}/cgroup.controllers`);
      return found !== undefined && offered().every((name) => !POD_CONTROLLERS.includes(name) || found.includes(name));
    },
    offered,
    killProcesses: (folder, signal) => killProcesses(deps, folder, signal),
    async remove(folder, signal) {
      for (let removals = 1; ; removals++) {
        await killProcesses(deps, folder, signal);
        try {
          return await removeFolders(files, folder);
        } catch (error) {
          const isInUse = error instanceof CgroupError && error.code === "EBUSY";
          if (!isInUse || removals === MAX_REMOVALS) throw error;
        }
      }
    },
  };
}

async function removeFolders(files: CgroupFiles, folder: string): Promise<void> {
  for (const name of files.folders(folder) ?? []) await removeFolders(files, `${folder}/${name}`);
  await files.removeFolder(folder);
}

async function killProcesses(
  { files, clock, killTimeoutMs }: CgroupTreeDeps,
  folder: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  signal?.throwIfAborted();
  if (readIsPopulated(files, folder) !== true) return;
  const ended = Promise.withResolvers<void>();
  const settled = new AbortController();
  const removeListener = onAbort(signal, () => ended.reject(signal?.reason));
  const cancelTimer = clock.wakeAt(clock.now() + killTimeoutMs, () =>
    ended.reject(
      ownCgroupError(
        "ETIMEDOUT",
        folder,
        undefined,
        `cannot remove ${folder}: its processes were killed and have not ended within ${killTimeoutMs / 1000} s`,
      ),
    ),
  );
  try {
    const check = (isPopulated: boolean | undefined) => {
      if (isPopulated !== true) ended.resolve();
    };
    // Before the kill, so that no event is lost.
    watchIsPopulated({ files, clock }, folder, check, settled.signal);
    // The kernel does not notify that another program removes the cgroup meanwhile.
    const killed = kill(files, folder).then(() => check(readIsPopulated(files, folder)));
    await Promise.all([killed, ended.promise]);
  } finally {
    cancelTimer();
    removeListener();
    settled.abort();
  }
}

/** Kernels before 5.14 have no `cgroup.kill`. There, frozen processes start no others, and SIGKILL ends them. */
async function kill(files: CgroupFiles, folder: string): Promise<void> {
  if (await wroteIfPresent(files, `${folder}/cgroup.kill`, "1")) return;
  await wroteIfPresent(files, `${folder}/cgroup.freeze`, "1");
  const killed = new Set<number>();
  for (;;) {
    const found = processesIn(files, folder).filter((pid) => !killed.has(pid));
    if (found.length === 0) return;
    for (const pid of found) {
      killed.add(pid);
      files.kill(pid);
    }
  }
}

function processesIn(files: CgroupFiles, folder: string): readonly number[] {
  const own = (files.read(`${folder}/cgroup.procs`) ?? "").split("\n").map(Number);
  const below = (files.folders(folder) ?? []).flatMap((name) => processesIn(files, `${folder}/${name}`));
  // 0 is a process of another pid namespace, which cannot be killed from here.
  return [...own.filter((pid) => pid > 0), ...below];
}

async function wroteIfPresent(files: CgroupFiles, file: string, value: string): Promise<boolean> {
  try {
    await files.write(file, value);
    return true;
  } catch (error) {
    if (error instanceof CgroupError && error.code === "ENOENT") return false;
    throw error;
  }
}
