import { CriError, formatRpcError } from "../../cri/error.ts";
import type { Runtime } from "../../cri/runtime.ts";
import { createTtlCache } from "../../host/async/ttl-cache.ts";
import type { Clock } from "../../host/clock.ts";
import type { ImagePresence } from "../decide/pod/observed.ts";

/**
 * Whether images are present in the runtime. A present image is cached for the observations of one pod start only,
 * since no event reports an import or a new tag. A missing image is not cached.
 */
export interface ObservedImages {
  /** Rejects with `CriError` (`UNAVAILABLE`) if the runtime is away; any other error of it is `unknown`. */
  presence(image: string): Promise<ImagePresence>;
  /** Drops one image from the cache (it was pulled, or a container could not be created from it), or all of them. */
  invalidate(image?: string): void;
}

/** More images than a node uses; jobs may bring new names for as long as it runs. */
const MAX_CACHED = 1_024;
/** Pods that start together, and the observations of each, share one request. */
const CACHE_TTL_MS = 5_000;

export interface ObservedImagesOptions {
  readonly runtime: Pick<Runtime, "imageStatus">;
  readonly clock: Pick<Clock, "now">;
}

export function createObservedImages({ runtime, clock }: ObservedImagesOptions): ObservedImages {
  const cache = createTtlCache<ImagePresence>({ maxEntries: MAX_CACHED, clock });
  // A hundred pods with one image that arrive at once share one request.
  const pending = new Map<string, Promise<ImagePresence>>();

  async function fetchPresence(image: string): Promise<ImagePresence> {
    const found = await runtime.imageStatus(image).catch((error: unknown) => {
      if (error instanceof CriError && error.code !== "UNAVAILABLE") return error;
      throw error;
    });
    if (found instanceof CriError) return { present: "unknown", message: formatRpcError(found) };
    if (found === undefined) return { present: false };
    const uid = found.uid === undefined ? undefined : Number(found.uid.value);
    const size = found.size > 0n ? { sizeBytes: Number(found.size) } : {};
    return { present: true, ref: found.id, user: { uid, username: found.username }, ...size };
  }

  /** A response counts only if its request was not invalidated in between, and from the time of the request. */
  function startRequest(image: string): Promise<ImagePresence> {
    const requestedAt = clock.now();
    const request: Promise<ImagePresence> = fetchPresence(image).then(
      (presence) => {
        if (pending.get(image) === request) {
          pending.delete(image);
          if (presence.present === true) cache.set(image, presence, requestedAt + CACHE_TTL_MS - clock.now());
        }
        return presence;
      },
      (error: unknown) => {
        if (pending.get(image) === request) pending.delete(image);
        throw error;
      },
    );
    pending.set(image, request);
    return request;
  }

  return {
    async presence(image) {
      return cache.get(image) ?? (await (pending.get(image) ?? startRequest(image)));
    },
    invalidate(image) {
      if (image === undefined) {
        cache.clear();
        pending.clear();
      } else {
        cache.delete(image);
        pending.delete(image);
      }
    },
  };
}
