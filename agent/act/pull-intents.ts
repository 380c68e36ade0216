import type { Files } from "../../host/files.ts";
import { encodePullIntent } from "../../proto/kubelet/image-records.ts";
import { imageOf } from "../decide/image.ts";
import { fileNameOf, writeRecord } from "./pulled-records.ts";

/** The files that tell of pulls that are under way, or whose end nobody has heard. Each rejects with `FilesError`. */
export interface PullIntents {
  has(image: string): boolean;
  begins(image: string): Promise<void>;
  /** One pull of the image has ended; the file goes with the last one, unless one has ended unheard. */
  ended(image: string): Promise<void>;
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

  async function forget(image: string): Promise<void> {
    await root.remove(`${PULLING}/${fileNameOf(image)}`);
    pulls.delete(imageOf({ image }));
    doubtful.delete(imageOf({ image }));
  }

  return {
    has: (image) => pulls.has(image),
    async begins(image) {
      if (!pulls.has(image)) await writeRecord(root, PULLING, image, encodePullIntent(image));
      pulls.set(image, (pulls.get(image) ?? 0) + 1);
    },
    async ended(image) {
      const left = Math.max(0, (pulls.get(image) ?? 0) - 1);
      pulls.set(image, left);
      if (left === 0 && !doubtful.has(image)) await forget(image);
    },
    doubt(image) {
      pulls.set(imageOf({ image }), pulls.get(imageOf({ image })) ?? 0);
      doubtful.add(imageOf({ image }));
    },
    trust: (image) => void doubtful.delete(image),
    forget,
  };
}
