/** One step of a pod's start, and how long it took; `container` where the step was one container's. */
export interface Step {
  readonly what: "volumes" | "pull" | "sandbox" | "create" | "start" | "postStart";
  readonly container?: string;
  readonly ms: number;
}
