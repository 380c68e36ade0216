import type { Clock } from "../clock.ts";
import { unlessCode } from "./error.ts";
import { deleteGroup, setDownInGroup, setGroup } from "./links.ts";
import type { NetlinkSocket } from "./socket.ts";

/** The group of links that are about to be deleted; no other program uses this number. */
export const REMOVAL_GROUP = 0x62657274;

/** Deletes links. Resolves when they are gone; absent ones are success. Rejects with `NetlinkError`. */
export type RemoveLinks = (names: readonly string[]) => Promise<void>;

interface Removal {
  readonly names: readonly string[];
  resolve(): void;
  reject(error: unknown): void;
}

/**
 * Deletes all links that are asked for in one turn of the event loop together. For each deletion the kernel waits until no
 * processor uses the links any more, which takes two milliseconds on an idle machine and twenty on a busy one; for a
 * group it waits once.
 */
export function createLinkRemoval(socket: NetlinkSocket): RemoveLinks {
  let waiting: Removal[] = [];

  function removeAll(): void {
    const removals = waiting;
    waiting = [];
    try {
      for (const name of removals.flatMap(({ names }) => names))
        unlessCode(["ENODEV"], () => setGroup(socket, name, REMOVAL_GROUP));
      deleteGroup(socket, REMOVAL_GROUP);
      for (const { resolve } of removals) resolve();
    } catch (error) {
      for (const { reject } of removals) reject(error);
    }
  }

  return async (names) =>
    await new Promise((resolve, reject) => {
      if (waiting.length === 0) setImmediate(removeAll);
      waiting.push({ names, resolve, reject });
    });
}

/** Usually the kernel has deleted a link by then, since the runtime has removed the namespace of its other end. */
const REMOVAL_DELAY_MS = 2000;

/** Sets links down. Resolves when they carry no packet; absent ones are success. Rejects with `NetlinkError`. */
export type DisconnectLinks = (names: readonly string[]) => Promise<void>;

export interface DeferredLinkRemoval {
  readonly disconnect: DisconnectLinks;
  /** Ends the wait. The links stay down until the next removal. */
  stop(): void;
}

/**
 * Sets links down, and deletes those that still exist by `remove` at most `REMOVAL_DELAY_MS` later: the first one starts the timer, and any
 * other removal deletes them, too. So the caller does not wait while the kernel deletes a link, and this process hardly ever. If it
 * ends before, the links stay down, in the group that the next removal deletes.
 */
export function createDeferredLinkRemoval(
  socket: NetlinkSocket,
  remove: RemoveLinks,
  clock: Pick<Clock, "now" | "wakeAt">,
): DeferredLinkRemoval {
  let cancel: (() => void) | undefined;

  async function removeRemaining(): Promise<void> {
    cancel = undefined;
    await remove([]).catch(() => {
      // They stay in the group until the next DEL or GC, which reports the error.
    });
  }

  return {
    async disconnect(names) {
      for (const name of names) unlessCode(["ENODEV"], () => setDownInGroup(socket, name, REMOVAL_GROUP));
      cancel ??= clock.wakeAt(clock.now() + REMOVAL_DELAY_MS, () => void removeRemaining());
    },
    stop() {
      cancel?.();
      cancel = undefined;
    },
  };
}
