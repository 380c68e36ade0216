import type { Credentials } from "./credentials.ts";

/** What a kubeconfig, or the service account of a pod, says of one cluster. */
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
