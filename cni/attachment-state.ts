import type { NamespaceState } from "./cached-namespace.ts";

/** What the machine shows of an attachment in the cache. */
export interface AttachmentFacts {
  /** Its sandbox in the runtime's list; undefined for an attachment that no sandbox of the list has. */
  readonly sandbox: "ready" | "not ready" | undefined;
  readonly netns: NamespaceState;
  /** Whether a container runtime has added it for a pod; undefined without a readable cache file: it is torn, or ADD was killed. */
  readonly isOfPod: boolean | undefined;
  /** How long ago its ADD had ended when the runtime was asked for its list, in milliseconds; undefined without a readable cache file. */
  readonly ageMs: number | undefined;
}

/** `young`: no sandbox has it, but its ADD has ended so short a time ago that the runtime may still be creating its sandbox. */
export type AttachmentState = "in use" | "stale" | "young";

/**
 * The shortest time for which an attachment without a sandbox is young: the deadline of RunPodSandbox with the default of
 * `runtimeRequestTimeout`, 2 min, which is twice that. A longer `runtimeRequestTimeout` prolongs it.
 */
export const YOUNG_FOR_MS = 240_000;

/**
 * Whether an attachment still belongs to a sandbox.
 *
 * A runtime lists a sandbox only after ADD: that an attachment has none says nothing while it is young. What people add by hand
 * never has one. A sandbox that is ready has a network namespace, even if this process cannot see it.
 */
export function stateOfAttachment(
  { sandbox, netns, isOfPod, ageMs }: AttachmentFacts,
  youngForMs: number,
): AttachmentState {
  if (sandbox === "ready") return "in use";
  if (netns === "gone") return "stale";
  if (sandbox === "not ready" || isOfPod === false) return "in use";
  return ageMs !== undefined && ageMs < youngForMs ? "young" : "stale";
}
