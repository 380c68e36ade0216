import type { Clock, Instant } from "../../host/clock.ts";

/**
 * How long ago the sandboxes of this machine got their networks, by the monotonic clock from when this process knows of them. The times
 * of files are by the wall clock, which a node without a battery sets forward by years while its first pods start.
 */
export interface AttachmentAges {
  /** Counts the age from now: ADD begins, or has succeeded. Remembers the newest thousand. */
  resetAge(containerId: string): void;
  /**
   * The age at `atMs` of the monotonic clock, in milliseconds; below zero for what was added after that. Of a container that this
   * process does not know, the time of a file decides.
   */
  ageAt(atMs: number, containerId: string, modifiedAt: Instant): number;
}

const MAX_REMEMBERED = 1000;

export function createAttachmentAges({ now, monotonicMs }: Pick<Clock, "now" | "monotonicMs">): AttachmentAges {
  // A map iterates in the order of its insertions.
  const addedAtMs = new Map<string, number>();

  function remember(containerId: string, atMs: number): void {
    addedAtMs.delete(containerId);
    addedAtMs.set(containerId, atMs);
    const [oldest] = addedAtMs.keys();
    if (addedAtMs.size > MAX_REMEMBERED && oldest !== undefined) addedAtMs.delete(oldest);
  }

  return {
    resetAge: (containerId) => remember(containerId, monotonicMs()),
    ageAt(atMs, containerId, modifiedAt) {
      // A file from the future was written before the clock was set back.
      const byFileMs = Math.max(0, now() - modifiedAt);
      if (!addedAtMs.has(containerId)) remember(containerId, monotonicMs() - byFileMs);
      return atMs - (addedAtMs.get(containerId) ?? 0);
    },
  };
}
