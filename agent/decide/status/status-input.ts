import type { DesiredPodView } from "../pod/desired.ts";
import type { PodMemory } from "../pod/memory.ts";
import type { ObservedPod } from "../pod/observed.ts";
import type { Stage } from "../pod/stage.ts";
import type { PodSettings } from "../settings.ts";
import type { PreviousStatus } from "./previous-status.ts";

/** What a pod's status is computed from. */
export interface StatusInput {
  readonly desired: DesiredPodView;
  readonly previousStatus: PreviousStatus;
  readonly observed: ObservedPod;
  readonly memory: PodMemory;
  readonly settings: PodSettings;
  readonly stage: Stage;
  readonly now: number;
}
