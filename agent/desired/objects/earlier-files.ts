import { messageOf } from "../../../host/error-message.ts";
import type { Files } from "../../../host/fs/files.ts";
import { isUnusableFile } from "../../../host/fs/unusable-file.ts";
import type { Log } from "../../../host/log/log.ts";

/** This release cannot decode a kept object. The message shows nothing of its content, which is secret. */
export class KeptObjectError extends Error {
  override readonly name = "KeptObjectError";
}

/** The files of kept objects that an earlier agent has left. Paths are relative to the agent's root directory. */
export interface EarlierFiles {
  /**
   * Reads each file once. Never rejects. A file for which `onText` throws `KeptObjectError` is set aside, and so is one that
   * holds no text; a file that cannot be read, as after an I/O error, stays.
   */
  load(onText: (text: string) => void): Promise<void>;
  /** Whether `load` has got nothing from a file, and it is still there. */
  hasUnread(file: string): boolean;
  /** The files that `load` has got nothing from, but for those whose names, before they were set aside, are among these. */
  unreadBeside(files: () => ReadonlySet<string>): readonly string[];
  /** A file has been written again. */
  forget(file: string): void;
  /** Removes a file, unless it has been written again. Rejects with `FilesError`. */
  remove(file: string): Promise<void>;
}

export interface EarlierFilesOptions {
  readonly root: Files;
  readonly log: Log;
  readonly folder: string;
}

const ASIDE = ".unreadable";
/** A Secret or ConfigMap has at most 1 MiB, and base64 and JSON make it longer. */
const MAX_BYTES = 4 << 20;

export function createEarlierFiles({ root, log, folder }: EarlierFilesOptions): EarlierFiles {
  /** What `load` has got nothing from, and the names of these files before they were set aside. */
  const unread = new Map<string, string>();

  async function read(file: string, onText: (text: string) => void): Promise<void> {
    try {
      onText(await root.read(file, MAX_BYTES));
    } catch (error) {
      unread.set(file, file);
      if (error instanceof KeptObjectError || isUnusableFile(error)) return await setAside(file, messageOf(error));
      const message = `cannot read a kept object, which stays on the disk: ${messageOf(error)}`;
      log.warn({ file: root.path(file) }, message);
    }
  }

  async function setAside(file: string, why: string): Promise<void> {
    const aside = `${file}${ASIDE}`;
    const paths = { file: root.path(file), aside: root.path(aside) };
    try {
      await root.rename(file, aside);
      unread.delete(file);
      unread.set(aside, file);
      log.error(paths, `a kept object is unreadable and was set aside: ${why}`);
    } catch (error) {
      log.error({ ...paths, err: error }, `a kept object is unreadable and cannot be set aside: ${why}`);
    }
  }

  async function remove(file: string): Promise<void> {
    if (!unread.has(file)) return;
    await root.remove(file);
    unread.delete(file);
  }

  /** An agent has died while it wrote it. */
  async function removePart(file: string): Promise<void> {
    unread.set(file, file);
    await remove(file).catch((error: unknown) => log.warn({ err: error }, "cannot remove a part of a kept object"));
  }

  return {
    async load(onText) {
      try {
        for (const { name } of (await root.list(folder)) ?? []) {
          const file = `${folder}/${name}`;
          if (name.endsWith(".tmp")) await removePart(file);
          else if (name.endsWith(ASIDE)) unread.set(file, file.slice(0, -ASIDE.length));
          else await read(file, onText);
        }
      } catch (error) {
        log.warn({ file: root.path(folder) }, `cannot read what earlier pods referred to: ${messageOf(error)}`);
      }
    },
    hasUnread: (file) => unread.has(file),
    unreadBeside(files) {
      if (unread.size === 0) return [];
      const present = files();
      return [...unread].flatMap(([file, original]) => (present.has(original) ? [] : [file]));
    },
    forget: (file) => void unread.delete(file),
    remove,
  };
}
