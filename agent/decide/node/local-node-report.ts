/** A manifest that a source defines and the agent does not run. */
export interface RejectedManifest {
  /** The manifest's path, or the URL without its secrets. */
  readonly file: string;
  /** What is wrong, and what stays in effect instead; without the file. */
  readonly problem: string;
}

/** Times are RFC 3339. */
export type RuntimeState =
  /** It has not responded since the agent started. */
  | { readonly state: "connecting"; readonly since: string }
  /** Its pods keep running; the agent decides nothing. */
  | { readonly state: "away"; readonly since: string; readonly message: string }
  /** It is connected, and does not respond or reports that it is not ready. Its pods keep running. */
  | { readonly state: "notReady"; readonly since: string; readonly message: string }
  | { readonly state: "ready" };

/** What the local API reports about the node besides its pods. */
export interface LocalNodeReport {
  readonly refused: readonly RejectedManifest[];
  readonly runtime: RuntimeState;
  /** Why the runtime, which is connected, has no network for pods; absent if it has one. */
  readonly networkProblem?: string | undefined;
}
