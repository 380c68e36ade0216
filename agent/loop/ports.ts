import type { PodUid } from "../../proto/ids.ts";
import type { Action } from "../decide/pod/action.ts";
import type { DesiredPodView } from "../decide/pod/desired.ts";
import type { ActionResult } from "../decide/pod/memory.ts";
import type { ObservedPod } from "../decide/pod/observed.ts";
import type { SyncSubscriber } from "./sync-subscriber.ts";

/** What the sync loop needs from the other components. `wiring/` connects them. */
export interface SyncPorts {
  /** The desired pod; undefined if no source lists it, `unknown` until every source is ready. */
  desired(uid: PodUid): DesiredPodView | undefined | "unknown";
  /** Reads the pod from the node. The result includes the effects of every earlier call of this agent. */
  observe(uid: PodUid, desired: DesiredPodView | undefined): Promise<ObservedPod>;
  /** Performs one action: one outside call. */
  act(
    uid: PodUid,
    desired: DesiredPodView | undefined,
    observed: ObservedPod,
    action: Action,
    call: ActionCall,
  ): Promise<ActionOutput>;
  /** Converts an error into a failure with the kubelet's reason and message. */
  toFailure(action: Action, error: unknown): ActionFailure;
  /** The components that follow each sync, in the order in which they are called. */
  readonly subscribers: readonly SyncSubscriber[];
}

/** How the loop and a running action reach each other. */
export interface ActionCall {
  /** Aborts the action. */
  readonly signal: AbortSignal;
  /** Called when an action that may be queued behind others (an image pull) starts. */
  readonly onStarted: () => void;
}

/**
 * A failure with the kubelet's reason and message. `isOutage`: the runtime was away, so the failure is not the pod's.
 */
export type ActionFailure = Omit<Extract<ActionResult, { ok: false }>, "ok">;

/** What an action returns. */
export type ActionOutput = Omit<Extract<ActionResult, { ok: true }>, "ok">;
