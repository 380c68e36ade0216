import type { Files } from "../../host/files.ts";
import { encodePullIntent } from "../../proto/kubelet/image-records.ts";
import { imageOf } from "../decide/image.ts";
import { fileNameOf, writeRecord } from "./pulled-records.ts";

/** The files that tell of pulls that are under way, or whose end nobody has heard. Each rejects with `FilesError`. */
export interface PullIntents {
  has(image: string): boolean;
  /** `before` is the runtime's reference of the image where it is on the node already. */
  begins(image: string, before: string | undefined): Promise<void>;
  /** One pull of the image has ended; the file goes with the last one, unless one has ended unheard. */
  ended(image: string): Promise<void>;
  /** True for an image that no pull has changed although one has ended unheard, and none is under way: it is there as it was before. */
  isAsBefore(image: string, imageRef: string): boolean;
  /** The image may come, or be there, by nobody knows whose right. */
  doubt(image: string): void;
  /** By whose right it is there is written down. */
  trust(image: string): void;
  forget(image: string): Promise<void>;
}

export const PULLING = "image_manager/pulling";

export function createPullIntents(root: Pick<Files, "write" | "remove" | "makeFolder">): PullIntents {
  /** Images with a file, and how many pulls of this agent there are of each. A left file may name one without its tag. */
  const pulls = new Map<string, number>();
  const doubtful = new Set<string>();
  /** What there was before the first of the pulls that are under way, or have ended unheard. */
  const present = new Map<string, string | undefined>();

  async function forget(image: string): Promise<void> {
    await root.remove(`${PULLING}/${fileNameOf(image)}`);
    pulls.delete(imageOf({ image }));
    doubtful.delete(imageOf({ image }));
    present.delete(imageOf({ image }));
  }

  return {
    has: (image) => pulls.has(image),
    async begins(image, before) {
      if (!pulls.has(image)) {
        await writeRecord(root, PULLING, image, encodePullIntent(image));
        present.set(image, before);
      }
      pulls.set(image, (pulls.get(image) ?? 0) + 1);
    },
    async ended(image) {
      const left = Math.max(0, (pulls.get(image) ?? 0) - 1);
      pulls.set(image, left);
      if (left === 0 && !doubtful.has(image)) await forget(image);
    },
    isAsBefore: (image, imageRef) => doubtful.has(image) && pulls.get(image) === 0 && present.get(image) === imageRef,
    doubt(image) {
      pulls.set(imageOf({ image }), pulls.get(imageOf({ image })) ?? 0);
      doubtful.add(imageOf({ image }));
    },
    trust: (image) => void doubtful.delete(image),
    forget,
  };
}
