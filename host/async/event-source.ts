/**
 * Events of one kind. It exists before the component that sends them and those that receive them, so that neither has
 * to know the other.
 */
export interface EventSource<T extends readonly unknown[] = []> {
  /** Calls every subscriber, in the order in which they have subscribed. Without a subscriber the event is lost. */
  emit(...event: T): void;
  subscribe(listener: (...event: T) => void): void;
}

export function createEventSource<T extends readonly unknown[] = []>(): EventSource<T> {
  const listeners: ((...event: T) => void)[] = [];
  return {
    emit(...event) {
      for (const listener of listeners) listener(...event);
    },
    subscribe: (listener) => void listeners.push(listener),
  };
}
