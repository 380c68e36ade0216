import { dirname, resolve } from "node:path/posix";
import type { Clock } from "../../host/clock.ts";
import type { Exec } from "../../host/exec.ts";
import { type Files, FilesError } from "../../host/fs/files.ts";
import type { Log } from "../../host/log/log.ts";
import { YamlError } from "../../proto/yaml/error.ts";
import { parseYaml } from "../../proto/yaml/parse.ts";
import type { MapNode } from "../../proto/yaml/value-node.ts";
import { KubeError } from "../error.ts";
import { type ClusterEndpoint, type ClusterEndpointSource, isSameEndpoint } from "./cluster-endpoint.ts";
import {
  type Credentials,
  createCredentials,
  type IdentitySource,
  readTextSource,
  type TextSource,
} from "./credentials.ts";
import { createExecCredentials } from "./exec-plugin.ts";
import { type ExecCluster, readExecPlugin } from "./kubeconfig-exec.ts";
import { boolAt, kubeconfigError, mapAt, namedAt, rejectIfSet, stringAt } from "./kubeconfig-field.ts";
import { readCertificates } from "./pem.ts";
import { createReloadingFile } from "./reloading-file.ts";

export interface KubeconfigOptions {
  /** Absolute. */
  readonly path: string;
  /** Rooted at `/`. */
  readonly files: Pick<Files, "stat" | "read">;
  readonly exec: Exec;
  /** The environment that credential plugins inherit. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly clock: Pick<Clock, "now">;
  readonly log: Log;
}

const MAX_KUBECONFIG_BYTES = 1 << 20;

/**
 * Reads the cluster and the user of a kubeconfig's current-context. Paths in it are relative to its folder; the files
 * that it names are read with the first request. Rejects at once with `KubeError` of code CREDENTIALS, with file and
 * line, if the kubeconfig itself is invalid or uses a feature that Berth does not support. Error messages never quote a
 * value of the user.
 */
export async function readKubeconfig(options: KubeconfigOptions): Promise<ClusterEndpointSource> {
  const { path, files, clock, log } = options;
  /** As last read, even if its files cannot be used. */
  let parsed = await parseKubeconfig(options, undefined);
  let active: ClusterEndpoint | undefined;
  const reloadingFile = createReloadingFile({
    subject: "the kubeconfig",
    paths: () => [path, ...(parsed.authority?.kind === "file" ? [parsed.authority.path] : [])],
    async read() {
      parsed = await parseKubeconfig(options, parsed);
      const { endpoint, authority, credentials } = parsed;
      const certificateAuthority = await readAuthority(authority, options);
      // A changed kubeconfig takes effect only when its credentials can be read: their files may be written after it.
      if (active !== undefined && active.credentials !== credentials) await credentials.identity();
      active = { ...endpoint, certificateAuthority, credentials };
      return active;
    },
    isEqual,
    files,
    clock,
    log,
  });
  return { server: () => (active ?? parsed.endpoint).server, latest: reloadingFile.latest };
}

/** The contents of the kubeconfig itself, before the files that it names are read. */
interface ParsedKubeconfig {
  readonly text: string;
  readonly endpoint: Omit<ClusterEndpoint, "credentials" | "certificateAuthority">;
  readonly authority: TextSource | undefined;
  readonly credentials: Credentials;
}

/** Parses the kubeconfig; returns `previous` if the text has not changed. */
async function parseKubeconfig(
  options: KubeconfigOptions,
  previous: ParsedKubeconfig | undefined,
): Promise<ParsedKubeconfig> {
  const text = await readKubeconfigText(options);
  if (text === previous?.text) return previous;
  const root = readRoot(text, options.path);
  const context = mapAt(namedAt(root, "contexts", currentContext(root)), "context");
  const cluster = mapAt(namedAt(root, "clusters", stringAt(context, "cluster", "required")), "cluster");
  const user = mapAt(namedAt(root, "users", stringAt(context, "user", "required")), "user");
  const endpoint = {
    server: readServer(cluster),
    tlsServerName: stringAt(cluster, "tls-server-name"),
    insecureSkipTlsVerify: boolAt(cluster, "insecure-skip-tls-verify"),
  };
  const authority = authorityAt(cluster, options.path);
  // Inline certificates are checked at once.
  if (authority?.kind === "inline") readCertificates(authority);
  const clusterInfo = { ...endpoint, authority: () => readAuthority(authority, options) };
  if (endpoint.insecureSkipTlsVerify)
    options.log.warn(
      { server: endpoint.server.host },
      "insecure-skip-tls-verify is set in the kubeconfig: anyone on the network path can impersonate the API server",
    );
  return { text, endpoint, authority, credentials: readUser(user, cluster, clusterInfo, options) };
}

async function readAuthority(
  source: TextSource | undefined,
  { files }: KubeconfigOptions,
): Promise<string | undefined> {
  return source === undefined ? undefined : readCertificates(await readTextSource(source, files));
}

function isEqual(one: ClusterEndpoint, other: ClusterEndpoint): boolean {
  return isSameEndpoint(one, other) && one.credentials === other.credentials;
}

async function readKubeconfigText({ path, files }: KubeconfigOptions): Promise<string> {
  try {
    return await files.read(path, MAX_KUBECONFIG_BYTES);
  } catch (error) {
    if (!(error instanceof FilesError)) throw error;
    const message = `the kubeconfig cannot be read: ${error.message}; without --kubeconfig the node runs standalone`;
    throw new KubeError("CREDENTIALS", message, { cause: error });
  }
}

function readRoot(text: string, path: string): MapNode {
  try {
    const root = parseYaml(text, path);
    if (root?.kind !== "map") throw kubeconfigError(path, "is not a kubeconfig: it has no fields");
    const kind = stringAt(root, "kind");
    if (kind !== undefined && kind !== "Config")
      throw kubeconfigError(path, "is not a kubeconfig: its kind is not Config");
    const version = stringAt(root, "apiVersion");
    if (version !== undefined && version !== "v1")
      throw kubeconfigError(path, "is not a supported kubeconfig: its apiVersion is not v1");
    return root;
  } catch (error) {
    if (!(error instanceof YamlError)) throw error;
    throw new KubeError("CREDENTIALS", `the kubeconfig cannot be read: ${error.message}`);
  }
}

function currentContext(root: MapNode): string {
  const name = stringAt(root, "current-context");
  if (name === undefined) throw kubeconfigError(root.where, "the kubeconfig names no current-context");
  return name;
}

function readServer(cluster: MapNode): URL {
  const text = stringAt(cluster, "server", "required");
  const { where } = cluster.entries.get("server") ?? cluster;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== "https:")
    throw kubeconfigError(where, "server is not an address such as https://192.168.0.1:6443; TLS is required");
  if (url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "")
    throw kubeconfigError(where, "server contains more than host, port and path");
  rejectIfSet(cluster, "proxy-url", "proxies are not supported: the API server must be reachable directly");
  return url;
}

function authorityAt(cluster: MapNode, path: string): TextSource | undefined {
  const source = sourceAt(cluster, "certificate-authority", path);
  const isInsecure = boolAt(cluster, "insecure-skip-tls-verify");
  if (source !== undefined && isInsecure)
    throw kubeconfigError(
      cluster.where,
      "insecure-skip-tls-verify and a certificate-authority are set: remove one of them",
    );
  if (source === undefined && !isInsecure)
    throw kubeconfigError(
      cluster.where,
      "the cluster has neither certificate-authority-data nor certificate-authority: no other authority is trusted",
    );
  return source;
}

function readUser(user: MapNode, cluster: MapNode, clusterInfo: ExecCluster, options: KubeconfigOptions): Credentials {
  const { path, files, exec, environment, clock, log } = options;
  rejectIfSet(user, "auth-provider", "Kubernetes has removed auth-provider: use exec");
  for (const key of ["username", "password"])
    rejectIfSet(user, key, "API servers accept no passwords since 1.19: use a client certificate or a token");
  for (const key of ["as", "as-uid", "as-groups", "as-user-extra"])
    rejectIfSet(user, key, "impersonation is not supported: a node must use its own identity");
  const source = readIdentitySource(user, path);
  const plugin = readExecPlugin(user, cluster, clusterInfo, path);
  if (plugin === undefined) return createCredentials({ source, files, clock, log });
  if (source.token !== undefined || source.certificate !== undefined)
    throw kubeconfigError(user.where, "the user has exec and other credentials: remove one of them");
  return createExecCredentials({ plugin, exec, environment, clock });
}

/**
 * The precedence is client-go's: certificate data before a certificate file, but a token file before an inline token.
 */
function readIdentitySource(user: MapNode, path: string): IdentitySource {
  const tokenFile = stringAt(user, "tokenFile");
  const token = stringAt(user, "token");
  const cert = sourceAt(user, "client-certificate", path);
  const key = sourceAt(user, "client-key", path);
  if ((cert === undefined) !== (key === undefined))
    throw kubeconfigError(user.where, "the user has only one of client-certificate and client-key");
  return {
    ...(tokenFile !== undefined
      ? { token: fileAt(user, "tokenFile", tokenFile, path) }
      : token !== undefined && { token: { kind: "inline", text: token, where: whereOf(user, "token") } as const }),
    ...(cert !== undefined && key !== undefined && { certificate: { cert, key } }),
  };
}

/** `<key>-data`, in base64, or `<key>`, a path. */
function sourceAt(map: MapNode, key: string, kubeconfig: string): TextSource | undefined {
  const encoded = stringAt(map, `${key}-data`);
  const file = stringAt(map, key);
  if (encoded !== undefined)
    return { kind: "inline", text: decode(encoded, whereOf(map, `${key}-data`)), where: whereOf(map, `${key}-data`) };
  return file === undefined ? undefined : fileAt(map, key, file, kubeconfig);
}

function fileAt(map: MapNode, key: string, file: string, kubeconfig: string): TextSource {
  return { kind: "file", path: resolve(dirname(kubeconfig), file), namedBy: whereOf(map, key) };
}

function decode(encoded: string, where: string): string {
  const compact = encoded.replace(/\s/g, "");
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(compact) || compact.length % 4 !== 0)
    throw new KubeError("CREDENTIALS", `${where} is not base64`);
  return Buffer.from(compact, "base64").toString();
}

/** `client-key-data (/etc/kubernetes/kubelet.conf:17)` */
function whereOf(map: MapNode, key: string): string {
  return `${key} (${map.entries.get(key)?.where ?? map.where})`;
}
