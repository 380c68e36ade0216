/** A file of a volume that the agent fills: a key of a ConfigMap or Secret, a token, a field of the pod. */
export interface VolumeFile {
  /** Relative to the volume. It may contain folders: `certs/tls.key`. */
  readonly path: string;
  readonly mode: number;
  readonly content: Uint8Array | string;
  /** By default the agent's. */
  readonly user?: number;
  /** By default the agent's. */
  readonly group?: number;
}
