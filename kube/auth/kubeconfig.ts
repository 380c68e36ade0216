import { dirname, resolve } from "node:path/posix";
import type { Clock } from "../../host/clock.ts";
import type { Exec } from "../../host/exec.ts";
import { type Files, FilesError } from "../../host/fs/files.ts";
import type { Log } from "../../host/log.ts";
import { YamlError } from "../../proto/yaml/error.ts";
import { parseYaml } from "../../proto/yaml/parse.ts";
import type { MapNode } from "../../proto/yaml/value-node.ts";
import { KubeError } from "../error.ts";
import { type Cluster, type ClusterSource, isSamePlace } from "./cluster-endpoint.ts";
import { type Credentials, createCredentials, type IdentitySource, readText, type TextSource } from "./credentials.ts";
import { createExecCredentials } from "./exec-plugin.ts";
import { readExecPlugin, type ToldOfCluster } from "./kubeconfig-exec.ts";
import { boolAt, mapAt, namedAt, refuse, refuseIfGiven, textAt } from "./kubeconfig-field.ts";
import { readCertificates } from "./pem.ts";
import { createKept } from "./reloading-file.ts";

export interface KubeconfigOptions {
  /** Absolute. */
  readonly path: string;
  /** Rooted at `/`. */
  readonly files: Pick<Files, "stat" | "read">;
  readonly exec: Exec;
  /** What credential plugins inherit. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly clock: Pick<Clock, "now">;
  readonly log: Log;
}

const LARGEST_BYTES = 1 << 20;

/**
 * The cluster and the user of a kubeconfig's current-context. Paths in it are relative to its folder; the files that it names are read
 * with the first request. Whatever is wrong in the kubeconfig itself, or names something that we cannot do, rejects at once with
 * `KubeError` of code CREDENTIALS and with file and line. No value of a user is ever quoted.
 */
export async function readKubeconfig(options: KubeconfigOptions): Promise<ClusterSource> {
  const { path, files, clock, log } = options;
  /** As it was read last, of use or not. */
  let said = await readSaid(options, undefined);
  let used: Cluster | undefined;
  const kept = createKept({
    what: "the kubeconfig",
    paths: () => [path, ...(said.authority?.kind === "file" ? [said.authority.path] : [])],
    async read() {
      said = await readSaid(options, said);
      const { told, authority, credentials } = said;
      const certificateAuthority = await readAuthority(authority, options);
      // Another kubeconfig takes over only when its user can be had: its files may come after it.
      if (used !== undefined && used.credentials !== credentials) await credentials.identity();
      used = { ...told, certificateAuthority, credentials };
      return used;
    },
    isEqual,
    files,
    clock,
    log,
  });
  return { server: () => (used ?? said.told).server, latest: kept.latest };
}

/** What a kubeconfig says, before any other file is read. */
interface Said {
  readonly text: string;
  readonly told: Omit<Cluster, "credentials" | "certificateAuthority">;
  readonly authority: TextSource | undefined;
  readonly credentials: Credentials;
}

/** The same as before where its text is. */
async function readSaid(options: KubeconfigOptions, before: Said | undefined): Promise<Said> {
  const text = await readOwnText(options);
  if (text === before?.text) return before;
  const root = readRoot(text, options.path);
  const context = mapAt(namedAt(root, "contexts", currentContext(root)), "context");
  const cluster = mapAt(namedAt(root, "clusters", textAt(context, "cluster", "required")), "cluster");
  const user = mapAt(namedAt(root, "users", textAt(context, "user", "required")), "user");
  const told = {
    server: readServer(cluster),
    tlsServerName: textAt(cluster, "tls-server-name"),
    insecureSkipTlsVerify: boolAt(cluster, "insecure-skip-tls-verify"),
  };
  const authority = authorityAt(cluster, options.path);
  // What is no certificate in the kubeconfig itself is told at once.
  if (authority?.kind === "inline") readCertificates(authority);
  const ofCluster = { ...told, authority: () => readAuthority(authority, options) };
  if (told.insecureSkipTlsVerify)
    options.log.warn(
      { server: told.server.host },
      "insecure-skip-tls-verify is set in the kubeconfig: whoever is in between can pose as the API server",
    );
  return { text, told, authority, credentials: readUser(user, cluster, ofCluster, options) };
}

async function readAuthority(
  source: TextSource | undefined,
  { files }: KubeconfigOptions,
): Promise<string | undefined> {
  return source === undefined ? undefined : readCertificates(await readText(source, files));
}

function isEqual(one: Cluster, other: Cluster): boolean {
  return isSamePlace(one, other) && one.credentials === other.credentials;
}

async function readOwnText({ path, files }: KubeconfigOptions): Promise<string> {
  try {
    return await files.read(path, LARGEST_BYTES);
  } catch (error) {
    if (!(error instanceof FilesError)) throw error;
    const message = `the kubeconfig cannot be read: ${error.message}; without --kubeconfig the node stands alone`;
    throw new KubeError("CREDENTIALS", message, { cause: error });
  }
}

function readRoot(text: string, path: string): MapNode {
  try {
    const root = parseYaml(text, path);
    if (root?.kind !== "map") throw refuse(path, "is no kubeconfig: it holds no fields");
    const kind = textAt(root, "kind");
    if (kind !== undefined && kind !== "Config") throw refuse(path, "is no kubeconfig: its kind is not Config");
    const version = textAt(root, "apiVersion");
    if (version !== undefined && version !== "v1")
      throw refuse(path, "is no kubeconfig that we know: its apiVersion is not v1");
    return root;
  } catch (error) {
    if (!(error instanceof YamlError)) throw error;
    throw new KubeError("CREDENTIALS", `the kubeconfig cannot be read: ${error.message}`);
  }
}

function currentContext(root: MapNode): string {
  const name = textAt(root, "current-context");
  if (name === undefined) throw refuse(root.where, "the kubeconfig names no current-context");
  return name;
}

function readServer(cluster: MapNode): URL {
  const text = textAt(cluster, "server", "required");
  const { where } = cluster.entries.get("server") ?? cluster;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== "https:")
    throw refuse(where, "server is not an address such as https://192.168.0.1:6443; without TLS nobody is served");
  if (url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "")
    throw refuse(where, "server has more in it than host, port and path");
  refuseIfGiven(cluster, "proxy-url", "proxies are not supported: the API server has to be reached directly");
  return url;
}

function authorityAt(cluster: MapNode, path: string): TextSource | undefined {
  const source = sourceAt(cluster, "certificate-authority", path);
  const isInsecure = boolAt(cluster, "insecure-skip-tls-verify");
  if (source !== undefined && isInsecure)
    throw refuse(cluster.where, "insecure-skip-tls-verify and a certificate-authority are set: only one can be meant");
  if (source === undefined && !isInsecure)
    throw refuse(
      cluster.where,
      "the cluster has neither certificate-authority-data nor certificate-authority: no other authority is trusted",
    );
  return source;
}

function readUser(user: MapNode, cluster: MapNode, told: ToldOfCluster, options: KubeconfigOptions): Credentials {
  const { path, files, exec, environment, clock, log } = options;
  refuseIfGiven(user, "auth-provider", "Kubernetes has no auth-provider any more: use exec");
  for (const key of ["username", "password"])
    refuseIfGiven(
      user,
      key,
      "no API server knows passwords any more (since 1.19): use a client certificate or a token",
    );
  for (const key of ["as", "as-uid", "as-groups", "as-user-extra"])
    refuseIfGiven(user, key, "impersonation is not supported: a node has to be itself");
  const source = readIdentitySource(user, path);
  const plugin = readExecPlugin(user, cluster, told, path);
  if (plugin === undefined) return createCredentials({ source, files, clock, log });
  if (source.token !== undefined || source.certificate !== undefined)
    throw refuse(user.where, "the user has exec and other credentials: only one can be meant");
  return createExecCredentials({ plugin, exec, environment, clock });
}

/** As client-go has it: of a certificate the data before the file, of a token the file before the data. */
function readIdentitySource(user: MapNode, path: string): IdentitySource {
  const tokenFile = textAt(user, "tokenFile");
  const token = textAt(user, "token");
  const cert = sourceAt(user, "client-certificate", path);
  const key = sourceAt(user, "client-key", path);
  if ((cert === undefined) !== (key === undefined))
    throw refuse(user.where, "the user has only one of client-certificate and client-key");
  return {
    ...(tokenFile !== undefined
      ? { token: fileAt(user, "tokenFile", tokenFile, path) }
      : token !== undefined && { token: { kind: "inline", text: token, where: whereOf(user, "token") } as const }),
    ...(cert !== undefined && key !== undefined && { certificate: { cert, key } }),
  };
}

/** `<key>-data`, in base64, or `<key>`, a path. */
function sourceAt(map: MapNode, key: string, kubeconfig: string): TextSource | undefined {
  const encoded = textAt(map, `${key}-data`);
  const file = textAt(map, key);
  if (encoded !== undefined)
    return { kind: "inline", text: decode(encoded, whereOf(map, `${key}-data`)), where: whereOf(map, `${key}-data`) };
  return file === undefined ? undefined : fileAt(map, key, file, kubeconfig);
}

function fileAt(map: MapNode, key: string, file: string, kubeconfig: string): TextSource {
  return { kind: "file", path: resolve(dirname(kubeconfig), file), namedBy: whereOf(map, key) };
}

function decode(encoded: string, where: string): string {
  const bare = encoded.replace(/\s/g, "");
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(bare) || bare.length % 4 !== 0)
    throw new KubeError("CREDENTIALS", `${where} is not base64`);
  return Buffer.from(bare, "base64").toString();
}

/** `client-key-data (/etc/kubernetes/kubelet.conf:17)` */
function whereOf(map: MapNode, key: string): string {
  return `${key} (${map.entries.get(key)?.where ?? map.where})`;
}
