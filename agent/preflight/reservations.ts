import { machineCapacity, type ResourceSettings } from "../decide/node/node-resources.ts";
import type { ObservedMachine } from "../decide/node/observed-node.ts";
import { reservationProblem } from "../decide/node/reservations.ts";
import { StartError } from "./start-error.ts";

/** What of a machine can be reserved. */
type ReservableMachine = Parameters<typeof machineCapacity>[0] & Pick<ObservedMachine, "onlineCpus" | "maxTasks">;

/**
 * Why the machine cannot keep what is reserved on it, with the arithmetic and the cure; undefined if it can. A kernel that
 * does not report its limit of processes and threads is not checked for it.
 */
export function findReservationProblem(machine: ReservableMachine, settings: ResourceSettings): string | undefined {
  const pid = machine.maxTasks === undefined ? {} : { pid: String(machine.maxTasks) };
  return reservationProblem({ ...machineCapacity(machine, settings), ...pid }, machine.onlineCpus, settings);
}

/** Refuses to start on a machine that has less than is reserved on it. Throws `StartError` with the arithmetic. */
export function checkReservations(machine: ReservableMachine, settings: ResourceSettings): void {
  const problem = findReservationProblem(machine, settings);
  if (problem !== undefined) throw new StartError(problem);
}
