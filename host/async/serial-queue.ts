/** Runs one piece of work at a time, in the order of the calls. Settles as the work does; a failure stops nothing behind it. */
export type SerialQueue = <T>(work: () => Promise<T>) => Promise<T>;

export function createSerialQueue(): SerialQueue {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const done = last.then(work);
    last = done.catch(() => {
      // The caller of this work gets the error.
    });
    return done;
  };
}

/** As a `SerialQueue` for each key. A key whose queue is empty takes no memory. */
export type KeyedSerialQueue<K> = <T>(key: K, work: () => Promise<T>) => Promise<T>;

export function createKeyedSerialQueue<K>(): KeyedSerialQueue<K> {
  const queues = new Map<K, { readonly run: SerialQueue; size: number }>();
  return async (key, work) => {
    const queue = queues.get(key) ?? { run: createSerialQueue(), size: 0 };
    queues.set(key, queue);
    queue.size += 1;
    try {
      return await queue.run(work);
    } finally {
      queue.size -= 1;
      if (queue.size === 0) queues.delete(key);
    }
  };
}
