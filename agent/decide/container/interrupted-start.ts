import type { ContainerStateTerminated } from "../../../proto/kubernetes/gen/types.ts";

/** The part of an exit that says whether the container was started at all. */
export type EndOfStart = Pick<ContainerStateTerminated, "exitCode" | "reason" | "message">;

/**
 * Whether a container has never run because its start was interrupted, so that not even `restartPolicy: Never` forbids
 * another instance. containerd does that in two cases (1.6 in both; later ones remove such a task in step 3 of the first):
 *
 *   1. StartContainer registers a task with the sandbox's shim
 *   2. containerd is killed before the shim has created the container
 *   3. the next containerd loads the task, and shows the container as created, since the shim does not know it
 *   4. StartContainer fails, "already exists", and ends the container: 128, StartError
 *
 *   1. the agent is killed while the shim creates the container, which cancels its StartContainer
 *   2. containerd ends the container: 128, StartError, "context canceled". The shim was not asked to start it
 *
 * The kubelet does not start a container that it finds created; it creates the next one, and so does not meet the first case. Berth
 * starts it, since the call of an agent that died may still be in progress: then a second instance would run beside it.
 */
export function wasStartInterrupted({ reason, message = "" }: EndOfStart): boolean {
  return reason === "StartError" && INTERRUPTED.test(message);
}

const INTERRUPTED =
  /^failed to create containerd task: (?:task \S+: already exists|failed to create shim task: context canceled)/;
