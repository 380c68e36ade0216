import { CriError } from "../../../cri/error.ts";
import { createFailureLog } from "../../../host/async/failure-log.ts";
import { createSerialQueue } from "../../../host/async/serial-queue.ts";
import type { Clock } from "../../../host/clock.ts";
import { FilesError } from "../../../host/fs/files.ts";
import {
  decodePullIntent,
  type ImagePullCredentials,
  type ImagePullSecret,
} from "../../../proto/kubelet/image-records.ts";
import { formatTime } from "../../../proto/kubernetes/time.ts";
import { type RecordedImage, withAddedCredentials } from "../../decide/admission/image-verification.ts";
import { createPullIntents, type ImageState, INTENT_FOLDER, type PullIntents } from "./pull-intents.ts";
import {
  createPulledRecords,
  MAX_RECORD_BYTES,
  type PulledRecords,
  type PulledRecordsOptions,
  recordNames,
} from "./pulled-records.ts";

/**
 * The image pull records (KEP-2535): which images this node pulled, and with which credentials. A pull first writes an
 * intent; its end replaces the intent by a record or removes it. If the agent dies in between, the intent remains, and
 * every pod must prove with its own credentials that it may use the image.
 */
export interface ImageRecords {
  /**
   * The record of an image on the node. While the records cannot be listed, every image counts as pulled by this node.
   * Rejects with `CriError` while leftover intents cannot be checked because the runtime is unreachable.
   */
  recordOf(image: string, imageRef: string): Promise<RecordedImage>;
  /**
   * Records the intent before a pull. Rejects with `FilesError` (an unrecorded pull must not start), and as `recordOf` does.
   */
  recordIntent(image: string): Promise<void>;
  /** Never rejects: without a record the next pod only has to prove its access again. */
  recordPulled(image: string, imageRef: string, by: ImagePullCredentials): Promise<void>;
  /**
   * `isRejected`: the runtime itself reported the failure; otherwise this checks whether the image has changed. Never
   * rejects.
   */
  recordFailed(image: string, isRejected: boolean): Promise<void>;
  /**
   * Settles pulls whose result is unknown, and removes the records of images that the runtime no longer has. Never
   * rejects.
   */
  audit(): Promise<void>;
  /** Adds a Secret with which the image may be used. Never rejects. */
  addCredential(image: string, imageRef: string, secret: ImagePullSecret): Promise<void>;
}

export interface ImageRecordsOptions extends PulledRecordsOptions {
  /** The runtime's reference of an image on the node; undefined if it is absent. Rejects with `CriError`. */
  readonly refOf: (image: string) => Promise<string | undefined>;
  /** The references of all images on the node. Rejects with `CriError`. */
  readonly refs: () => Promise<readonly string[]>;
  readonly clock: Pick<Clock, "now">;
}

/**
 * Every reconnection to the runtime causes an audit. Shorter than the regular audit period, so that each regular audit
 * prunes.
 */
const PRUNE_PERIOD_MS = 60_000;
/** By then the runtime has cancelled an aborted pull or has finished it. */
const PULL_SETTLED_AFTER_MS = 60_000;

/**
 * Keeps the records below `root`, the kubelet's root directory. The first call settles the intents that an earlier
 * agent left there.
 */
export function createImageRecords(options: ImageRecordsOptions): ImageRecords {
  const { root, refOf, clock, log } = options;
  const intents = createPullIntents(root);
  const records = createPulledRecords({ root, log });
  // Two pulls that end together must not overwrite each other's record.
  const serially = createSerialQueue();
  const leftoverIntents = createLeftoverIntents(options, { intents, records, add });
  const whenSettled = () => leftoverIntents.ensureSettled(serially);
  const abandonedPulls = createAbandonedPulls(options, { intents, add, readImage, serially });
  const prune = createPruner(options, { records, serially });

  async function add(image: string, imageRef: string, by: ImagePullCredentials | undefined): Promise<void> {
    const lastUpdatedTime = formatTime(clock.now());
    const record = withAddedCredentials(await records.get(imageRef), { image, imageRef, lastUpdatedTime }, by);
    if (record !== undefined) await records.save(record);
  }

  /** The state of an image in the runtime; undefined if the runtime does not respond. */
  async function readImage(image: string): Promise<ImageState | undefined> {
    try {
      return { ref: await refOf(image) };
    } catch (error) {
      // The pull itself reports the error; here it only means that the state is unknown.
      if (error instanceof CriError) return undefined;
      throw error;
    }
  }

  /**
   * A failed write stops nothing: later pods only have to prove their access. A Secret is added again with the next
   * observation; the intent of a pull stays until a later pull of the image, or the next agent, settles it.
   */
  function orLog(what: string) {
    const failureLog = createFailureLog(log, what, reasonOf);
    return async (image: string, work: () => Promise<void>): Promise<void> => {
      const done = whenSettled().then(() => serially(work));
      await done.then(failureLog.clear, (error: unknown) => failureLog.report(error, { image }));
    };
  }

  const orLogPulled = orLog("cannot record an image pull");
  const orLogFailed = orLog("cannot remove the intent of an image pull that has ended");
  const orLogCredential = orLog("cannot record the Secret that gives access to an image");
  const pruneLog = createFailureLog(log, "cannot remove the records of images that are gone", reasonOf);

  return {
    async recordOf(image, imageRef) {
      await whenSettled();
      const record = await records.get(imageRef);
      const isPulledByAgent = !leftoverIntents.isKnown() || records.has(imageRef) || intents.has(image, imageRef);
      return { isPulledByAgent, record };
    },
    async recordIntent(image) {
      await whenSettled();
      const before = await readImage(image);
      await serially(() => intents.begin(image, before));
    },
    recordPulled: (image, imageRef, by) =>
      orLogPulled(image, () =>
        intents.end(image, async () => {
          await add(image, imageRef, by);
          abandonedPulls.markVerified(image);
        }),
      ),
    async recordFailed(image, isRejected) {
      const after = isRejected ? undefined : await readImage(image);
      await orLogFailed(image, () =>
        intents.end(image, async () => {
          if (!isRejected) await abandonedPulls.ended(image, after);
        }),
      );
    },
    addCredential: (image, imageRef, secret) =>
      orLogCredential(image, () => add(image, imageRef, { kubernetesSecrets: [secret] })),
    async audit() {
      const audited = async () => {
        await whenSettled();
        await abandonedPulls.settle();
        await prune();
      };
      await audited().then(pruneLog.clear, (error: unknown) => {
        // The runtime connection logs outages itself; the next audit tries again.
        if (error instanceof CriError) return;
        if (!(error instanceof FilesError)) throw error;
        pruneLog.report(error);
      });
    },
  };
}

/** Compares codes, because messages contain file names and there are many files. */
function reasonOf(error: unknown): string {
  return error instanceof FilesError || error instanceof CriError ? error.code : String(error);
}

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
function createAbandonedPulls(
  { clock }: Pick<ImageRecordsOptions, "clock">,
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

interface LeftoverIntentsDeps {
  readonly intents: PullIntents;
  readonly records: Pick<PulledRecords, "list">;
  /** Records an image that was pulled with unknown credentials. */
  readonly add: (image: string, imageRef: string, by: undefined) => Promise<void>;
}

/** The intents that an earlier agent left. A failure to list them is logged once, and each call tries again. */
function createLeftoverIntents(
  { root, refOf, log }: ImageRecordsOptions,
  { intents, records, add }: LeftoverIntentsDeps,
) {
  let ready: Promise<void> | undefined;
  let isKnown = false;
  // One line for each outage, whatever its reasons.
  let isLogged = false;

  /** Settles the leftover intents: their images that are on the node were pulled with unknown credentials. */
  async function settleAll(): Promise<void> {
    for (const name of await list())
      await settle(`${INTENT_FOLDER}/${name}`).catch((error: unknown) => {
        const isOfImage = error instanceof CriError && error.code !== "UNAVAILABLE";
        if (!isOfImage && !(error instanceof FilesError)) throw error;
        log.warn({ file: `${INTENT_FOLDER}/${name}`, err: error }, "cannot recover an interrupted image pull record");
      });
  }

  /** Empty if the intents cannot be listed. */
  async function list(): Promise<readonly string[]> {
    try {
      await records.list();
      const names = await recordNames(root, INTENT_FOLDER);
      [isKnown, isLogged] = [true, false];
      return names;
    } catch (error) {
      if (!(error instanceof FilesError)) throw error;
      const what = "cannot list the image records; until this works, every pod must prove its access to every image";
      if (!isLogged) log.warn({ err: error }, what);
      isLogged = true;
      return [];
    }
  }

  async function settle(file: string): Promise<void> {
    const image = decodePullIntent(await root.read(file, MAX_RECORD_BYTES));
    if (image === undefined) return log.warn({ file }, "this file is not an image pull intent; leaving it alone");
    if (intents.isUnderWay(image)) return;
    intents.markUnverified(image);
    const imageRef = await refOf(image);
    if (imageRef === undefined) return;
    await add(image, imageRef, undefined);
    await intents.forget(image);
  }

  return {
    isKnown: () => isKnown,
    /** Resolves once the leftover intents are settled. Rejects with `CriError` while the runtime is unreachable. */
    ensureSettled(serially: (work: () => Promise<void>) => Promise<void>): Promise<void> {
      const again = () => {
        ready = undefined;
      };
      ready ??= serially(settleAll).then(
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

interface PrunerDeps {
  readonly records: Pick<PulledRecords, "snapshot" | "removeUnused">;
  readonly serially: (work: () => Promise<void>) => Promise<void>;
}

/** Removes the records of images that are gone, at most once a minute. Rejects with `CriError` or `FilesError`. */
function createPruner({ refs, clock }: ImageRecordsOptions, { records, serially }: PrunerDeps): () => Promise<void> {
  let prunedAt = Number.NEGATIVE_INFINITY;
  return async () => {
    const snapshot = records.snapshot();
    if (snapshot.size === 0 || Math.abs(clock.now() - prunedAt) < PRUNE_PERIOD_MS) return;
    const presentRefs = await refs();
    prunedAt = clock.now();
    // A node always has the sandbox image: a runtime that lists no image has not loaded its store yet.
    if (presentRefs.length > 0) await serially(() => records.removeUnused(snapshot, presentRefs));
  };
}
