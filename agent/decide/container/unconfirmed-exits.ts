import { allContainerStatuses } from "../../../proto/kubernetes/containers.ts";
import type { ContainerStateTerminated, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import type { ObservedContainer, ObservedPod } from "../pod/observed.ts";
import { type PreviousStatus, toEpochMs } from "../status/previous-status.ts";

/**
 * How long a reported exit counts while the runtime shows the container running: as long as the agent that got its
 * event would have read the status again (`agent/observed/pods/exit-rechecks.ts`).
 * @internal
 */
export const UNCONFIRMED_EXIT_MS = 41_000;

/** A pod with the exits that only its status in the API shows. */
export interface WithUnconfirmedExits {
  readonly observed: ObservedPod;
  /** When the first of these exits stops to count, unless the runtime shows it before. */
  readonly countsUntil: number | undefined;
}

/**
 * Lets a running container count as exited if the pod's status has just reported the exit of this instance. The agent
 * may have died before the runtime's status showed it:
 *
 *   1. the runtime's event reports an exit      3. the agent dies, and the next one reads the runtime's status,
 *   2. the agent reports the exit                  which shows the container running; no event follows
 *
 * Without this rule the next agent would take the exit back until a relist shows it. As with the exit of an event, it
 * reports this exit and does not act on it.
 */
export function withUnconfirmedExits(
  { containers: reported }: PreviousStatus,
  observed: ObservedPod,
  now: number,
): WithUnconfirmedExits {
  const exits = [...reported.values()].flatMap(({ state, lastState }) => [state?.terminated, lastState?.terminated]);
  const unconfirmed = observed.containers.flatMap((container) => {
    if (container.state !== "running") return [];
    const exit = exits.find((each) => each?.containerID?.endsWith(`//${container.id}`));
    const exited = exit === undefined ? undefined : toExited(container, exit, now);
    return exited === undefined ? [] : [exited];
  });
  if (unconfirmed.length === 0) return { observed, countsUntil: undefined };
  const containers = observed.containers.map((each) => unconfirmed.find(({ id }) => id === each.id) ?? each);
  const countsUntil = Math.min(...unconfirmed.map(({ finishedAt }) => finishedAt)) + UNCONFIRMED_EXIT_MS;
  return { observed: { ...observed, containers, hasUnconfirmedExit: true }, countsUntil };
}

/** The container with the reported exit; undefined if that exit is too old, or in the future by this node's clock. */
function toExited(
  running: Extract<ObservedContainer, { state: "running" }>,
  { exitCode, reason = "", message = "", ...times }: ContainerStateTerminated,
  now: number,
) {
  const finishedAt = toEpochMs(times.finishedAt);
  if (finishedAt === undefined || !isRecent(finishedAt, now)) return undefined;
  return { ...running, state: "exited" as const, finishedAt, exitCode, reason, message };
}

/**
 * Whether a status takes back an exit that has just been reported. Decisions about static pods do not know the status
 * of their mirror pods, so this is for the patch: it waits until the runtime shows the exit.
 */
export function takesExitBack(reported: PodStatus, decided: PodStatus, now: number): boolean {
  const running = allContainerStatuses(decided).filter(({ state }) => state?.running !== undefined);
  return allContainerStatuses(reported).some(({ state, lastState }) =>
    [state?.terminated, lastState?.terminated].some((exit) => {
      const finishedAt = toEpochMs(exit?.finishedAt);
      const isRunning = running.some(
        ({ containerID }) => containerID !== undefined && containerID === exit?.containerID,
      );
      return finishedAt !== undefined && isRunning && isRecent(finishedAt, now);
    }),
  );
}

const isRecent = (finishedAt: number, now: number) => finishedAt <= now && now < finishedAt + UNCONFIRMED_EXIT_MS;
