import type { Runtime } from "../../../cri/runtime.ts";
import type { NodeAction } from "../../decide/node/node-action.ts";

/** What the node's actions call, and what they have to report. */
export interface NodeActDeps {
  readonly runtime: Pick<Runtime, "removeImage">;
  /** An image was, or may have been, removed. */
  readonly onImagesChanged: () => void;
}

/** Makes the one outside call of an action. Rejects with the error class of the part that failed (`CriError`). */
type NodePerformer<A extends NodeAction> = (deps: NodeActDeps, action: A, signal: AbortSignal) => Promise<void>;

const performers: { readonly [K in NodeAction["kind"]]: NodePerformer<Extract<NodeAction, { readonly kind: K }>> } = {
  async removeImage({ runtime, onImagesChanged }, { image }, signal) {
    try {
      await runtime.removeImage(image, { signal });
    } finally {
      // A call that fails may have removed it.
      onImagesChanged();
    }
  },
};

/** Performs an action of the node. Rejects with `CriError`, also if the signal aborts it. */
export function performNodeAction(deps: NodeActDeps, action: NodeAction, signal: AbortSignal): Promise<void> {
  return performers[action.kind](deps, action, signal);
}
