import type { ImagePullCredentials } from "../../../proto/kubelet/image-records.ts";
import type { ImageState, PullIntents } from "./pull-intents.ts";

interface UnwrittenRecordsDeps {
  readonly intents: PullIntents;
  readonly add: (image: string, imageRef: string, by: ImagePullCredentials) => Promise<void>;
  /** The state of an image in the runtime; undefined if the runtime does not respond. */
  readonly readImage: (image: string) => Promise<ImageState | undefined>;
  readonly markVerified: (image: string) => void;
  /** Runs a write after all others; logs its failure and never rejects. */
  readonly orLog: (image: string, work: () => Promise<void>) => Promise<void>;
}

/**
 * Pulls that succeeded and could not be recorded, as on a full disk. Until the record is written, every pod must prove its
 * access to the image, and cannot while the registry is away.
 */
export function createUnwrittenRecords({ intents, add, readImage, markVerified, orLog }: UnwrittenRecordsDeps) {
  /** By image. */
  const unwritten = new Map<string, { readonly imageRef: string; readonly by: ImagePullCredentials }>();

  return {
    /** Runs `write`, which records a pull. If it fails, rejects with its error and keeps the record for `writeAgain`. */
    async orKeep(image: string, imageRef: string, by: ImagePullCredentials, write: () => Promise<void>): Promise<void> {
      unwritten.set(image, { imageRef, by });
      await write();
      unwritten.delete(image);
    },
    /** Writes the records of images that are still on the node. */
    async writeAgain(): Promise<void> {
      for (const [image, record] of [...unwritten]) {
        const state = await readImage(image);
        if (state === undefined) continue;
        await orLog(image, async () => {
          // The end of another pull settles both.
          if (unwritten.get(image) !== record || intents.isUnderWay(image)) return;
          if (state.ref === record.imageRef) {
            await add(image, record.imageRef, record.by);
            markVerified(image);
            await intents.forget(image);
          }
          unwritten.delete(image);
        });
      }
    },
  };
}
