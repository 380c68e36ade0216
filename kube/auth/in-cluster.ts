import { isIPv6 } from "node:net";
import type { Clock } from "../../host/clock.ts";
import type { Files } from "../../host/fs/files.ts";
import type { Log } from "../../host/log/log.ts";
import { KubeError } from "../error.ts";
import type { ClusterEndpoint, ClusterEndpointSource } from "./cluster-endpoint.ts";
import { createCredentials, readTextSource } from "./credentials.ts";
import { readCertificates } from "./pem.ts";
import { createReloadingFile } from "./reloading-file.ts";

const SERVICE_ACCOUNT_DIR = "/var/run/secrets/kubernetes.io/serviceaccount";

export interface InClusterOptions {
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Rooted at `/`. */
  readonly files: Pick<Files, "stat" | "read">;
  readonly clock: Pick<Clock, "now">;
  readonly log: Log;
}

/**
 * The in-cluster configuration of a pod: the environment variables of the Service `kubernetes`, and the service
 * account's volume, which is read with the first request. Throws `KubeError` of code CREDENTIALS outside of a pod.
 */
export function readInCluster({ environment, files, clock, log }: InClusterOptions): ClusterEndpointSource {
  const host = environment["KUBERNETES_SERVICE_HOST"] ?? "";
  const port = environment["KUBERNETES_SERVICE_PORT"] ?? "";
  const address = `https://${isIPv6(host) ? `[${host}]` : host}:${port}`;
  if (host === "" || !/^\d+$/.test(port) || !URL.canParse(address))
    throw new KubeError(
      "CREDENTIALS",
      "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT do not name an API server: outside of a pod use --kubeconfig instead of --in-cluster",
    );
  const server = new URL(address);
  const credentials = createCredentials({ source: { token: sourceOf("token") }, files, clock, log });
  const ca = sourceOf("ca.crt");
  const reloadingFile = createReloadingFile({
    subject: "the certificate authority of the API server",
    paths: () => [ca.path],
    read: async (): Promise<ClusterEndpoint> => ({
      server,
      certificateAuthority: readCertificates(await readTextSource(ca, files)),
      tlsServerName: undefined,
      insecureSkipTlsVerify: false,
      credentials,
    }),
    isEqual: (one, other) => one.certificateAuthority === other.certificateAuthority,
    files,
    clock,
    log,
  });
  return { server: () => server, latest: reloadingFile.latest };
}

function sourceOf(name: string) {
  return { kind: "file", path: `${SERVICE_ACCOUNT_DIR}/${name}`, namedBy: "--in-cluster" } as const;
}
