import type { Cgroups } from "../../../cgroups/cgroups.ts";
import type { PodActions } from "../../../cri/traced-runtime.ts";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import type { MutationEffect } from "../../decide/pod/mutation-effect.ts";
import type { ObservedPod } from "../../decide/pod/observed.ts";
import { TranslateError } from "../../translate/translate-error.ts";
import type { PodStops } from "../hooks/pod-stops.ts";
import type { CredentialProviders } from "../images/credential-providers.ts";
import type { DockerConfigFiles } from "../images/docker-config.ts";
import type { ImageRecords } from "../images/image-records.ts";
import type { PullCoalescer } from "../images/pull-coalescer.ts";
import type { UserNamespaces } from "../user-namespaces.ts";
import type { VolumeDeps } from "../volumes/volume-deps.ts";

/**
 * How one kind of action is performed. Policy stays in `decide/`: a performer knows only how, not whether. An optional
 * member that is missing means: none.
 */
export interface Performer<A extends { readonly kind: string }> {
  /**
   * Makes the one outside call. Rejects with the error class of the part that failed (`CriError`, `FilesError`,
   * `TranslateError`).
   */
  perform(deps: ActDeps, input: ActInput, action: A, signal: AbortSignal): Promise<ActOutput>;
  /** What a success has changed: it is read again before the next decision. */
  effect(action: A, output: ActOutput, input: EffectInput): MutationEffect;
  /**
   * Teardowns cost CPU: a few at a time finish sooner, and sooner still when the urgent ones, the removal of sandboxes
   * that are already stopped, go first.
   */
  readonly teardown?: "normal" | "urgent";
  /** What it removes may be all that shows how the pod ended: the API server has to have the final status before. */
  readonly needsSavedStatus?: true;
  /** The container that this call stops. The end of the call wakes the pod, so the exit event does not have to. */
  stopping?(action: A): ContainerId | undefined;
  /** The images that have to be inspected again after the call. */
  changedImages?(action: A, hasSucceeded: boolean): ChangedImages;
}

export type ChangedImages = "none" | "all" | { readonly image: string };

/** The performers of these actions: the compiler reports a kind without a performer. */
export type Performers<A extends { readonly kind: string }> = {
  readonly [K in A["kind"]]: Performer<Extract<A, { readonly kind: K }>>;
};

/** What an action returned: ids and references that the next decision needs, and what its events report. */
export interface ActOutput {
  readonly imageRef?: string;
  readonly sandboxId?: SandboxId;
  readonly containerId?: ContainerId;
  readonly preStopFailure?: string;
  readonly plainHttpHost?: string;
}

export interface EffectInput {
  /** The desired pod, if there is one. */
  readonly pod: Pod | undefined;
  readonly now: number;
}

export interface ActDeps extends VolumeDeps {
  readonly runtime: PodActions;
  readonly pulls: PullCoalescer;
  readonly dockerConfigFiles: DockerConfigFiles;
  /** The image credential provider plugins; undefined where the node has none. */
  readonly providers: CredentialProviders | undefined;
  /**
   * Undefined where pods may use any image that is on the node (`imagePullCredentialsVerificationPolicy: NeverVerify`).
   */
  readonly records: ImageRecords | undefined;
  readonly userNamespaces: UserNamespaces;
  /** Undefined where pods have no cgroups of their own (`cgroupsPerQOS: false`). */
  readonly cgroups: Pick<Cgroups, "make" | "exists" | "children" | "stats" | "remove" | "criParent"> | undefined;
  readonly stops: PodStops;
}

/** The pod that an action is for; `desired` is undefined once no source wants the pod. */
export interface ActInput {
  readonly uid: PodUid;
  readonly desired: DesiredPod | undefined;
  readonly observed: ObservedPod;
  /** Called when an action that may queue (an image pull) leaves its queue. */
  readonly onStarted: () => void;
}

export function podOf({ uid, desired }: Pick<ActInput, "uid" | "desired">): Pod {
  if (desired === undefined) throw new Error(`pod ${uid} is not desired; cannot start anything for it`);
  return desired.pod;
}

/** Throws `TranslateError` if the pod needs a feature that this release lacks. */
export function refuseUnsupported(reason: TranslateError["reason"], unsupported: readonly string[]): void {
  if (unsupported.length > 0)
    throw new TranslateError(reason, `not supported by this release yet: ${unsupported.join(", ")}`);
}
