import type { PodUid } from "../proto/ids.ts";
import type { PodStatus } from "../proto/kubernetes/gen/types.ts";
import type { Action } from "./decide/pod/action.ts";
import type { Beginning, Taken } from "./decide/pod/action-call.ts";
import type { DesiredNow } from "./decide/pod/desired.ts";
import type { ObservedPod } from "./decide/pod/observed.ts";
import type { Obstacle } from "./decide/pod/plan.ts";
import type { StageKind } from "./decide/pod/stage.ts";

/** What the loop needs of the rooms; `main.ts` hands it in. */
export interface Rooms {
  /** The pod as it is wanted; undefined when nobody asks for it, `unknown` while a source has not spoken yet. */
  desired(uid: PodUid): DesiredNow | undefined | "unknown";
  /** Reads the pod from the node; everything this agent did to it before is in what comes back. */
  observe(uid: PodUid, desired: DesiredNow | undefined): Promise<ObservedPod>;
  /** Carries out one action: one outside call. */
  act(uid: PodUid, desired: DesiredNow | undefined, observed: ObservedPod, action: Action, call: Call): Promise<Done>;
  /** Names a failure as Kubernetes does. */
  explain(action: Action, error: unknown): Explanation;
  report(uid: PodUid, desired: DesiredNow, status: PodStatus, stage: StageKind, obstacle?: Obstacle): void;
  begins(beginning: Beginning): void;
  took(taken: Taken): void;
  /** Nothing is left of the pod. */
  finished(uid: PodUid): void;
  /** A look at the node failed, so that the pod's turn could not begin. */
  blind(uid: PodUid, error: unknown): void;
}

/** How an action and whoever asked for it hear of each other while it lasts. */
export interface Call {
  /** Ends the action. */
  readonly signal: AbortSignal;
  /** Called when an action that may have to wait for others of its kind (a pull) waits no more. */
  readonly began: () => void;
}

/** A failure in Kubernetes' words. `isOutage`: the runtime is away, so nobody is to blame. */
export interface Explanation {
  readonly reason: string;
  readonly message: string;
  readonly isOutage: boolean;
}

/** What an action gives back: the reference an image resolved to. */
export interface Done {
  readonly imageRef?: string;
  readonly hookFailure?: string;
  readonly askedInPlainText?: string;
}
