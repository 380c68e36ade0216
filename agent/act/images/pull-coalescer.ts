import type { PullQueue } from "./pull-queue.ts";

/** One who needs an image. */
export interface PullAsk {
  readonly image: string;
  /** By what right it is pulled: another's pull serves only where this is the same. */
  readonly sharedBy: string;
  /** The policy Always: the registry has to be asked after now. */
  readonly mustBeNew: boolean;
  /** Asks the runtime; called once, and not at all when another's pull serves as well. */
  readonly pull: (signal: AbortSignal) => Promise<string>;
  /** The pull has its place: it waits for no other any more. */
  readonly began: () => void;
}

export interface SharedPulls {
  /**
   * The reference that the image resolved to. Rejects with what the pull rejects with, and with the signal's reason when that
   * aborts; the pull goes on while somebody else waits for it.
   */
  pull(ask: PullAsk, signal: AbortSignal): Promise<string>;
}

interface SharedPull {
  readonly done: Promise<string>;
  readonly abort: AbortController;
  readonly waiting: Set<PullAsk>;
  hasBegun: boolean;
}

/**
 * One pull of an image at a time, for all pods that need it and may pull it by the same right: forty pods of one image are one download, where the kubelet asks forty
 * times. Who only needs the image to be there shares whatever pull there is. Who must have it new shares a pull that has not begun,
 * never one that has: its registry may have answered before there was the need.
 */
export function createSharedPulls(queue: PullQueue): SharedPulls {
  /** By image and right, in the order in which they run. */
  const open = new Map<string, readonly SharedPull[]>();

  function begin(first: PullAsk): SharedPull {
    const key = keyOf(first);
    const before = open.get(key) ?? [];
    const abort = new AbortController();
    const { signal } = abort;
    const waiting = new Set([first]);
    const run = async () => {
      // How the pull before this one ends is told to those who wait for that one.
      await before.at(-1)?.done.catch(() => undefined);
      signal.throwIfAborted();
      return await queue.run(() => {
        shared.hasBegun = true;
        for (const { began } of waiting) began();
        return first.pull(signal);
      }, signal);
    };
    const end = () => {
      const rest = (open.get(key) ?? []).filter((each) => each !== shared);
      if (rest.length > 0) open.set(key, rest);
      else open.delete(key);
    };
    const shared: SharedPull = { done: run().finally(end), abort, waiting, hasBegun: false };
    open.set(key, [...before, shared]);
    return shared;
  }

  function join({ mustBeNew, ...ask }: PullAsk): SharedPull | undefined {
    const serves = ({ abort, hasBegun }: SharedPull) => !abort.signal.aborted && !(mustBeNew && hasBegun);
    return open.get(keyOf(ask))?.find(serves);
  }

  return {
    pull(ask, signal) {
      if (signal.aborted) return Promise.reject(signal.reason);
      const shared = join(ask) ?? begin(ask);
      shared.waiting.add(ask);
      if (shared.hasBegun) ask.began();
      return waitFor(shared, ask, signal);
    },
  };
}

const keyOf = ({ image, sharedBy }: Pick<PullAsk, "image" | "sharedBy">) => `${image} ${sharedBy}`;

/** The last one who leaves ends the pull; where that has begun, its own end is waited for. */
function waitFor(shared: SharedPull, ask: PullAsk, signal: AbortSignal): Promise<string> {
  const { done, abort, waiting } = shared;
  return new Promise((resolve, reject) => {
    const leave = () => {
      waiting.delete(ask);
      if (waiting.size === 0) abort.abort(signal.reason);
      if (waiting.size > 0 || !shared.hasBegun) reject(signal.reason);
    };
    signal.addEventListener("abort", leave, { once: true });
    done.finally(() => signal.removeEventListener("abort", leave)).then(resolve, reject);
  });
}
