import { readdirSync } from "node:fs";
import { join } from "node:path/posix";
import type { Instant } from "../../host/clock.ts";
import type { AttachmentKey } from "../cache-entry.ts";
import { toCniError } from "../to-cni-error.ts";
import { createAttachmentStore } from "./attachment-store.ts";

/** An attachment of a built-in network, whatever list has the network now. */
export interface RecordedAttachment extends AttachmentKey {
  /** When its ADD began. */
  readonly writtenAt: Instant;
}

/** The names of the networks of which this machine has a record. `folder` has the records of all networks. */
export function recordedNetworks(folder: string): readonly string[] {
  try {
    return readdirSync(folder).toSorted();
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return [];
    throw error;
  }
}

/** The attachments whose ADD an executor with this cache has started. Those of another agent of this machine are left out. Throws `CniError`. */
export function recordedAttachments(folder: string, cacheDir: string): readonly RecordedAttachment[] {
  try {
    return recordedNetworks(folder).flatMap((network) =>
      createAttachmentStore(join(folder, network))
        .origins()
        .filter((origin) => origin.cacheDir === cacheDir)
        .map(({ containerId, ifName, writtenAt }) => ({ network, containerId, ifName, writtenAt })),
    );
  } catch (error) {
    throw toCniError(error);
  }
}
