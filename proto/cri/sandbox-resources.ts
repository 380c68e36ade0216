import type { LinuxContainerResources } from "./gen/api.ts";

/** The resources of a pod's sandbox, for UpdatePodSandboxResources. */
export interface SandboxResources {
  /** The pod's limits without its overhead. */
  readonly resources: LinuxContainerResources;
  /** Undefined for a pod without one. */
  readonly overhead: LinuxContainerResources | undefined;
}
