import type { ContainerStateTerminated } from "../../../proto/kubernetes/gen/types.ts";
import type { PodMemory } from "../pod/memory.ts";
import type { ObservedContainer, ObservedPod } from "../pod/observed.ts";
import { type PreviousStatus, previousStatusOfInstance } from "../status/previous-status.ts";

/** The part of an exit that says whether the container was started at all. */
export type EndOfStart = Pick<ContainerStateTerminated, "exitCode" | "reason" | "message">;

/**
 * Whether a container has never run because its start was interrupted, so that not even `restartPolicy: Never` forbids
 * another instance. containerd does that in four cases (1.6 in all; later ones remove such a task in step 3 of the first):
 *
 *   1. StartContainer registers a task with the sandbox's shim
 *   2. containerd is killed before the shim has created the container
 *   3. the next containerd loads the task, and shows the container as created, since the shim does not know it
 *   4. StartContainer fails, "already exists", and ends the container: 128, StartError
 *
 *   1. containerd is killed after StartContainer has made the folder of the task, before it starts the shim
 *   2. the next containerd shows the container as created
 *   3. StartContainer fails, since the folder exists, and ends the container: 128, StartError
 *
 *   1. the agent is killed while the shim creates the container, which cancels its StartContainer
 *   2. containerd ends the container: 128, StartError, "context canceled". The shim was not asked to start it
 *
 *   1. the agent is killed while containerd starts the shim, which cancels its StartContainer
 *   2. containerd kills the shim and ends the container: 128, StartError, "failed to start shim", "signal: killed"
 *
 * The kubelet does not start a container that it finds created; it creates the next one, and so does not meet the first two cases. Berth
 * starts it, since the call of an agent that died may still be in progress: then a second instance would run beside it.
 */
export function wasStartInterrupted({ reason, message = "" }: EndOfStart): boolean {
  return reason === "StartError" && INTERRUPTED.test(message);
}

const INTERRUPTIONS = [
  String.raw`task \S+: already exists`,
  String.raw`failed to start shim: mkdir \S+: file exists`,
  "failed to create shim task: context canceled",
  "failed to start shim: start failed: (?:: )?signal: killed",
];
const INTERRUPTED = new RegExp(`^failed to create containerd task: (?:${INTERRUPTIONS.join("|")})`);

/**
 * Shows a container of unknown state as created and lost if it was never started: it has no log file, which a start
 * creates, and neither this agent nor the pod's status knows of a start. containerd shows it as unknown if it was killed
 * during CreateContainer. It has no process to stop and no exit.
 */
export function withUnstartedContainers(
  previousStatus: PreviousStatus,
  observed: ObservedPod,
  { startedAttempts }: Pick<PodMemory, "startedAttempts">,
): ObservedPod {
  if (!observed.containers.some(({ state }) => state === "unknown")) return observed;
  const isStarted = ({ id, name, attempt }: ObservedContainer) => {
    const reported = previousStatusOfInstance(previousStatus, id)?.state;
    if (reported?.running !== undefined || reported?.terminated !== undefined) return true;
    return [observed.loggedAttempts, startedAttempts].some((each) => (each.get(name) ?? -1) >= attempt);
  };
  const containers = observed.containers.map((each) =>
    each.state === "unknown" && !isStarted(each) ? ({ ...each, state: "created", isLost: true } as const) : each,
  );
  return { ...observed, containers };
}
