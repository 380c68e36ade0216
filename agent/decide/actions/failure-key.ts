import type { ContainerId, SandboxId } from "../../../proto/ids.ts";
import type { PodResource } from "../pod/resources.ts";

/** Identifies the failures that share one retry back-off. A success clears them. */
export type FailureKey =
  | { readonly of: "resource"; readonly resource: PodResource }
  | { readonly of: "volumeUpdate"; readonly name: string }
  | { readonly of: "podCgroupWrite" }
  | { readonly of: "image"; readonly image: string }
  | { readonly of: "sandbox" }
  /** Its creation and its start. */
  | { readonly of: "container"; readonly name: string }
  | { readonly of: "postStart"; readonly id: ContainerId }
  | { readonly of: "containerResources"; readonly id: ContainerId }
  | { readonly of: "sandboxResources"; readonly id: SandboxId }
  | { readonly of: "endOfContainer"; readonly id: ContainerId }
  | { readonly of: "endOfSandbox"; readonly id: SandboxId }
  | { readonly of: "endOfResource"; readonly resource: PodResource };
