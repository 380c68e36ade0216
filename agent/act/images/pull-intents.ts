import type { Files } from "../../../host/fs/files.ts";
import { encodePullIntent } from "../../../proto/kubelet/image-records.ts";
import { imageOf } from "../../decide/container/image.ts";
import { fileNameOf, writeRecord } from "./pulled-records.ts";

/** What the runtime had of an image before its pull. */
export interface BeforePull {
  /** Undefined: the image was not there. */
  readonly ref: string | undefined;
}

/** The files that tell of pulls that are under way, or of which nobody knows what they have brought. Each rejects with `FilesError`. */
export interface PullIntents {
  /** Whether such a pull may have brought this. What was there before, it has not. */
  has(image: string, imageRef: string): boolean;
  isUnderWay(image: string): boolean;
  areAnyUnderWay(): boolean;
  /** As it was before the first of the pulls that the file tells of; undefined where nobody knows. */
  before(image: string): BeforePull | undefined;
  begins(image: string, before: BeforePull | undefined): Promise<void>;
  /** One pull of the image has ended; the file goes with the last one, unless the image is a doubtful one. */
  ended(image: string): Promise<void>;
  /** The image may come, or be there, by nobody knows whose right. */
  doubt(image: string): void;
  /** By whose right it is there is written down, or no pull has brought it. */
  trust(image: string): void;
  forget(image: string): Promise<void>;
}

interface Intent {
  /** How many pulls of this agent there are of the image. */
  readonly pulls: number;
  readonly before: BeforePull | undefined;
  readonly isDoubtful: boolean;
}

export const PULLING = "image_manager/pulling";
const LEFT: Intent = { pulls: 0, before: undefined, isDoubtful: false };

/** Keeps them in `root`, the kubelet's folder; what a dead agent has left there is doubted by whoever finds it. */
export function createPullIntents(root: Pick<Files, "write" | "remove" | "makeFolder">): PullIntents {
  /** By image. A left file may name one without its tag. */
  const intents = new Map<string, Intent>();
  const change = (image: string, changes: Partial<Intent>) =>
    intents.set(image, { ...(intents.get(image) ?? LEFT), ...changes });

  async function forget(image: string): Promise<void> {
    await root.remove(`${PULLING}/${fileNameOf(image)}`);
    intents.delete(imageOf({ image }));
  }

  return {
    has(image, imageRef) {
      const intent = intents.get(image);
      return intent !== undefined && intent.before?.ref !== imageRef;
    },
    isUnderWay: (image) => (intents.get(image)?.pulls ?? 0) > 0,
    areAnyUnderWay: () => [...intents.values()].some(({ pulls }) => pulls > 0),
    before: (image) => intents.get(image)?.before,
    async begins(image, before) {
      const known = intents.get(image);
      if (known === undefined) await writeRecord(root, PULLING, image, encodePullIntent(image));
      change(image, { pulls: (known?.pulls ?? 0) + 1, before: known === undefined ? before : known.before });
    },
    async ended(image) {
      const { pulls, isDoubtful } = intents.get(image) ?? LEFT;
      const left = Math.max(0, pulls - 1);
      change(image, { pulls: left });
      if (left === 0 && !isDoubtful) await forget(image);
    },
    doubt: (image) => void change(imageOf({ image }), { isDoubtful: true }),
    trust: (image) => void change(image, { isDoubtful: false }),
    forget,
  };
}
