/** A set of change subscribers. */
export interface Subscribers {
  notify(): void;
  /** Calls `changed` after each change; returns the function that unsubscribes. */
  subscribe(changed: () => void): () => void;
}

export function createSubscribers(): Subscribers {
  const callbacks = new Set<() => void>();
  return {
    notify() {
      for (const changed of callbacks) changed();
    },
    subscribe(changed) {
      callbacks.add(changed);
      return () => callbacks.delete(changed);
    },
  };
}
