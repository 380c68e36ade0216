/** What is presented to the API server. */
export interface Identity {
  readonly token?: string;
  /** PEM both. */
  readonly certificate?: { readonly cert: string; readonly key: string };
}

export interface Credentials {
  /**
   * What to present now: reads files again when they have changed, runs a plugin when what it gave has expired. The same object
   * as before where nothing has changed. Rejects with `KubeError` of code CREDENTIALS.
   */
  identity(): Promise<Identity>;
  /** The server did not accept it (401): whatever is kept of it is asked for anew next time. */
  refused(): void;
}
