import { createHash } from "node:crypto";
import { type Files, FilesError } from "../../../host/fs/files.ts";
import type { Log } from "../../../host/log/log.ts";
import { createLruMap } from "../../../host/lru-map.ts";
import {
  decodePulledRecord,
  encodePulledRecord,
  type ImagePulledRecord,
} from "../../../proto/kubelet/image-records.ts";

/** The files with ImagePulledRecords. */
export interface PulledRecords {
  /** Lists the existing files. Rejects with `FilesError`. */
  list(): Promise<void>;
  has(imageRef: string): boolean;
  /** Undefined if there is none or it cannot be read; the latter is logged once. */
  get(imageRef: string): Promise<ImagePulledRecord | undefined>;
  /** Rejects with `FilesError`. */
  save(record: ImagePulledRecord): Promise<void>;
  /** A snapshot of the existing records, for `removeUnused`. */
  snapshot(): KnownRecords;
  /**
   * Removes the records of `snapshot` that were not rewritten since and belong to none of these images. Rejects with
   * `FilesError`.
   */
  removeUnused(snapshot: KnownRecords, imageRefs: readonly string[]): Promise<void>;
}

/** File name → an object that identifies its last write. */
export type KnownRecords = ReadonlyMap<string, object>;

export interface PulledRecordsOptions {
  readonly root: Pick<Files, "read" | "write" | "list" | "remove" | "makeFolder">;
  readonly log: Log;
}

const FOLDER = "image_manager/pulled";
/** The largest record that is read. */
export const MAX_RECORD_BYTES = 1 << 20;
/** More images than a node has in use. */
const MAX_CACHED = 1_024;

/** Keeps the records below `root`, the kubelet's root directory, and caches what it has read. */
export function createPulledRecords({ root, log }: PulledRecordsOptions): PulledRecords {
  const lastWrites = new Map<string, object>();
  let isListed = false;
  const cached = createLruMap<{ readonly record: ImagePulledRecord | undefined }>(MAX_CACHED);

  async function read(imageRef: string): Promise<ImagePulledRecord | undefined> {
    const file = `${FOLDER}/${fileNameOf(imageRef)}`;
    const record = await root.read(file, MAX_RECORD_BYTES).then(decodePulledRecord, (error: unknown) => {
      if (error instanceof FilesError) return undefined;
      throw error;
    });
    if (record?.imageRef === imageRef) return record;
    if (!isListed) return undefined;
    log.warn(
      { file, imageRef },
      "cannot read the pull record of an image; the registry must accept each pod's credentials again",
    );
    return undefined;
  }

  const has = (imageRef: string) => lastWrites.has(fileNameOf(imageRef));
  return {
    async list() {
      for (const name of await recordNames(root, FOLDER)) lastWrites.set(name, {});
      isListed = true;
    },
    has,
    async get(imageRef) {
      if (isListed && !has(imageRef)) return undefined;
      const found = cached.get(imageRef) ?? { record: await read(imageRef) };
      if (isListed) cached.set(imageRef, found);
      return found.record;
    },
    async save(record) {
      const { imageRef } = record;
      await writeRecord(root, FOLDER, imageRef, encodePulledRecord(record));
      lastWrites.set(fileNameOf(imageRef), record);
      cached.set(imageRef, { record });
    },
    snapshot: () => new Map(lastWrites),
    async removeUnused(snapshot, imageRefs) {
      const present = new Set(imageRefs.map(fileNameOf));
      for (const [name, lastWrite] of snapshot) {
        if (present.has(name) || lastWrites.get(name) !== lastWrite) continue;
        await root.remove(`${FOLDER}/${name}`);
        lastWrites.delete(name);
      }
    },
  };
}

/** Writes the file of an image or image reference; creates the directory if it is missing. */
export async function writeRecord(
  root: Pick<Files, "write" | "makeFolder">,
  folder: string,
  subject: string,
  content: string,
): Promise<void> {
  const write = () => root.write(`${folder}/${fileNameOf(subject)}`, content, 0o600);
  await write().catch(async (error: unknown) => {
    if (!(error instanceof FilesError) || error.code !== "ENOENT") throw error;
    await root.makeFolder("image_manager", 0o700);
    await root.makeFolder(folder, 0o700);
    await write();
  });
}

/** The names of the records in a directory; none if it is missing. */
export async function recordNames(root: Pick<Files, "list">, folder: string): Promise<readonly string[]> {
  const entries = (await root.list(folder)) ?? [];
  return entries.map(({ name }) => name).filter((name) => name.startsWith("sha256-") && !name.endsWith(".tmp"));
}

/**
 * The kubelet's name of an image's file: `sha256-` and the hash in hex (cacheFilename in
 * pkg/kubelet/images/pullmanager).
 */
export function fileNameOf(subject: string): string {
  return `sha256-${createHash("sha256").update(subject).digest("hex")}`;
}
