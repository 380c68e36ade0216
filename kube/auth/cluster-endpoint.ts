import type { Credentials } from "./credentials.ts";

/**
 * How to reach one API server, as read from a kubeconfig or from a pod's service account (client-go's `rest.Config`).
 */
export interface ClusterEndpoint {
  /** https; its path, if any, is the prefix of every request's path. */
  readonly server: URL;
  /** PEM: the only trusted authority; undefined only with `insecureSkipTlsVerify`. */
  readonly certificateAuthority: string | undefined;
  /** The name that the server's certificate must contain, if that is not the server's host. */
  readonly tlsServerName: string | undefined;
  readonly insecureSkipTlsVerify: boolean;
  readonly credentials: Credentials;
}

/** The source of an endpoint, whose files may change at any time. */
export interface ClusterEndpointSource {
  /** The server as last read, for display. */
  server(): URL;
  /**
   * The current endpoint: reads changed files again; the same object as before if nothing has changed. Rejects with
   * `KubeError` of code CREDENTIALS if no valid version has been read yet.
   */
  latest(): Promise<ClusterEndpoint>;
}

/** Whether both are the same server with the same trust settings. */
export function isSameEndpoint(
  one: Omit<ClusterEndpoint, "credentials">,
  other: Omit<ClusterEndpoint, "credentials">,
): boolean {
  return (
    one.server.href === other.server.href &&
    one.certificateAuthority === other.certificateAuthority &&
    one.tlsServerName === other.tlsServerName &&
    one.insecureSkipTlsVerify === other.insecureSkipTlsVerify
  );
}
