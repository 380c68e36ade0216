import type { PodUid } from "../../../proto/ids.ts";
import type { Action } from "./action.ts";
import type { ActionResult } from "./memory.ts";

/** An action that has started. */
export interface ActionStarted {
  readonly uid: PodUid;
  /** `namespace/name`, as far as it is known. */
  readonly pod: string;
  readonly action: Action;
  readonly startedAt: number;
}

/** An action that has finished, with its result: for the log, the figures, and the report of a pod's start. */
export interface ActionFinished extends ActionStarted {
  /** When a queued action (a pull) started to run. */
  readonly dequeuedAt?: number;
  readonly endedAt: number;
  /**
   * `cancelled`: the loop aborted it, because the pod terminates, its termination request changed, or the agent stops.
   * It is no failure.
   */
  readonly result: ActionResult | "cancelled";
}
