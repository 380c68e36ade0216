import { dirname, resolve } from "node:path/posix";
import { getAt, type MapNode, toJson } from "../../proto/yaml/value-node.ts";
import type { ClusterEndpoint } from "./cluster-endpoint.ts";
import { type ExecPlugin, execApiVersions } from "./exec-plugin.ts";
import { boolAt, kubeconfigError, mapAt, mapsAt, stringAt, stringsAt } from "./kubeconfig-field.ts";

/** The cluster's data for a plugin with `provideClusterInfo`. */
export type ExecCluster = Omit<ClusterEndpoint, "credentials" | "certificateAuthority"> & {
  readonly authority: () => Promise<string | undefined>;
};

/**
 * The exec credential plugin of a user; undefined if there is none. `clusterInfo` is the kubeconfig's data about the
 * cluster.
 */
export function readExecPlugin(
  user: MapNode,
  cluster: MapNode,
  clusterInfo: ExecCluster,
  kubeconfig: string,
): ExecPlugin | undefined {
  const exec = mapAt(user, "exec");
  if (exec.entries.size === 0) return undefined;
  const command = stringAt(exec, "command", "required");
  const env = mapsAt(exec, "env").map(
    (one) => [stringAt(one, "name", "required"), stringAt(one, "value") ?? ""] as const,
  );
  return {
    apiVersion: readApiVersion(exec),
    command: command.includes("/") ? resolve(dirname(kubeconfig), command) : command,
    args: stringsAt(exec, "args"),
    env: Object.fromEntries(env),
    installHint: stringAt(exec, "installHint"),
    cluster: boolAt(exec, "provideClusterInfo") ? () => describeCluster(cluster, clusterInfo) : undefined,
  };
}

function readApiVersion(exec: MapNode): ExecPlugin["apiVersion"] {
  const text = stringAt(exec, "apiVersion", "required");
  const { where } = exec.entries.get("apiVersion") ?? exec;
  const apiVersion = execApiVersions.find((known) => known === text);
  if (apiVersion === undefined)
    throw kubeconfigError(where, `exec has an apiVersion other than ${execApiVersions.join(" or ")}`);
  const mode = stringAt(exec, "interactiveMode") ?? (apiVersion.endsWith("/v1") ? undefined : "IfAvailable");
  if (mode === "Never" || mode === "IfAvailable") return apiVersion;
  throw kubeconfigError(
    exec.entries.get("interactiveMode")?.where ?? exec.where,
    mode === "Always"
      ? "exec requires a terminal (interactiveMode: Always), and a node agent has none"
      : "interactiveMode must be Never or IfAvailable",
  );
}

/** `spec.cluster` of the ExecCredential that the plugin receives. */
async function describeCluster(cluster: MapNode, clusterInfo: ExecCluster): Promise<Readonly<Record<string, unknown>>> {
  const { authority, tlsServerName, insecureSkipTlsVerify } = clusterInfo;
  const certificateAuthority = await authority();
  const config = mapsAt(cluster, "extensions").find(
    (one) => stringAt(one, "name") === "client.authentication.k8s.io/exec",
  );
  const extension = getAt(config, ["extension"]);
  return {
    server: stringAt(cluster, "server", "required"),
    ...(tlsServerName !== undefined && { "tls-server-name": tlsServerName }),
    ...(insecureSkipTlsVerify && { "insecure-skip-tls-verify": true }),
    ...(certificateAuthority !== undefined && {
      "certificate-authority-data": Buffer.from(certificateAuthority).toString("base64"),
    }),
    ...(extension !== undefined && { config: toJson(extension) }),
  };
}
