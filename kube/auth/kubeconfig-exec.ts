import { dirname, resolve } from "node:path/posix";
import { getAt, jsonOf, type MapNode } from "../../proto/yaml/value-node.ts";
import type { Cluster } from "./cluster-endpoint.ts";
import { type ExecPlugin, execApiVersions } from "./exec-plugin.ts";
import { boolAt, mapAt, mapsAt, refuse, textAt, textsAt } from "./kubeconfig-field.ts";

/** What a plugin is told of the cluster. */
export type ToldOfCluster = Omit<Cluster, "credentials" | "certificateAuthority"> & {
  readonly authority: () => Promise<string | undefined>;
};

/** The credential plugin of a user, undefined where there is none. `told` is what the kubeconfig says of the cluster. */
export function readExecPlugin(
  user: MapNode,
  cluster: MapNode,
  told: ToldOfCluster,
  kubeconfig: string,
): ExecPlugin | undefined {
  const exec = mapAt(user, "exec");
  if (exec.entries.size === 0) return undefined;
  const command = textAt(exec, "command", "required");
  const env = mapsAt(exec, "env").map((one) => [textAt(one, "name", "required"), textAt(one, "value") ?? ""] as const);
  return {
    apiVersion: readApiVersion(exec),
    command: command.includes("/") ? resolve(dirname(kubeconfig), command) : command,
    args: textsAt(exec, "args"),
    env: Object.fromEntries(env),
    installHint: textAt(exec, "installHint"),
    cluster: boolAt(exec, "provideClusterInfo") ? () => describeCluster(cluster, told) : undefined,
  };
}

function readApiVersion(exec: MapNode): ExecPlugin["apiVersion"] {
  const text = textAt(exec, "apiVersion", "required");
  const { where } = exec.entries.get("apiVersion") ?? exec;
  const apiVersion = execApiVersions.find((known) => known === text);
  if (apiVersion === undefined) throw refuse(where, `exec has another apiVersion than ${execApiVersions.join(" or ")}`);
  const mode = textAt(exec, "interactiveMode") ?? (apiVersion.endsWith("/v1") ? undefined : "IfAvailable");
  if (mode === "Never" || mode === "IfAvailable") return apiVersion;
  throw refuse(
    exec.entries.get("interactiveMode")?.where ?? exec.where,
    mode === "Always"
      ? "exec wants a terminal (interactiveMode: Always), and a node agent has none"
      : "interactiveMode has to be Never or IfAvailable",
  );
}

/** `spec.cluster` of the ExecCredential that the plugin is handed. */
async function describeCluster(cluster: MapNode, told: ToldOfCluster): Promise<Readonly<Record<string, unknown>>> {
  const { authority, tlsServerName, insecureSkipTlsVerify } = told;
  const certificateAuthority = await authority();
  const config = mapsAt(cluster, "extensions").find(
    (one) => textAt(one, "name") === "client.authentication.k8s.io/exec",
  );
  const extension = getAt(config, ["extension"]);
  return {
    server: textAt(cluster, "server", "required"),
    ...(tlsServerName !== undefined && { "tls-server-name": tlsServerName }),
    ...(insecureSkipTlsVerify && { "insecure-skip-tls-verify": true }),
    ...(certificateAuthority !== undefined && {
      "certificate-authority-data": Buffer.from(certificateAuthority).toString("base64"),
    }),
    ...(extension !== undefined && { config: jsonOf(extension) }),
  };
}
