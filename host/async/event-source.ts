/** The reasons that were told since it was well last. */
export interface Told {
  /** Whether this one is to be told now; from then on it counts as told. */
  isNews(reason: string): boolean;
  isEmpty(): boolean;
  clear(): void;
}

/** Some servers put the time or the number of a request into their words: each of these would be another reason. */
const MOST_REASONS = 32;

/** Remembers reasons so that each is told once, and no more than 32: neither the log nor the memory of it grows with an outage. */
export function createTold(): Told {
  const reasons = new Set<string>();
  return {
    isNews(reason) {
      if (reasons.has(reason) || reasons.size >= MOST_REASONS) return false;
      reasons.add(reason);
      return true;
    },
    isEmpty: () => reasons.size === 0,
    clear: () => reasons.clear(),
  };
}
