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

/** By then the kernel has deleted a link whose other end was in a namespace that the runtime has removed. */
export const LEFT_AFTER_MS = 2000;

/**
 * Sets links down, after which they carry no packet, and deletes those that still exist `LEFT_AFTER_MS` later, by `remove`. So the caller
 * does not wait while the kernel deletes a link, nor at all for one that the kernel deletes with its pod's namespace. An absent link is
 * success. If this process ends before, the links stay down, in the group that the next removal deletes.
 */
export function createLaterLinkRemoval(
  socket: NetlinkSocket,
  remove: RemoveLinks,
  clock: Pick<Clock, "now" | "wakeAt">,
): RemoveLinks {
  let isPending = false;

  async function removeLeft(): Promise<void> {
    isPending = false;
    await remove([]).catch(() => {
      // They stay in the group: the next removal tries again, and so does GC, which reports its errors.
    });
  }

  return async (names) => {
    for (const name of names) unlessCode(["ENODEV"], () => setDownInGroup(socket, name, REMOVAL_GROUP));
    if (isPending) return;
    isPending = true;
    clock.wakeAt(clock.now() + LEFT_AFTER_MS, () => void removeLeft());
  };
}
