/** Resolves when the signal aborts, at once if it has aborted already. Never rejects. */
export function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => void onAbort(signal, resolve));
}

/**
 * Calls `listener` once when the signal aborts, at once if it has aborted already, never without a signal. Returns the function that removes
 * the listener, so that a signal that lives long collects none.
 */
export function onAbort(signal: AbortSignal | undefined, listener: () => void): () => void {
  if (signal?.aborted) listener();
  if (signal === undefined || signal.aborted) return () => {};
  // A function of its own, so that the same listener can be added more than once.
  const listen = () => listener();
  signal.addEventListener("abort", listen, { once: true });
  return () => signal.removeEventListener("abort", listen);
}

/** Settles as `promise` does, or rejects with the signal's reason if that aborts first. A later rejection of `promise` is ignored. */
export function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const remove = onAbort(signal, () => reject(signal.reason));
    promise.then(resolve, reject).finally(remove);
  });
}
