import { credentialsToRecord } from "../../decide/admission/image-verification.ts";
import type { ObservedPod } from "../../decide/pod/observed.ts";
import type { ImageRecords } from "./image-records.ts";

/**
 * Adds to the pull records the Secrets that have proved access to an image, in the background, so that they count even if
 * the Secrets of the pull are deleted.
 */
export function createCredentialRecorder(records: ImageRecords) {
  /** The writes under way: each observation until their end would repeat them. */
  const underWay = new Map<string, Promise<void>>();
  return {
    record(observed: ObservedPod): void {
      for (const { image, ref, secret } of credentialsToRecord(observed)) {
        const key = JSON.stringify([image, ref, secret.uid, secret.credentialHash]);
        if (underWay.has(key)) continue;
        underWay.set(
          key,
          records.addCredential(image, ref, secret).finally(() => underWay.delete(key)),
        );
      }
    },
    async settled(): Promise<void> {
      await Promise.all(underWay.values());
    },
  };
}
