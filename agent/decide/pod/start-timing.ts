/** One step of a pod's start and its duration; `container` is set when the step belongs to one container. */
export interface StartTiming {
  readonly what: "volumes" | "pull" | "sandbox" | "create" | "start" | "postStart";
  readonly container?: string;
  readonly ms: number;
}
