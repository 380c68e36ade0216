import type { AttachmentKey } from "./cache-entry.ts";

/** All sandboxes of the container runtime. */
export interface ListedSandboxes {
  /** Whether each is ready, by its id. */
  readonly isReady: ReadonlyMap<string, boolean>;
  /** When the runtime was asked for them, by the monotonic clock. */
  readonly listedAtMs: number;
}

export interface CollectedGarbage {
  readonly deleted: readonly AttachmentKey[];
  /**
   * After how many milliseconds those that were too young can be decided, or a DEL that has failed is to be tried again; undefined if there
   * were none.
   */
  readonly againAfterMs: number | undefined;
}
