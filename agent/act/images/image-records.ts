import { CriError } from "../../../cri/error.ts";
import { createFailureLog } from "../../../host/async/failure-log.ts";
import { createSerialQueue } from "../../../host/async/serial-queue.ts";
import type { Clock } from "../../../host/clock.ts";
import { FilesError } from "../../../host/fs/files.ts";
import type { Log } from "../../../host/log/log.ts";
import type { ImagePullCredentials, ImagePullSecret } from "../../../proto/kubelet/image-records.ts";
import { formatTime } from "../../../proto/kubernetes/values/time.ts";
import { type RecordedImage, withAddedCredentials } from "../../decide/admission/image-verification.ts";
import { createAbandonedPulls } from "./abandoned-pulls.ts";
import { createLeftoverIntents } from "./leftover-intents.ts";
import { createPullIntents, type ImageState } from "./pull-intents.ts";
import { createRecordPruner } from "./pull-record-pruner.ts";
import { createPulledRecords, type PulledRecordsOptions } from "./pulled-records.ts";
import { createUnwrittenRecords } from "./unwritten-records.ts";

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
   * Settles pulls whose result is unknown or not recorded yet, and removes the records of images that the runtime no
   * longer has. Never rejects.
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
  const { markVerified } = abandonedPulls;
  const prune = createRecordPruner(options, { records, serially });

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

  /** Writes one after the other, when the intents of an earlier agent are settled. */
  const write = (work: () => Promise<void>) => whenSettled().then(() => serially(work));
  const orLogPulled = orLog(log, write, "cannot record an image pull");
  const unwritten = createUnwrittenRecords({ intents, add, readImage, markVerified, orLog: orLogPulled });
  const orLogFailed = orLog(log, write, "cannot remove the intent of an image pull that has ended");
  const orLogCredential = orLog(log, write, "cannot record the Secret that gives access to an image");
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
        unwritten.orKeep(image, imageRef, by, () =>
          intents.end(image, async () => {
            await add(image, imageRef, by);
            markVerified(image);
          }),
        ),
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
        await unwritten.writeAgain();
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

/**
 * A failed write stops nothing: later pods only have to prove their access. A Secret is added again with the next
 * observation, the record of a pull with the next audit; until then its intent stays.
 */
function orLog(log: Log, write: (work: () => Promise<void>) => Promise<void>, what: string) {
  const failureLog = createFailureLog(log, what, reasonOf);
  return (image: string, work: () => Promise<void>): Promise<void> =>
    write(work).then(failureLog.clear, (error: unknown) => failureLog.report(error, { image }));
}

/** Compares codes, because messages contain file names and there are many files. */
function reasonOf(error: unknown): string {
  return error instanceof FilesError || error instanceof CriError ? error.code : String(error);
}
