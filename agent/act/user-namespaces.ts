import { type Files, FilesError } from "../../host/fs/files.ts";
import {
  formatUserNamespace,
  type IdRange,
  parseUserNamespace,
  userNamespaceFile,
} from "../translate/security/user-namespace.ts";
import { type IdSpace, nextRange } from "../translate/security/user-namespace-ids.ts";
import { TranslateError } from "../translate/translate-error.ts";

/** The ids that pods with users of their own have on this node: no two have the same. Each range is recorded beside its pod's files. */
export interface UserNamespaces {
  /** The pod's range: the one that is recorded, or else a new one, which is recorded before anybody uses it. */
  take(uid: string): Promise<IdRange>;
  /** Gives the range of a pod back whose processes have all ended. Absent is success. */
  release(uid: string): Promise<void>;
  /** The same, where its record was removed with all its files. */
  forget(uid: string): Promise<void>;
}

const LARGEST_BYTES = 64 * 1024;

/**
 * `root` is the agent's root directory. `take` rejects with `TranslateError` where no range is left, or a record tells of none; all
 * reject with `FilesError`.
 */
export function createUserNamespaces(root: Files, space: IdSpace): UserNamespaces {
  const used = new Map<string, IdRange>();
  let last: IdRange | undefined;
  let loading: Promise<void> | undefined;

  /** Once: from then on each range that is given or released goes through here. */
  async function load(): Promise<void> {
    for (const { name, kind } of (await root.list("pods")) ?? []) {
      const range = kind === "directory" ? await readRange(root, name) : undefined;
      if (range === undefined || used.has(name)) continue;
      used.set(name, range);
      if (last === undefined || range.first > last.first) last = range;
    }
  }

  async function loaded(): Promise<void> {
    loading ??= load();
    try {
      await loading;
    } catch (error) {
      // Somebody may put it in order: it is read again for the next pod.
      loading = undefined;
      throw error;
    }
  }

  async function forget(uid: string): Promise<void> {
    // Who reads all of them may have read this one before it was removed; why that failed is told to whoever asked for it.
    await loading?.catch(() => undefined);
    used.delete(uid);
  }

  return {
    async take(uid) {
      const recorded = await readRange(root, uid);
      if (recorded !== undefined) {
        used.set(uid, recorded);
        return recorded;
      }
      await loaded();
      // From here to the note of the range nothing is awaited: no two pods can be given the same.
      const range = nextRange(space, used.values(), last);
      if (range === undefined)
        throw refusal("create user namespace: could not find an empty slot to allocate a user namespace");
      used.set(uid, range);
      last = range;
      // Should this fail, the range stays this pod's: half of the write may have succeeded.
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

/** Undefined where the pod has none. A record that tells of none keeps ids that nobody knows: no pod may be given any until it is gone. */
async function readRange(root: Files, uid: string): Promise<IdRange | undefined> {
  const path = userNamespaceFile(uid);
  let text: string;
  try {
    text = await root.read(path, LARGEST_BYTES);
  } catch (error) {
    if (error instanceof FilesError && error.code === "ENOENT") return undefined;
    throw error;
  }
  const range = parseUserNamespace(text);
  if (range === undefined)
    throw refusal(
      `user namespace: ${root.path(path)} does not say which ids the pod has, so that others could be given the same: remove that file when none of the pod's processes runs`,
    );
  return range;
}

const refusal = (why: string) => new TranslateError("CreatePodSandboxError", why);
