/** Something that an agent awaits during the start of a pod, in milliseconds since the create request. */
export interface Step {
  /**
   * `runtime`: a CRI call for this pod. `api`: a request to the API server. `agent`: an action of the agent that is no call. `step`: what
   * the agent does between the calls.
   */
  readonly of: "runtime" | "api" | "agent" | "step";
  readonly what: string;
  readonly from: number;
  readonly until: number;
}

/** One start of a pod, from the create request to the Ready condition in the API. */
export interface StartTimeline {
  /** When a watch shows the new pod. */
  readonly shownMs: number;
  readonly readyMs: number;
  /** In the order of their begin. */
  readonly steps: readonly Step[];
}
