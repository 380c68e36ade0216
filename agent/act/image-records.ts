import { CriError } from "../../cri/error.ts";
import type { Clock } from "../../host/clock.ts";
import { FilesError } from "../../host/files.ts";
import {
  decodePullIntent,
  type ImagePullCredentials,
  type ImagePullSecret,
} from "../../proto/kubelet/image-records.ts";
import { formatTime } from "../../proto/kubernetes/time.ts";
import { type RecordedImage, withCredentials } from "../decide/image-access.ts";
import { type BeforePull, createPullIntents, PULLING, type PullIntents } from "./pull-intents.ts";
import {
  createPulledRecords,
  MOST_BYTES,
  type PulledRecords,
  type RecordFiles,
  recordNames,
} from "./pulled-records.ts";

/**
 * What is written down of the images that this node has pulled, and by whose right. A pull begins with an intent; its end replaces that by a
 * record, or takes it away. Whoever dies in between leaves the intent, and the image, if it is there, is one to which everybody has to show
 * a right of his own.
 */
export interface ImageRecords {
  /**
   * What is written down of an image that is here; as long as the records cannot be listed, each image passes for a pulled one. Rejects with
   * `CriError` while a runtime that is away keeps what was left from being held against it.
   */
  of(image: string, imageRef: string): Promise<RecordedImage>;
  /** Before a pull. Rejects with `FilesError`, since what nobody would know of is not pulled, and as `of` does. */
  begins(image: string): Promise<void>;
  /** Never rejects: without a record the next pod has to show its right once more. */
  succeeded(image: string, imageRef: string, by: ImagePullCredentials): Promise<void>;
  /** `isHeard`: the runtime itself has said that it has not pulled it; otherwise it is asked whether the image is another. Never rejects. */
  failed(image: string, isHeard: boolean): Promise<void>;
  /** Removes the records of images that the runtime has no more, now and then. Never rejects. */
  prune(): Promise<void>;
  /** Never rejects. */
  learnt(image: string, imageRef: string, secret: ImagePullSecret): Promise<void>;
}

export interface ImageRecordsSettings extends RecordFiles {
  /** The runtime's reference of an image that is on the node; undefined where it is not. Rejects with `CriError`. */
  readonly refOf: (image: string) => Promise<string | undefined>;
  /** Those of all images that are on the node. Rejects with `CriError`. */
  readonly refs: () => Promise<readonly string[]>;
  readonly clock: Pick<Clock, "now">;
}

/** At most so often, as the kubelet with each collection of images. */
const PRUNE_EVERY_MS = 300_000;

/** Keeps them in `root`, the kubelet's folder. What is left there is taken up with the first question. */
export function createImageRecords(settings: ImageRecordsSettings): ImageRecords {
  const { root, refOf, clock, log } = settings;
  const intents = createPullIntents(root);
  const records = createPulledRecords({ root, log });
  const inTurn = createTurns();
  const left = createLeft(settings, { intents, records, add });
  const prepared = () => left.prepared(inTurn);

  async function add(image: string, imageRef: string, by: ImagePullCredentials | undefined): Promise<void> {
    const lastUpdatedTime = formatTime(clock.now());
    const record = withCredentials(await records.of(imageRef), { image, imageRef, lastUpdatedTime }, by);
    if (record !== undefined) await records.keep(record);
  }

  /** What the runtime has of an image now; undefined where it does not say. */
  async function present(image: string): Promise<BeforePull | undefined> {
    try {
      return { ref: await refOf(image) };
    } catch (error) {
      // Whoever pulls hears of it too; here it only means that nobody knows.
      if (error instanceof CriError) return undefined;
      throw error;
    }
  }

  /** A pull whose end nobody has heard has brought what is other than before: to that everybody has to show a right of his own. */
  async function endedUnheard(image: string, after: BeforePull | undefined): Promise<void> {
    const before = intents.before(image);
    if (before === undefined || after === undefined) return intents.doubt(image);
    if (after.ref !== undefined && after.ref !== before.ref) await add(image, after.ref, undefined);
    intents.trust(image);
  }

  /** What cannot be written is no reason to stop anything; it is only strict on those who come later. */
  async function orSay(what: string, image: string, work: () => Promise<void>): Promise<void> {
    const done = prepared().then(() => inTurn(work));
    await done.catch((error: unknown) => log.warn({ image, err: error }, what));
  }

  return {
    async of(image, imageRef) {
      await prepared();
      const record = await records.of(imageRef);
      const isPulledHere = !left.isKnown() || records.has(imageRef) || intents.has(image, imageRef);
      return { isPulledHere, record };
    },
    async begins(image) {
      await prepared();
      const before = await present(image);
      await inTurn(() => intents.begins(image, before));
    },
    succeeded: (image, imageRef, by) =>
      orSay("that an image was pulled could not be written down", image, async () => {
        await add(image, imageRef, by);
        intents.trust(image);
        await intents.ended(image);
      }),
    async failed(image, isHeard) {
      const after = isHeard ? undefined : await present(image);
      await orSay("that an image is not being pulled any more could not be written down", image, async () => {
        if (!isHeard) await endedUnheard(image, after);
        await intents.ended(image);
      });
    },
    prune: createPruning(settings, { records, prepared, inTurn }),
    learnt: (image, imageRef, secret) =>
      orSay("by which Secret an image is to be had could not be written down", image, () =>
        add(image, imageRef, { kubernetesSecrets: [secret] }),
      ),
  };
}

interface Kept {
  readonly intents: PullIntents;
  readonly records: Pick<PulledRecords, "find">;
  /** Writes down that an image was pulled by nobody knows whose right. */
  readonly add: (image: string, imageRef: string, by: undefined) => Promise<void>;
}

/** What an agent before us has left. Where it cannot be listed, that is said once, and it is tried again whenever somebody asks. */
function createLeft({ root, refOf, log }: ImageRecordsSettings, { intents, records, add }: Kept) {
  let ready: Promise<void> | undefined;
  let isKnown = false;
  let isSaid = false;

  /** Takes it up; the images of it that are here were pulled, and nobody knows by whose right. */
  async function takeUp(): Promise<void> {
    for (const name of await list())
      await settle(`${PULLING}/${name}`).catch((error: unknown) => {
        const isOfImage = error instanceof CriError && error.code !== "UNAVAILABLE";
        if (!isOfImage && !(error instanceof FilesError)) throw error;
        log.warn({ file: `${PULLING}/${name}`, err: error }, "what is left of a pull cannot be taken up");
      });
  }

  /** None where they cannot be listed. */
  async function list(): Promise<readonly string[]> {
    try {
      await records.find();
      const names = await recordNames(root, PULLING);
      [isKnown, isSaid] = [true, false];
      return names;
    } catch (error) {
      if (!(error instanceof FilesError)) throw error;
      const what = "the records of images cannot be listed; until then pods have to show their right to each";
      if (!isSaid) log.warn({ err: error }, what);
      isSaid = true;
      return [];
    }
  }

  async function settle(file: string): Promise<void> {
    const image = decodePullIntent(await root.read(file, MOST_BYTES));
    if (image === undefined) return log.warn({ file }, "this is no record of a pull; it is left alone");
    if (intents.isUnderWay(image)) return;
    intents.doubt(image);
    const imageRef = await refOf(image);
    if (imageRef === undefined) return;
    await add(image, imageRef, undefined);
    await intents.forget(image);
  }

  return {
    isKnown: () => isKnown,
    /** Resolves when it was taken up, once. Rejects with `CriError` where the runtime is away. */
    prepared(inTurn: (work: () => Promise<void>) => Promise<void>): Promise<void> {
      const again = () => {
        ready = undefined;
      };
      ready ??= inTurn(takeUp).then(
        () => (isKnown ? undefined : again()),
        (error: unknown) => {
          again();
          throw error;
        },
      );
      return ready;
    },
  };
}

interface Pruned {
  readonly records: Pick<PulledRecords, "kept" | "removeUnknown">;
  readonly prepared: () => Promise<void>;
  readonly inTurn: (work: () => Promise<void>) => Promise<void>;
}

function createPruning({ refs, clock, log }: ImageRecordsSettings, { records, prepared, inTurn }: Pruned) {
  let prunedAt = Number.NEGATIVE_INFINITY;

  async function prune(): Promise<void> {
    await prepared();
    const kept = records.kept();
    if (kept.size === 0) return;
    const present = await refs();
    prunedAt = clock.now();
    // A node always has an image, that of its sandboxes: a runtime that lists none has not read them yet.
    if (present.length > 0) await inTurn(() => records.removeUnknown(kept, present));
  }

  return async () => {
    if (Math.abs(clock.now() - prunedAt) < PRUNE_EVERY_MS) return;
    await prune().catch((error: unknown) => {
      // A runtime that is away is told by others, and asked again with the next audit.
      if (error instanceof CriError) return;
      if (!(error instanceof FilesError)) throw error;
      log.warn({ err: error }, "the records of images that are here no more cannot be removed");
    });
  };
}

/** One writer: of two pulls that end together none may write over what the other one has written. */
function createTurns() {
  let last: Promise<unknown> = Promise.resolve();
  return <T>(work: () => Promise<T>): Promise<T> => {
    const done = last.then(work);
    last = done.catch(() => {
      // Whoever has asked for it hears of it.
    });
    return done;
  };
}
