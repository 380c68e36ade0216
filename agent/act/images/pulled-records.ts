import { createHash } from "node:crypto";
import { type Files, FilesError } from "../../../host/fs/files.ts";
import type { Log } from "../../../host/log.ts";
import { createBoundedMap } from "../../../host/lru-map.ts";
import {
  decodePulledRecord,
  encodePulledRecord,
  type ImagePulledRecord,
} from "../../../proto/kubelet/image-records.ts";

/** The files with records of images. */
export interface PulledRecords {
  /** Learns which there are. Rejects with `FilesError`. */
  find(): Promise<void>;
  has(imageRef: string): boolean;
  /** Undefined where there is none, and where it cannot be read, which is said once. */
  of(imageRef: string): Promise<ImagePulledRecord | undefined>;
  /** Rejects with `FilesError`. */
  keep(record: ImagePulledRecord): Promise<void>;
  /** Those that there are now, for `removeUnknown`. */
  kept(): KeptRecords;
  /** Removes those of `kept` that were not written since, and are of no such image. Rejects with `FilesError`. */
  removeUnknown(kept: KeptRecords, imageRefs: readonly string[]): Promise<void>;
}

/** By name of the file, by what it was written. */
export type KeptRecords = ReadonlyMap<string, object>;

export interface RecordFiles {
  readonly root: Pick<Files, "read" | "write" | "list" | "remove" | "makeFolder">;
  readonly log: Log;
}

const FOLDER = "image_manager/pulled";
/** The most that a record has. */
export const MOST_BYTES = 1 << 20;
/** More than a node has in use. */
const MOST_KNOWN = 1_024;

/** Keeps them in `root`, the kubelet's folder; what was read once is kept in memory. */
export function createPulledRecords({ root, log }: RecordFiles): PulledRecords {
  const written = new Map<string, object>();
  let isListed = false;
  const known = createBoundedMap<{ readonly record: ImagePulledRecord | undefined }>(MOST_KNOWN);

  async function read(imageRef: string): Promise<ImagePulledRecord | undefined> {
    const file = `${FOLDER}/${fileNameOf(imageRef)}`;
    const record = await root.read(file, MOST_BYTES).then(decodePulledRecord, (error: unknown) => {
      if (error instanceof FilesError) return undefined;
      throw error;
    });
    if (record?.imageRef === imageRef) return record;
    if (!isListed) return undefined;
    log.warn({ file, imageRef }, "the record of an image cannot be read; its pods have to show their right to it anew");
    return undefined;
  }

  const has = (imageRef: string) => written.has(fileNameOf(imageRef));
  return {
    async find() {
      for (const name of await recordNames(root, FOLDER)) written.set(name, {});
      isListed = true;
    },
    has,
    async of(imageRef) {
      if (isListed && !has(imageRef)) return undefined;
      const found = known.get(imageRef) ?? { record: await read(imageRef) };
      if (isListed) known.set(imageRef, found);
      return found.record;
    },
    async keep(record) {
      const { imageRef } = record;
      await writeRecord(root, FOLDER, imageRef, encodePulledRecord(record));
      written.set(fileNameOf(imageRef), record);
      known.set(imageRef, { record });
    },
    kept: () => new Map(written),
    async removeUnknown(kept, imageRefs) {
      const present = new Set(imageRefs.map(fileNameOf));
      for (const [name, writing] of kept) {
        if (present.has(name) || written.get(name) !== writing) continue;
        await root.remove(`${FOLDER}/${name}`);
        written.delete(name);
      }
    },
  };
}

/** Writes a file about an image or a reference to one, in a folder that is made where it is missing. */
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

/** The names of the records in a folder; none where it is missing. */
export async function recordNames(root: Pick<Files, "list">, folder: string): Promise<readonly string[]> {
  const entries = (await root.list(folder)) ?? [];
  return entries.map(({ name }) => name).filter((name) => name.startsWith("sha256-") && !name.endsWith(".tmp"));
}

/** As the kubelet calls a file about an image or a reference to one: `sha256-` and the hash in hex (cacheFilename in pkg/kubelet/images/pullmanager). */
export function fileNameOf(subject: string): string {
  return `sha256-${createHash("sha256").update(subject).digest("hex")}`;
}
