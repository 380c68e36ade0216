import { isIPv6 } from "node:net";
import type { Clock } from "../host/clock.ts";
import type { Files } from "../host/files.ts";
import type { Log } from "../host/log.ts";
import type { Cluster } from "./cluster.ts";
import { createCredentials, readText } from "./credentials.ts";
import { KubeError } from "./error.ts";
import { readCertificates } from "./pem.ts";

const FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount";

export interface InClusterOptions {
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Rooted at `/`. */
  readonly files: Pick<Files, "stat" | "read">;
  readonly clock: Pick<Clock, "now">;
  readonly log: Log;
}

/**
 * The cluster whose pod we are, by what every container of it is given: the service `kubernetes` and the service account's volume.
 * Rejects with `KubeError` of code CREDENTIALS.
 */
export async function readInCluster({ environment, files, clock, log }: InClusterOptions): Promise<Cluster> {
  const host = environment["KUBERNETES_SERVICE_HOST"] ?? "";
  const port = environment["KUBERNETES_SERVICE_PORT"] ?? "";
  if (host === "" || !/^\d+$/.test(port))
    throw new KubeError(
      "CREDENTIALS",
      "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this is no container of a pod, so name a kubeconfig",
    );
  const certificateAuthority = readCertificates(await readText({ kind: "file", path: `${FOLDER}/ca.crt` }, files));
  const token = { kind: "file", path: `${FOLDER}/token` } as const;
  return {
    server: new URL(`https://${isIPv6(host) ? `[${host}]` : host}:${port}`),
    certificateAuthority,
    tlsServerName: undefined,
    insecureSkipTlsVerify: false,
    credentials: createCredentials({ source: { token }, files, clock, log }),
  };
}
