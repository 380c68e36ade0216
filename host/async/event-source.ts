/**
 * Events of one kind. It exists before the component that sends them and those that receive them, so that neither has
 * to know the other.
 */
export interface EventSource<T extends readonly unknown[] = []> {
  /** Calls every subscriber, in the order in which they have subscribed. Without a subscriber the event is lost. */
  emit(...event: T): void;
  /** Calls the listener with each event from now on; returns the function that unsubscribes. */
  subscribe(listener: (...event: T) => void): () => void;
}

export function createEventSource<T extends readonly unknown[] = []>(): EventSource<T> {
  const listeners = new Set<(...event: T) => void>();
  return {
    emit(...event) {
      for (const listener of listeners) listener(...event);
    },
    subscribe(listener) {
      // A function of its own, so that the same listener can subscribe more than once.
      const listen = (...event: T) => listener(...event);
      listeners.add(listen);
      return () => void listeners.delete(listen);
    },
  };
}
