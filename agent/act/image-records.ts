import type { Clock } from "../../host/clock.ts";
import { FilesError } from "../../host/files.ts";
import {
  decodePullIntent,
  type ImagePullCredentials,
  type ImagePullSecret,
} from "../../proto/kubelet/image-records.ts";
import { formatTime } from "../../proto/kubernetes/time.ts";
import { type RecordedImage, withCredentials } from "../decide/image-access.ts";
import { createPullIntents, PULLING } from "./pull-intents.ts";
import { createPulledRecords, MOST_BYTES, type RecordFiles, recordNames } from "./pulled-records.ts";

/**
 * What is written down of the images that this node has pulled, and by whose right. A pull begins with an intent; its end replaces that by a
 * record, or takes it away. Whoever dies in between leaves the intent, and the image, if it is there, is one to which everybody has to show
 * a right of his own.
 */
export interface ImageRecords {
  /** What is written down of an image that is here. Rejects with `CriError` while what was left cannot be held against the runtime. */
  of(image: string, imageRef: string): Promise<RecordedImage>;
  /** Before a pull; `before` is the runtime's reference of the image where it is on the node already. Rejects with `FilesError`: what nobody would know of is not pulled. */
  begins(image: string, before?: string): Promise<void>;
  /** Never rejects: without a record the next pod has to show its right once more. */
  succeeded(image: string, imageRef: string, by: ImagePullCredentials): Promise<void>;
  /** `isKnown`: the runtime itself has said that it has not pulled it. Never rejects. */
  failed(image: string, isKnown: boolean): Promise<void>;
  /** Never rejects. */
  learnt(image: string, imageRef: string, secret: ImagePullSecret): Promise<void>;
}

export interface ImageRecordsSettings extends RecordFiles {
  /** The runtime's reference of an image that is on the node; undefined where it is not. Rejects with `CriError`. */
  readonly refOf: (image: string) => Promise<string | undefined>;
  readonly clock: Pick<Clock, "now">;
}

export function createImageRecords({ root, refOf, clock, log }: ImageRecordsSettings): ImageRecords {
  const intents = createPullIntents(root);
  const records = createPulledRecords({ root, log });
  const inTurn = createTurns();
  let ready: Promise<void> | undefined;

  /** Takes up what was left, once; the images of it that are here were pulled, and nobody knows by whose right. */
  function prepared(): Promise<void> {
    ready ??= inTurn(takeUp).catch((error: unknown) => {
      ready = undefined;
      throw error;
    });
    return ready;
  }

  async function takeUp(): Promise<void> {
    await records.find();
    for (const name of await recordNames(root, PULLING))
      await settle(`${PULLING}/${name}`).catch((error: unknown) => {
        if (!(error instanceof FilesError)) throw error;
        log.warn({ file: `${PULLING}/${name}`, err: error }, "what is left of a pull cannot be taken up");
      });
  }

  async function settle(file: string): Promise<void> {
    const image = decodePullIntent(await root.read(file, MOST_BYTES));
    if (image === undefined) return log.warn({ file }, "this is no record of a pull; it is left alone");
    intents.doubt(image);
    const imageRef = await refOf(image);
    if (imageRef === undefined) return;
    await add(image, imageRef, undefined);
    await intents.forget(image);
  }

  async function add(image: string, imageRef: string, by: ImagePullCredentials | undefined): Promise<void> {
    const lastUpdatedTime = formatTime(clock.now());
    const record = withCredentials(await records.of(imageRef), { image, imageRef, lastUpdatedTime }, by);
    if (record !== undefined) await records.keep(record);
  }

  /** What cannot be written is no reason to stop anything; it is only strict on those who come later. */
  async function orSay(what: string, image: string, work: () => Promise<void>): Promise<void> {
    const done = prepared().then(() => inTurn(work));
    await done.catch((error: unknown) => log.warn({ image, err: error }, what));
  }

  return {
    async of(image, imageRef) {
      await prepared();
      // What was there before a pull, and is there unchanged, has nothing of that pull.
      if (intents.isAsBefore(image, imageRef))
        await orSay("that a pull has brought nothing could not be written down", image, () => intents.forget(image));
      const record = await records.of(imageRef);
      return { isPulledHere: records.has(imageRef) || intents.has(image), record };
    },
    async begins(image, before) {
      await prepared();
      await inTurn(() => intents.begins(image, before));
    },
    succeeded: (image, imageRef, by) =>
      orSay("that an image was pulled could not be written down", image, async () => {
        await add(image, imageRef, by);
        intents.trust(image);
        await intents.ended(image);
      }),
    failed: (image, isKnown) =>
      orSay("that an image is not being pulled any more could not be written down", image, async () => {
        if (!isKnown) intents.doubt(image);
        await intents.ended(image);
      }),
    learnt: (image, imageRef, secret) =>
      orSay("by which Secret an image is to be had could not be written down", image, () =>
        add(image, imageRef, { kubernetesSecrets: [secret] }),
      ),
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
