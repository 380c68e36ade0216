import { type Clock, type Instant, sleep } from "../host/clock.ts";
import { messageOf } from "../host/error-message.ts";
import { type Files, FilesError } from "../host/fs/files.ts";
import { inFolder } from "../host/fs/in-folder.ts";
import { isUnusableFile } from "../host/fs/unusable-file.ts";
import {
  type AttachmentKey,
  type CacheEntry,
  cacheFileName,
  decodeCacheEntry,
  encodeCacheEntry,
} from "./cache-entry.ts";

/** A file that holds no entry. It is renamed, so that it is reported once; it stays until its attachment is removed. */
export interface UnreadableEntry {
  /** The name that it had. */
  readonly fileName: string;
  readonly asideName: string;
  readonly reason: string;
}

/**
 * The results of ADD, in libcni's place and format, so that other programs read them: `results/NETWORK-CONTAINER-INTERFACE` below
 * the cache's folder, `/var/lib/cni` on a node. All methods reject with `FilesError` for what may be over at the next try, such
 * as a full disk.
 */
export interface ResultCache {
  /** The entry of an attachment; undefined if there is none, or its file is torn and was set aside. */
  read(key: AttachmentKey): Promise<CacheEntry | undefined>;
  /**
   * Replaces an entry atomically, without fsync, as libcni does: after a power cut it may be missing or empty. Interfaces and rules are
   * gone then, too, and GC or DEL of the current list releases what host-local keeps for the default network. Leases of secondary
   * networks stay if their own entries are torn, too.
   */
  write(entry: CacheEntry): Promise<void>;
  /** Also removes the file that was set aside for it. Absent is success. */
  remove(key: AttachmentKey): Promise<void>;
  /** When an entry was written, which is when its ADD has ended; undefined if there is none. */
  addedAt(key: AttachmentKey): Promise<Instant | undefined>;
  /** All entries, and the files that hold none, even if another reader has set them aside. One in whose place there is an entry again is left out. */
  list(): Promise<{ readonly entries: readonly CacheEntry[]; readonly unreadable: readonly UnreadableEntry[] }>;
  /** The absolute path of a file of the cache, for messages. */
  pathOf(fileName: string): string;
}

export interface ResultCacheDeps {
  /** Rooted at the cache's folder. */
  readonly files: Pick<
    Files,
    "path" | "read" | "writeWithoutSync" | "list" | "makeFolder" | "rename" | "remove" | "stat"
  >;
  readonly clock: Clock;
  /** Called for each file that was set aside. */
  readonly onUnreadable?: (entry: UnreadableEntry) => void;
}

/** Below the folder of the cache. */
export const RESULTS_FOLDER = "results";
/** The end of the name of a file that was set aside. */
export const ASIDE_SUFFIX = ".unreadable";
export const MAX_FILE_BYTES = 4 << 20;
/** libcni does not write its files atomically: a file that is being written is complete a moment later. */
const READ_AGAIN_AFTER_MS = [5, 20, 80] as const;

export function createResultCache({ files, clock, onUnreadable }: ResultCacheDeps): ResultCache {
  const pathOf = (fileName: string) => `${RESULTS_FOLDER}/${fileName}`;

  async function readEntry(fileName: string, key?: AttachmentKey): Promise<CacheEntry | UnreadableEntry | undefined> {
    let entry = await readOnce(fileName, key);
    for (const waitMs of READ_AGAIN_AFTER_MS) {
      if (typeof entry !== "string") return entry;
      await sleep(clock, waitMs);
      entry = await readOnce(fileName, key);
    }
    return typeof entry === "string" ? await setAside(fileName, entry) : entry;
  }

  /** Resolves with the entry, with the reason why the file holds none, or with undefined without a file. */
  async function readOnce(fileName: string, key?: AttachmentKey): Promise<CacheEntry | string | undefined> {
    try {
      return decodeCacheEntry(await files.read(pathOf(fileName), MAX_FILE_BYTES), key);
    } catch (error) {
      if (error instanceof FilesError && error.code === "ENOENT") return undefined;
      if (!isUnusableFile(error)) throw error;
      return messageOf(error);
    }
  }

  async function setAside(fileName: string, reason: string): Promise<UnreadableEntry> {
    const unreadable = { fileName, asideName: `${fileName}${ASIDE_SUFFIX}`, reason };
    try {
      await files.rename(pathOf(fileName), pathOf(unreadable.asideName));
    } catch (error) {
      // Race: another reader has set it aside.
      if (error instanceof FilesError && error.code === "ENOENT") return unreadable;
      throw error;
    }
    onUnreadable?.(unreadable);
    return unreadable;
  }

  /** What was set aside; undefined if its attachment has been removed since. */
  async function readAside(fileName: string): Promise<UnreadableEntry | undefined> {
    const asideName = `${fileName}${ASIDE_SUFFIX}`;
    const entry = await readOnce(asideName);
    if (entry === undefined) return undefined;
    const reason = typeof entry === "string" ? entry : "another program has written it after it was set aside";
    return { fileName, asideName, reason };
  }

  return {
    async read(key) {
      const entry = await readEntry(cacheFileName(key), key);
      // Two attachments may have the same file name, since their parts may contain hyphens.
      return entry === undefined || "reason" in entry || !isOf(entry, key) ? undefined : entry;
    },
    async write(entry) {
      const [path, text] = [pathOf(cacheFileName(entry)), encodeCacheEntry(entry)];
      await inFolder(files, RESULTS_FOLDER, () => files.writeWithoutSync(path, text, 0o600));
    },
    async remove(key) {
      const fileName = cacheFileName(key);
      for (const name of [fileName, `${fileName}${ASIDE_SUFFIX}`]) await files.remove(pathOf(name));
    },
    pathOf: (fileName) => files.path(pathOf(fileName)),
    addedAt: async (key) => (await files.stat(pathOf(cacheFileName(key))))?.modifiedMs,
    async list() {
      const names = ((await files.list(RESULTS_FOLDER)) ?? []).flatMap(({ name, kind }) =>
        kind === "file" ? [name] : [],
      );
      const own = names.filter((name) => !name.endsWith(ASIDE_SUFFIX) && !name.endsWith(".tmp"));
      const aside = names.flatMap((name) => (name.endsWith(ASIDE_SUFFIX) ? [name.slice(0, -ASIDE_SUFFIX.length)] : []));
      const alone = aside.filter((name) => !own.includes(name));
      const read = await Promise.all([...own.map((name) => readEntry(name)), ...alone.map(readAside)]);
      return {
        entries: read.flatMap((entry) => (entry === undefined || "reason" in entry ? [] : [entry])),
        unreadable: read.flatMap((entry) => (entry !== undefined && "reason" in entry ? [entry] : [])),
      };
    },
  };
}

const isOf = (entry: CacheEntry, key: AttachmentKey) =>
  entry.network === key.network && entry.containerId === key.containerId && entry.ifName === key.ifName;
