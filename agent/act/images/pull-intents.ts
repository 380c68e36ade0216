import type { Files } from "../../../host/fs/files.ts";
import { encodePullIntent } from "../../../proto/kubelet/image-records.ts";
import { imageOf } from "../../decide/container/image.ts";
import { fileNameOf, writeRecord } from "./pulled-records.ts";

/** The state of an image in the runtime, before or after a pull. */
export interface ImageState {
  /** Undefined: the image was absent. */
  readonly ref: string | undefined;
}

/** The intent files of pulls that are under way or whose result is unknown. Each promise rejects with `FilesError`. */
export interface PullIntents {
  /** Whether such a pull may have pulled this image; false for the image that was there before the pull. */
  has(image: string, imageRef: string): boolean;
  isUnderWay(image: string): boolean;
  /** The image's state before the first pull that the file covers; undefined if unknown. */
  before(image: string): ImageState | undefined;
  begin(image: string, before: ImageState | undefined): Promise<void>;
  /**
   * One pull of the image has ended; `recordResult` records how. The last one removes the file, unless the image is
   * unverified, which it also is if its result cannot be recorded.
   */
  end(image: string, recordResult: () => Promise<void>): Promise<void>;
  /** The image may be, or become, present with unknown credentials. */
  markUnverified(image: string): void;
  /** The image's credentials are recorded, or no pull of ours brought it. */
  markVerified(image: string): void;
  forget(image: string): Promise<void>;
}

interface Intent {
  /** How many pulls of the image this agent runs. */
  readonly pulls: number;
  readonly before: ImageState | undefined;
  readonly isUnverified: boolean;
}

export const INTENT_FOLDER = "image_manager/pulling";
const LEFTOVER: Intent = { pulls: 0, before: undefined, isUnverified: false };

/**
 * Keeps the intents below `root`, the kubelet's root directory. The caller marks those of a dead agent as unverified.
 */
export function createPullIntents(root: Pick<Files, "write" | "remove" | "makeFolder">): PullIntents {
  /** By image. A leftover file may name an image without its tag. */
  const intents = new Map<string, Intent>();
  const update = (image: string, changes: Partial<Intent>) =>
    intents.set(image, { ...(intents.get(image) ?? LEFTOVER), ...changes });

  async function forget(image: string): Promise<void> {
    await root.remove(`${INTENT_FOLDER}/${fileNameOf(image)}`);
    intents.delete(imageOf({ image }));
  }

  async function endOne(image: string): Promise<void> {
    const { pulls, isUnverified } = intents.get(image) ?? LEFTOVER;
    const remaining = Math.max(0, pulls - 1);
    update(image, { pulls: remaining });
    if (remaining === 0 && !isUnverified) await forget(image);
  }

  const markUnverified = (image: string) => void update(imageOf({ image }), { isUnverified: true });

  return {
    has(image, imageRef) {
      const intent = intents.get(image);
      return intent !== undefined && intent.before?.ref !== imageRef;
    },
    isUnderWay: (image) => (intents.get(image)?.pulls ?? 0) > 0,
    before: (image) => intents.get(image)?.before,
    async begin(image, before) {
      const known = intents.get(image);
      if (known === undefined) await writeRecord(root, INTENT_FOLDER, image, encodePullIntent(image));
      update(image, { pulls: (known?.pulls ?? 0) + 1, before: known === undefined ? before : known.before });
    },
    async end(image, recordResult) {
      try {
        await recordResult();
      } catch (error) {
        markUnverified(image);
        throw error;
      } finally {
        await endOne(image);
      }
    },
    markUnverified,
    markVerified: (image) => void update(image, { isUnverified: false }),
    forget,
  };
}
