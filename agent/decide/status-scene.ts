import type { DesiredNow } from "./desired.ts";
import type { PodMemory } from "./memory.ts";
import type { ObservedPod } from "./observed.ts";
import type { Settings } from "./settings.ts";
import type { Stage } from "./stage.ts";

/** All that a status is made of. */
export interface StatusScene {
  readonly desired: DesiredNow;
  readonly observed: ObservedPod;
  readonly memory: PodMemory;
  readonly settings: Settings;
  readonly stage: Stage;
  readonly now: number;
}
