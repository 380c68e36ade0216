import type { Clock } from "../../../host/clock.ts";
import type { ImageState, PullIntents } from "./pull-intents.ts";

/** By then the runtime has cancelled an aborted pull or has finished it. */
const PULL_SETTLED_AFTER_MS = 60_000;

interface AbandonedPullsDeps {
  readonly intents: PullIntents;
  readonly add: (image: string, imageRef: string, by: undefined) => Promise<void>;
  /** The state of an image in the runtime; undefined if the runtime does not respond. */
  readonly readImage: (image: string) => Promise<ImageState | undefined>;
  readonly serially: (work: () => Promise<void>) => Promise<void>;
}

/**
 * Pulls whose result is unknown. If the image has changed since, they may have pulled it, so every pod must prove its
 * access to it.
 */
export function createAbandonedPulls(
  { clock }: { readonly clock: Pick<Clock, "now"> },
  { intents, add, readImage, serially }: AbandonedPullsDeps,
) {
  /** By image: when its latest such pull was aborted. The runtime may still complete it. */
  const abortedAt = new Map<string, number>();

  async function recordIfChanged(image: string, before: ImageState, { ref }: ImageState): Promise<void> {
    if (ref !== undefined && ref !== before.ref) await add(image, ref, undefined);
    markVerified(image);
  }

  function markVerified(image: string): void {
    intents.markVerified(image);
    abortedAt.delete(image);
  }

  async function settleOne(image: string, at: number): Promise<void> {
    const after = await readImage(image);
    await serially(async () => {
      const before = intents.before(image);
      // Another pull of the image is under way; its end settles both.
      if (abortedAt.get(image) !== at || intents.isUnderWay(image)) return;
      if (before === undefined || after === undefined) return;
      await recordIfChanged(image, before, after);
      await intents.forget(image);
    });
  }

  return {
    markVerified,
    async ended(image: string, after: ImageState | undefined): Promise<void> {
      const before = intents.before(image);
      // An absent image may still arrive: the runtime learns of the cancellation only now.
      if (before !== undefined && after?.ref !== undefined) return await recordIfChanged(image, before, after);
      intents.markUnverified(image);
      if (before !== undefined) abortedAt.set(image, clock.now());
    },
    async settle(): Promise<void> {
      for (const [image, at] of [...abortedAt])
        if (Math.abs(clock.now() - at) >= PULL_SETTLED_AFTER_MS) await settleOne(image, at);
    },
  };
}
