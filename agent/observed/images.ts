import { asRpcError, CriError } from "../../cri/error.ts";
import type { Runtime } from "../../cri/runtime.ts";
import { createBoundedMap } from "../../host/bounded-map.ts";
import type { ImagePresence } from "../decide/observed.ts";

/**
 * What the runtime has of images. What is there is asked once and kept until there is a reason to doubt it; what is not there may
 * come without a word, so it is asked for each time.
 */
export interface ObservedImages {
  presence(image: string): Promise<ImagePresence>;
  /** Doubts one image (it was pulled, or a container could not be made of it), or all of them. */
  doubt(image?: string): void;
}

/** More than a node has in use; jobs may bring new names for as long as it runs. */
const MOST_KNOWN = 1_024;

export function createObservedImages(runtime: Pick<Runtime, "imageStatus">): ObservedImages {
  const known = createBoundedMap<ImagePresence>(MOST_KNOWN);
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
    const open: Promise<ImagePresence> = ask(image).then(
      (presence) => {
        if (asked.get(image) === open) {
          asked.delete(image);
          if (presence.present === true) known.set(image, presence);
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

  return {
    async presence(image) {
      return known.get(image) ?? (await (asked.get(image) ?? question(image)));
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
