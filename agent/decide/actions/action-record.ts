import type { PodUid } from "../../../proto/ids.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { PodEvent } from "../events/pod-event.ts";
import type { ActionResult, PodMemory } from "../pod/memory.ts";
import type { StartTiming } from "../pod/start-timing.ts";
import type { FailureKey } from "./failure-key.ts";
import type { FailureTraits } from "./failure-traits.ts";

/**
 * How the loop limits an action. "start": bounded by the start limiter. "end": teardown, has slots of its own. "stop":
 * runs beside the pod's syncs, because it may last as long as the grace period. "background": pulls, hooks and mounts
 * that may take long, runs beside the syncs too; it is cancelled when the pod has to terminate, whereas a stop is not.
 * "update": short, and not limited: a running pod does not wait for the starts of others.
 */
export type ActionClass = "start" | "update" | "end" | "stop" | "background";

/**
 * Everything that the agent has to know of one kind of action, except how to perform it: that is its performer in
 * `act/performers`. An optional member that is missing means: none.
 */
export interface ActionRecord<A extends { readonly kind: string }> {
  /** One English sentence: the log line, the basis of the Event, and what the tests expect. */
  describe(action: A): string;
  failureKey(action: A): FailureKey;
  readonly actionClass: ActionClass;
  failure(action: A): FailureTraits;
  /**
   * What the action reads: the Services, the pod's pull Secrets, the node's DNS settings. For pull Secrets and DNS, an
   * event reports what is missing when the action starts.
   */
  readonly uses?: readonly ("services" | "pullSecrets" | "dns")[];
  /** A success adds an image to the node. */
  readonly addsImage?: true;
  /** The step of a pod's start that `berth pods` shows. */
  timingStep?(action: A): TimingStep | undefined;
  eventsAtStart?(action: A, input: EventInput): readonly PodEvent[];
  eventsAtSuccess?(action: A, input: SuccessInput): readonly PodEvent[];
  /** Not called for an outage of the runtime. */
  eventsAtFailure?(action: A, input: FailureInput): readonly PodEvent[];
  /** Whether this agent is performing it already; then a decision does not plan it again. */
  isInProgress?(memory: PodMemory, action: A): boolean;
  /** Only actions that run beside the syncs: all others end before the next sync. */
  memoryWhenStarted?(memory: PodMemory, action: A, now: number): PodMemory;
  /** For an action that may be queued. */
  memoryWhenDequeued?(memory: PodMemory, action: A, now: number): PodMemory;
  /** The inverse of `memoryWhenStarted`: it has succeeded, failed, or was cancelled. */
  memoryWhenEnded?(memory: PodMemory, action: A): PodMemory;
  /** Applied after `memoryWhenEnded`. */
  memoryWhenSucceeded?(memory: PodMemory, action: A, result: ActionSuccess): PodMemory;
}

/** The records of these actions: the compiler reports a kind without a record, and a record without a kind. */
export type ActionRecords<A extends { readonly kind: string }> = {
  readonly [K in A["kind"]]: ActionRecord<Extract<A, { readonly kind: K }>>;
};

export type ActionSuccess = Extract<ActionResult, { readonly ok: true }>;

export interface TimingStep extends Pick<StartTiming, "what" | "container"> {
  /** False for an action that adds its duration to that of the earlier actions of the step. */
  readonly isFirst?: boolean;
}

export interface EventInput {
  /** The desired pod; undefined for a pod without a source. */
  readonly pod: Pod | undefined;
  /** The images that were pulled for the pod and not used yet. */
  readonly pulledImages: ReadonlySet<string>;
  /** Pods have to prove their access to images that are already on the node. */
  readonly isImageAccessVerified: boolean;
}

export interface SuccessInput extends Pick<EventInput, "pod"> {
  readonly result: ActionSuccess;
  readonly startedAt: number;
  /** When a queued action (a pull) started to run. */
  readonly dequeuedAt?: number;
  readonly endedAt: number;
  /** The size of the pulled image, if known. */
  readonly imageSizeBytes: number | undefined;
}

export interface FailureInput extends Pick<EventInput, "pod"> {
  readonly uid: PodUid;
  readonly reason: string;
  readonly message: string;
}
