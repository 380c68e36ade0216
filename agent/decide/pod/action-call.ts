import type { PodUid } from "../../../proto/ids.ts";
import type { Action } from "./action.ts";
import type { ActionResult } from "./memory.ts";

/** An action that is being taken. */
export interface Beginning {
  readonly uid: PodUid;
  /** `namespace/name`, as far as it is known. */
  readonly pod: string;
  readonly action: Action;
  readonly startedAt: number;
}

/** An action that was taken, and what became of it: for the log, the figures, and the story of a pod's start. */
export interface Taken extends Beginning {
  /** When it waited for others of its kind no more, where it may have had to. */
  readonly beganAt?: number;
  readonly endedAt: number;
  /** `given up` because the pod has to end, which is no failure. */
  readonly result: ActionResult | "given up";
}
