/** Who wants to hear that something has changed. */
export interface Listeners {
  tell(): void;
  /** Calls back after each change; the function it returns ends that. */
  subscribe(changed: () => void): () => void;
}

export function createListeners(): Listeners {
  const listeners = new Set<() => void>();
  return {
    tell() {
      for (const changed of listeners) changed();
    },
    subscribe(changed) {
      listeners.add(changed);
      return () => listeners.delete(changed);
    },
  };
}
