import { CriError } from "../../../cri/error.ts";
import { FilesError } from "../../../host/fs/files.ts";
import { decodePullIntent } from "../../../proto/kubelet/image-records.ts";
import { INTENT_FOLDER, type PullIntents } from "./pull-intents.ts";
import { MAX_RECORD_BYTES, type PulledRecords, type PulledRecordsOptions, recordNames } from "./pulled-records.ts";

interface LeftoverIntentsOptions extends PulledRecordsOptions {
  /** The runtime's reference of an image on the node; undefined if it is absent. Rejects with `CriError`. */
  readonly refOf: (image: string) => Promise<string | undefined>;
}

interface LeftoverIntentsDeps {
  readonly intents: PullIntents;
  readonly records: Pick<PulledRecords, "list">;
  /** Records an image that was pulled with unknown credentials. */
  readonly add: (image: string, imageRef: string, by: undefined) => Promise<void>;
}

/** The intents that an earlier agent left. A failure to list them is logged once, and each call tries again. */
export function createLeftoverIntents(options: LeftoverIntentsOptions, deps: LeftoverIntentsDeps) {
  const { root, log } = options;
  let ready: Promise<void> | undefined;
  let isKnown = false;
  // One line for each outage, whatever its reasons.
  let isLogged = false;

  /** Settles the leftover intents: their images that are on the node were pulled with unknown credentials. */
  async function settleAll(): Promise<void> {
    for (const name of await list())
      await settleIntent(options, deps, `${INTENT_FOLDER}/${name}`).catch((error: unknown) => {
        const isOfImage = error instanceof CriError && error.code !== "UNAVAILABLE";
        if (!isOfImage && !(error instanceof FilesError)) throw error;
        log.warn({ file: `${INTENT_FOLDER}/${name}`, err: error }, "cannot recover an interrupted image pull record");
      });
  }

  /** Empty if the intents cannot be listed. */
  async function list(): Promise<readonly string[]> {
    try {
      await deps.records.list();
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

async function settleIntent(
  { root, refOf, log }: LeftoverIntentsOptions,
  { intents, add }: LeftoverIntentsDeps,
  file: string,
): Promise<void> {
  const image = decodePullIntent(await root.read(file, MAX_RECORD_BYTES));
  if (image === undefined) return log.warn({ file }, "this file is not an image pull intent; leaving it alone");
  if (intents.isUnderWay(image)) return;
  intents.markUnverified(image);
  const imageRef = await refOf(image);
  if (imageRef === undefined) return;
  await add(image, imageRef, undefined);
  await intents.forget(image);
}
