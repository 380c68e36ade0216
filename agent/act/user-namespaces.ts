import { type Files, FilesError } from "../../host/fs/files.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import {
  formatUserNamespace,
  type IdRange,
  parseUserNamespace,
  userNamespaceFile,
  usesUserNamespace,
} from "../translate/security/user-namespace.ts";
import { allocateRange, type IdPool } from "../translate/security/user-namespace-ids.ts";
import { TranslateError } from "../translate/translate-error.ts";

/**
 * The id ranges of pods with a user namespace (`hostUsers: false`); they never overlap. Each range is recorded in its
 * pod's directory.
 */
export interface UserNamespaces {
  /** The pod's recorded range, or else a new one, which is recorded before its first use. */
  allocate(uid: string): Promise<IdRange>;
  /** Releases the range of a pod whose processes have all ended. Absent is success. */
  release(uid: string): Promise<void>;
  /** Releases the range of a pod whose directory, with the record, was removed. */
  forget(uid: string): Promise<void>;
}

const MAX_BYTES = 64 * 1024;

/**
 * `root` is the agent's root directory. `allocate` rejects with `TranslateError` if no range is left or a record is
 * unreadable; all reject with `FilesError`.
 */
export function createUserNamespaces(root: Files, pool: IdPool): UserNamespaces {
  const used = new Map<string, IdRange>();
  let last: IdRange | undefined;
  let loading: Promise<void> | undefined;

  /** Runs once; afterwards every allocation and release updates `used`. */
  async function load(): Promise<void> {
    for (const { name, kind } of (await root.list("pods")) ?? []) {
      const range = kind === "directory" ? await readRange(root, name) : undefined;
      if (range === undefined || used.has(name)) continue;
      used.set(name, range);
      if (last === undefined || range.first > last.first) last = range;
    }
  }

  async function ensureLoaded(): Promise<void> {
    loading ??= load();
    try {
      await loading;
    } catch (error) {
      // The administrator may repair the record: the next pod reads it again.
      loading = undefined;
      throw error;
    }
  }

  async function forget(uid: string): Promise<void> {
    // A running load may have read this record before its removal; its error belongs to the caller that started it.
    await loading?.catch(() => undefined);
    used.delete(uid);
  }

  return {
    async allocate(uid) {
      const recorded = await readRange(root, uid);
      if (recorded !== undefined) {
        used.set(uid, recorded);
        return recorded;
      }
      await ensureLoaded();
      // No await between here and `used.set`, so two pods never get the same range.
      const range = allocateRange(pool, used.values(), last);
      if (range === undefined)
        throw toError("create user namespace: could not find an empty slot to allocate a user namespace");
      used.set(uid, range);
      last = range;
      // If the write fails, the range stays with this pod: the record may exist already.
      await root.write(userNamespaceFile(uid), formatUserNamespace(range), 0o600);
      return range;
    },
    async release(uid) {
      await root.remove(userNamespaceFile(uid));
      await forget(uid);
    },
    forget,
  };
}

/**
 * The id range of a pod with a user namespace. It is recorded before the sandbox exists, so it stays the same for the
 * pod's lifetime.
 */
export async function allocateIds(userNamespaces: UserNamespaces, pod: Pod): Promise<IdRange | undefined> {
  return usesUserNamespace(pod) ? await userNamespaces.allocate(pod.metadata.uid ?? "") : undefined;
}

/**
 * Undefined if the pod has no record. Throws for a record without a range: its ids are unknown, so no new range is safe
 * until it is gone.
 */
async function readRange(root: Files, uid: string): Promise<IdRange | undefined> {
  const path = userNamespaceFile(uid);
  let text: string;
  try {
    text = await root.read(path, MAX_BYTES);
  } catch (error) {
    if (error instanceof FilesError && error.code === "ENOENT") return undefined;
    throw error;
  }
  const range = parseUserNamespace(text);
  if (range === undefined)
    throw toError(
      `user namespace: ${root.path(path)} does not contain the pod's id range, so another pod could get the same ids: remove the file when none of the pod's processes runs`,
    );
  return range;
}

const toError = (why: string) => new TranslateError("CreatePodSandboxError", why);
