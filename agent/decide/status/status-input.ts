import type { DesiredNow } from "../pod/desired.ts";
import type { PodMemory } from "../pod/memory.ts";
import type { ObservedPod } from "../pod/observed.ts";
import type { Stage } from "../pod/stage.ts";
import type { Settings } from "../settings.ts";

/** All that a status is made of. */
export interface StatusScene {
  readonly desired: DesiredNow;
  readonly observed: ObservedPod;
  readonly memory: PodMemory;
  readonly settings: Settings;
  readonly stage: Stage;
  readonly now: number;
}
