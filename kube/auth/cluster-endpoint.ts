import type { Credentials } from "./credentials.ts";

/** What a kubeconfig, or the service account of a pod, says of one cluster at one time. */
export interface Cluster {
  /** https; its path, if any, stands before that of every request. */
  readonly server: URL;
  /** PEM, the only one that is trusted; undefined only with `insecureSkipTlsVerify`. */
  readonly certificateAuthority: string | undefined;
  /** The name that the server's certificate has to carry, where that is not the server's host. */
  readonly tlsServerName: string | undefined;
  readonly insecureSkipTlsVerify: boolean;
  readonly credentials: Credentials;
}

/** Where that stands. What is said there may change at any time. */
export interface ClusterSource {
  /** The server as it was read last, for whoever shows it. */
  server(): URL;
  /**
   * How it stands there now: reads again what has changed. The same object as before where nothing has. Rejects with `KubeError` of
   * code CREDENTIALS while it has never been of use.
   */
  latest(): Promise<Cluster>;
}

/** Whether both mean the same server, trusted by the same word. */
export function isSamePlace(one: Omit<Cluster, "credentials">, other: Omit<Cluster, "credentials">): boolean {
  return (
    one.server.href === other.server.href &&
    one.certificateAuthority === other.certificateAuthority &&
    one.tlsServerName === other.tlsServerName &&
    one.insecureSkipTlsVerify === other.insecureSkipTlsVerify
  );
}
