import type { ContainerId, SandboxId } from "../../../proto/ids.ts";
import type { ObservedContainer } from "./observed.ts";
import type { PodResource } from "./resources.ts";

/** What our call may have changed. A failed call may have changed anything. */
export type MutationEffect =
  | { readonly kind: "sandbox"; readonly id: SandboxId }
  | { readonly kind: "container"; readonly id: ContainerId }
  /** After CreateContainer no read is needed: the container exists and has not started. */
  | { readonly kind: "created"; readonly container: ObservedContainer }
  /** A container and the marker files of its pod: it was removed to restart all containers, or its `preStop` hook has ended. */
  | { readonly kind: "containerAndFiles"; readonly id: ContainerId }
  /** A container whose `postStart` hook is due (`isPending`) or has succeeded. */
  | { readonly kind: "hook"; readonly id: ContainerId; readonly instance: string; readonly isPending: boolean }
  /** The pod has this resource now, and its logs have not changed. */
  | { readonly kind: "resourceMade"; readonly resource: PodResource }
  /** The pod's cgroup. */
  | { readonly kind: "cgroup" }
  | { readonly kind: "files" }
  | { readonly kind: "nothing" }
  | { readonly kind: "everything" }
  /** The call has ended without an answer: it may change anything, and later. */
  | { readonly kind: "unanswered" };
