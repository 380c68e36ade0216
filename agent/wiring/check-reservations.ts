import { machineCapacity, type ResourceSettings } from "../decide/node/node-resources.ts";
import type { ObservedMachine } from "../decide/node/observed-node.ts";
import { reservationProblem } from "../decide/node/reservations.ts";
import { StartError } from "../preflight/start-error.ts";

/**
 * Refuses to start on a machine that has less than is reserved on it. `maxTasks` is the kernel's limit of processes and
 * threads, undefined if it is unknown. Throws `StartError` with the arithmetic.
 */
export function checkReservations(
  machine: ObservedMachine,
  maxTasks: number | undefined,
  settings: ResourceSettings,
): void {
  const pid = maxTasks === undefined ? {} : { pid: String(maxTasks) };
  const problem = reservationProblem({ ...machineCapacity(machine, settings), ...pid }, machine.onlineCpus, settings);
  if (problem !== undefined) throw new StartError(problem);
}
