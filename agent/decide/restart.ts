import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { delayOf, dueAfter } from "./backoff.ts";
import type { ContainerExit, ExitedContainer } from "./observed.ts";

const FIRST_DELAY_MS = 10_000;
const FORGIVEN_AFTER_MS = 600_000;

/** The pod's `restartPolicy` applied to one exit. */
export function shouldRestart(pod: Pod, { exitCode }: Pick<ContainerExit, "exitCode">): boolean {
  switch (pod.spec.restartPolicy) {
    case "Never":
      return false;
    case "OnFailure":
      return exitCode !== 0;
    default:
      return true;
  }
}

/*
 * The back-off is arithmetic on what the container itself carries. `crashes` is written to it at creation:
 *
 *   attempt 0 (crashes 0) exits: restart at once        -> attempt 1 (crashes 1)
 *   attempt 1 exits:             wait 10 s              -> attempt 2 (crashes 2)
 *   attempt 2 exits:             wait 20 s              -> attempt 3 (crashes 3) …  40, 80, 160, 300, 300 s
 *   attempt n exits after more than 10 min of life: restart at once -> attempt n+1 (crashes 1)
 *
 * So an agent that dies and comes back waits exactly as long as the one that died would have. The numbers are the
 * kubelet's: base 10 s (or the configured maximum, if that is shorter), doubling, forgiven after 600 s.
 */

/** The delay that the exit of a container with so many crashes behind it has to wait, in milliseconds. */
export function restartDelayMs(crashes: number, maxDelayMs: number): number {
  return delayOf({ firstMs: FIRST_DELAY_MS, longestMs: maxDelayMs }, crashes);
}

/** When an exited container may start again, in epoch milliseconds. */
export function restartAt(exited: ExitedContainer, maxDelayMs: number, now: number): number {
  if (isForgiven(exited)) return exited.finishedAt;
  return dueAfter(exited.finishedAt, restartDelayMs(exited.crashes, maxDelayMs), now);
}

/** What to write on the successor of an exited container. */
export function crashesAfter(exited: ExitedContainer): number {
  return isForgiven(exited) ? 1 : exited.crashes + 1;
}

/** True after a life of more than ten minutes: what happened before it does not count. */
export function isForgiven({ createdAt, finishedAt }: ExitedContainer): boolean {
  return finishedAt - createdAt > FORGIVEN_AFTER_MS;
}
