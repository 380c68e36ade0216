import type { DesiredNow } from "./desired.ts";
import type { PodMemory } from "./memory.ts";
import type { ObservedPod } from "./observed.ts";
import type { Settings } from "./settings.ts";

/** All that a status is made of. */
export interface StatusScene {
  readonly desired: DesiredNow;
  readonly observed: ObservedPod;
  readonly memory: PodMemory;
  readonly settings: Settings;
  /** The pod has to end. */
  readonly isEnding: boolean;
  /** The pod has to end, and nothing of it runs any more: what is said now is the last word. */
  readonly isFinal: boolean;
  readonly now: number;
}
