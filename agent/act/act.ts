import type { Action } from "../decide/pod/action.ts";
import { containerPerformers } from "./performers/container-performers.ts";
import { imagePerformers } from "./performers/image-performers.ts";
import { lifecyclePerformers } from "./performers/lifecycle-performers.ts";
import type { Performer, Performers } from "./performers/performer.ts";
import { resizePerformers } from "./performers/resize-performers.ts";
import { resourceActionPerformers } from "./performers/resource-performers.ts";
import { sandboxPerformers } from "./performers/sandbox-performers.ts";

/** The one table of how each kind of action is performed. */
const performers = {
  ...resourceActionPerformers,
  ...imagePerformers,
  ...sandboxPerformers,
  ...containerPerformers,
  ...lifecyclePerformers,
  ...resizePerformers,
} satisfies Performers<Action>;

export function performerOf(action: Action): Performer<Action> {
  return performers[action.kind];
}
