import { CriError } from "../../../cri/error.ts";
import { createTold } from "../../../host/async/event-source.ts";
import type { Clock } from "../../../host/clock.ts";
import { FilesError } from "../../../host/fs/files.ts";
import type { Log } from "../../../host/log.ts";
import {
  decodePullIntent,
  type ImagePullCredentials,
  type ImagePullSecret,
} from "../../../proto/kubelet/image-records.ts";
import { formatTime } from "../../../proto/kubernetes/time.ts";
import { type RecordedImage, withCredentials } from "../../decide/admission/image-verification.ts";
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
  /** Says what pulls have brought whose end nobody has heard, and removes the records of images that the runtime has no more. Never rejects. */
  audit(): Promise<void>;
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

/** A runtime that comes and goes brings an audit each time; less than from one to the next that nothing brings, so that each of those prunes. */
const PRUNE_EVERY_MS = 60_000;
/** A runtime that was told to give up a pull has done so by then, or has finished it. */
const PULL_ENDS_WITHIN_MS = 60_000;

/** Keeps them in `root`, the kubelet's folder. What is left there is taken up with the first question. */
export function createImageRecords(settings: ImageRecordsSettings): ImageRecords {
  const { root, refOf, clock, log } = settings;
  const intents = createPullIntents(root);
  const records = createPulledRecords({ root, log });
  const inTurn = createTurns();
  const left = createLeft(settings, { intents, records, add });
  const prepared = () => left.prepared(inTurn);
  const unheard = createUnheard(settings, { intents, add, present, inTurn });
  const prune = createPruning(settings, { records, inTurn });

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

  /** What cannot be written is no reason to stop anything; it is only strict on those who come later. It is tried with each look. */
  function orSay(what: string) {
    const say = createSaying(log, what);
    return async (image: string, work: () => Promise<void>): Promise<void> => {
      const done = prepared().then(() => inTurn(work));
      await done.then(say.well, (error: unknown) => say.failed({ image }, error));
    };
  }

  const orSayPulled = orSay("that an image was pulled could not be written down");
  const orSayFailed = orSay("that an image is not being pulled any more could not be written down");
  const orSayLearnt = orSay("by which Secret an image is to be had could not be written down");
  const pruning = createSaying(log, "the records of images that are here no more cannot be removed");

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
      orSayPulled(image, async () => {
        await add(image, imageRef, by);
        unheard.trust(image);
        await intents.ended(image);
      }),
    async failed(image, isHeard) {
      const after = isHeard ? undefined : await present(image);
      await orSayFailed(image, async () => {
        if (!isHeard) await unheard.ended(image, after);
        await intents.ended(image);
      });
    },
    learnt: (image, imageRef, secret) =>
      orSayLearnt(image, () => add(image, imageRef, { kubernetesSecrets: [secret] })),
    async audit() {
      const audited = async () => {
        await prepared();
        await unheard.settle();
        await prune();
      };
      await audited().then(pruning.well, (error: unknown) => {
        // A runtime that is away is told by others, and asked again with the next audit.
        if (error instanceof CriError) return;
        if (!(error instanceof FilesError)) throw error;
        pruning.failed({}, error);
      });
    },
  };
}

/** Says once that something does not work, and not with each look, until it has worked again. */
function createSaying(log: Log, what: string) {
  const told = createTold();
  return {
    well: told.clear,
    failed(fields: Readonly<Record<string, unknown>>, error: unknown): void {
      // The file's name is part of the message, and there are many.
      const why = error instanceof FilesError || error instanceof CriError ? error.code : String(error);
      log[told.isNews(why) ? "warn" : "debug"]({ ...fields, err: error }, what);
    },
  };
}

interface Unsettled {
  readonly intents: PullIntents;
  readonly add: (image: string, imageRef: string, by: undefined) => Promise<void>;
  /** What the runtime has of an image now; undefined where it does not say. */
  readonly present: (image: string) => Promise<BeforePull | undefined>;
  readonly inTurn: (work: () => Promise<void>) => Promise<void>;
}

/** The pulls whose end nobody has heard. What they have brought is other than before: to that everybody has to show a right of his own. */
function createUnheard({ clock }: Pick<ImageRecordsSettings, "clock">, { intents, add, present, inTurn }: Unsettled) {
  /** When the latest such pull of an image was given up, where it may bring something yet. */
  const givenUpAt = new Map<string, number>();

  async function judge(image: string, before: BeforePull, { ref }: BeforePull): Promise<void> {
    if (ref !== undefined && ref !== before.ref) await add(image, ref, undefined);
    trust(image);
  }

  function trust(image: string): void {
    intents.trust(image);
    givenUpAt.delete(image);
  }

  async function settleOne(image: string, at: number): Promise<void> {
    const after = await present(image);
    await inTurn(async () => {
      const before = intents.before(image);
      // The end of another pull of it tells of both.
      if (givenUpAt.get(image) !== at || intents.isUnderWay(image)) return;
      if (before === undefined || after === undefined) return;
      await judge(image, before, after);
      await intents.forget(image);
    });
  }

  return {
    trust,
    async ended(image: string, after: BeforePull | undefined): Promise<void> {
      const before = intents.before(image);
      // An image that is not there yet may come a moment later: the runtime only hears now that nobody waits for it.
      if (before !== undefined && after?.ref !== undefined) return await judge(image, before, after);
      intents.doubt(image);
      if (before !== undefined) givenUpAt.set(image, clock.now());
    },
    async settle(): Promise<void> {
      for (const [image, at] of [...givenUpAt])
        if (Math.abs(clock.now() - at) >= PULL_ENDS_WITHIN_MS) await settleOne(image, at);
    },
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
  readonly inTurn: (work: () => Promise<void>) => Promise<void>;
}

/** Rejects with `CriError` or `FilesError`. */
function createPruning({ refs, clock }: ImageRecordsSettings, { records, inTurn }: Pruned): () => Promise<void> {
  let prunedAt = Number.NEGATIVE_INFINITY;
  return async () => {
    const kept = records.kept();
    if (kept.size === 0 || Math.abs(clock.now() - prunedAt) < PRUNE_EVERY_MS) return;
    const present = await refs();
    prunedAt = clock.now();
    // A node always has an image, that of its sandboxes: a runtime that lists none has not read them yet.
    if (present.length > 0) await inTurn(() => records.removeUnknown(kept, present));
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
