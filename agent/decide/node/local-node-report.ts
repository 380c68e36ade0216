/** What a source asked for and does not get. */
export interface Refusal {
  /** The manifest's path, or the URL without what is secret in it. */
  readonly file: string;
  /** What is wrong with it, and what stays instead; the file is not said again. */
  readonly problem: string;
}

/** Times are RFC 3339. */
export type RuntimeState =
  /** It has not answered since the agent has begun. */
  | { readonly state: "connecting"; readonly since: string }
  /** Its pods run on, and nothing is decided. */
  | { readonly state: "away"; readonly since: string; readonly message: string }
  | { readonly state: "ready" };

/** What the agent says of the node beside its pods. */
export interface NodeReport {
  readonly refused: readonly Refusal[];
  readonly runtime: RuntimeState;
}
