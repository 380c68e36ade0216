import { asRpcError, CriError } from "../../cri/error.ts";
import type { Runtime } from "../../cri/runtime.ts";
import type { Clock } from "../../host/clock.ts";
import { createBoundedMap } from "../../host/lru-map.ts";
import type { ImagePresence } from "../decide/pod/observed.ts";

/**
 * What the runtime has of images. What is there is kept for the looks of one start, since an import or a new tag comes without a word; what
 * is not there is asked for each time.
 */
export interface ObservedImages {
  presence(image: string): Promise<ImagePresence>;
  /** Doubts one image (it was pulled, or a container could not be made of it), or all of them. */
  doubt(image?: string): void;
}

/** More than a node has in use; jobs may bring new names for as long as it runs. */
const MOST_KNOWN = 1_024;
/** Pods that start together, and the looks of each, are one question. */
const BELIEVED_MS = 5_000;

interface Answer {
  readonly presence: ImagePresence;
  readonly askedAt: number;
}

export interface ObservedImagesSettings {
  readonly runtime: Pick<Runtime, "imageStatus">;
  readonly clock: Pick<Clock, "now">;
}

export function createObservedImages({ runtime, clock }: ObservedImagesSettings): ObservedImages {
  const known = createBoundedMap<Answer>(MOST_KNOWN);
  // A hundred pods of one image that arrive at once are one question.
  const asked = new Map<string, Promise<ImagePresence>>();

  async function ask(image: string): Promise<ImagePresence> {
    const found = await runtime.imageStatus(image).catch((error: unknown) => {
      if (error instanceof CriError && error.code !== "UNAVAILABLE") return error;
      throw error;
    });
    if (found instanceof CriError) return { present: "unknown", message: asRpcError(found) };
    if (found === undefined) return { present: false };
    const uid = found.uid === undefined ? undefined : Number(found.uid.value);
    const size = found.size > 0n ? { sizeBytes: Number(found.size) } : {};
    return { present: true, ref: found.id, user: { uid, username: found.username }, ...size };
  }

  /** An answer counts only while its question stands: whoever doubts in between wants a new one. */
  function question(image: string): Promise<ImagePresence> {
    const askedAt = clock.now();
    const open: Promise<ImagePresence> = ask(image).then(
      (presence) => {
        if (asked.get(image) === open) {
          asked.delete(image);
          if (presence.present === true) known.set(image, { presence, askedAt });
        }
        return presence;
      },
      (error: unknown) => {
        if (asked.get(image) === open) asked.delete(image);
        throw error;
      },
    );
    asked.set(image, open);
    return open;
  }

  /** Also where the wall clock was set back an answer is not believed for longer. */
  function believed(image: string): ImagePresence | undefined {
    const answer = known.get(image);
    return answer && Math.abs(clock.now() - answer.askedAt) < BELIEVED_MS ? answer.presence : undefined;
  }

  return {
    async presence(image) {
      return believed(image) ?? (await (asked.get(image) ?? question(image)));
    },
    doubt(image) {
      if (image === undefined) {
        known.clear();
        asked.clear();
      } else {
        known.delete(image);
        asked.delete(image);
      }
    },
  };
}
