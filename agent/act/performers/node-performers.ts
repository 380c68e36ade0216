import type { Runtime } from "../../../cri/runtime.ts";
import type { CgroupLimits } from "../../../proto/cgroup/limits.ts";
import type { PodEvent } from "../../decide/events/pod-event.ts";
import { enforcementFailedEvents, type NodeCgroup } from "../../decide/node/cgroup-rule.ts";
import type { NodeAction } from "../../decide/node/node-action.ts";

/** What the node's actions call, and what they have to report. */
export interface NodeActDeps {
  readonly runtime: Pick<Runtime, "removeImage">;
  /** An image was, or may have been, removed. */
  readonly onImagesChanged: () => void;
  /** Undefined where the agent makes no cgroups. */
  readonly cgroups: NodeCgroupWriter | undefined;
  /** The limits of a cgroup were, or may have been, changed. */
  readonly onCgroupsChanged: () => void;
  /** Records an event of the Node object; without a cluster there is none. */
  readonly recordEvent: (event: PodEvent) => void;
}

/** The cgroups above those of pods. */
export interface NodeCgroupWriter {
  /** Makes one of our own, or writes limits of a reserved one, in the order of the calls. Rejects with `CgroupError`. */
  write(cgroup: NodeCgroup, limits: CgroupLimits, signal: AbortSignal): Promise<void>;
}

/** Makes the one outside call of an action. Rejects with the error class of the part that failed (`CriError`). */
interface NodePerformer<A extends NodeAction> {
  // A method, so that the performer of one kind is a performer of a `NodeAction`, of which it gets only its own kind.
  perform(deps: NodeActDeps, action: A, signal: AbortSignal): Promise<void>;
}

const performers: { readonly [K in NodeAction["kind"]]: NodePerformer<Extract<NodeAction, { readonly kind: K }>> } = {
  removeImage: {
    async perform({ runtime, onImagesChanged }, { image }, signal) {
      try {
        await runtime.removeImage(image, { signal });
      } finally {
        // A call that fails may have removed it.
        onImagesChanged();
      }
    },
  },
  writeCgroup: {
    async perform({ cgroups, onCgroupsChanged, recordEvent }, { cgroup, limits }, signal) {
      if (cgroups === undefined) throw new Error("cgroupsPerQOS is off: the node has no cgroups of its own");
      try {
        await cgroups.write(cgroup, limits, signal);
      } catch (error) {
        if (signal.aborted) throw error;
        for (const event of enforcementFailedEvents(cgroup, (error as Error).message)) recordEvent(event);
        throw error;
      } finally {
        // A call that fails may have written some of the files.
        onCgroupsChanged();
      }
    },
  },
};

/** Performs an action of the node. Rejects with `CriError`, also if the signal aborts it. */
export function performNodeAction(deps: NodeActDeps, action: NodeAction, signal: AbortSignal): Promise<void> {
  const performer: NodePerformer<NodeAction> = performers[action.kind];
  return performer.perform(deps, action, signal);
}
