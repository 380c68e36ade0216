/** Says which messages to log, so that an outage fills neither the log nor the memory. */
export interface LogOnce {
  /** Whether to log this message now. */
  shouldLog(message: string): boolean;
  /** Whether nothing was logged since the last `clear`. */
  isEmpty(): boolean;
  /** After a success the same message is worth a line again. */
  clear(): void;
}

/** Some servers put a time or a request id into their messages, which makes each another one. */
const MAX_MESSAGES = 32;

/** Each message once until `clear`, and no more than 32 different ones. */
export function createLogOnce(): LogOnce {
  const messages = new Set<string>();
  return {
    shouldLog(message) {
      if (messages.has(message) || messages.size >= MAX_MESSAGES) return false;
      messages.add(message);
      return true;
    },
    isEmpty: () => messages.size === 0,
    clear: () => messages.clear(),
  };
}

/** Each message that differs from the one before: for a state that has one reason at a time. */
export function createLogOnChange(): LogOnce {
  let last: string | undefined;
  return {
    shouldLog(message) {
      const isNew = message !== last;
      last = message;
      return isNew;
    },
    isEmpty: () => last === undefined,
    clear() {
      last = undefined;
    },
  };
}

/** As `createLogOnChange` for each key. */
export interface KeyedLogOnChange<K> {
  shouldLog(key: K, message: string): boolean;
  clear(key: K): void;
}

export function createKeyedLogOnChange<K>(): KeyedLogOnChange<K> {
  const last = new Map<K, string>();
  return {
    shouldLog(key, message) {
      const isNew = message !== last.get(key);
      last.set(key, message);
      return isNew;
    },
    clear: (key) => void last.delete(key),
  };
}
