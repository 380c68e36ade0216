import type { ObjectMeta } from "./gen/types.ts";

/** `k8s.cni.cncf.io/v1`, a custom resource. Network Plumbing Working Group, standard v1.3, section 3. */
export interface NetworkAttachmentDefinition {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: ObjectMeta;
  readonly spec?: {
    /** A CNI configuration or list as JSON; left out for a network that the node has in a file. */
    readonly config?: string;
  };
}
