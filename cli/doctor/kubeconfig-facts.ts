import { X509Certificate } from "node:crypto";
import { dirname, resolve } from "node:path/posix";
import { type Files, FilesError } from "../../host/fs/files.ts";
import { YamlError } from "../../proto/yaml/error.ts";
import { parseYaml } from "../../proto/yaml/parse.ts";
import { toJson } from "../../proto/yaml/value-node.ts";

/** What a node's kubeconfig says, without any of its secrets. */
export interface KubeconfigFacts {
  readonly path: string;
  /** Undefined if there is no such file. */
  readonly mode: number | undefined;
  /** The files with secrets that it names. */
  readonly secretFiles: readonly { readonly path: string; readonly mode: number | undefined }[];
  readonly certificate?: { readonly notBeforeMs: number; readonly notAfterMs: number };
}

const MAX_FILE_BYTES = 1 << 20;

interface NamedUser {
  readonly name?: unknown;
  readonly user?: Readonly<Record<string, unknown>>;
}

interface NamedCluster {
  readonly name?: unknown;
  readonly cluster?: Readonly<Record<string, unknown>>;
}

interface Kubeconfig {
  readonly clusters?: readonly NamedCluster[];
  readonly users?: readonly NamedUser[];
  readonly contexts?: readonly {
    readonly name?: unknown;
    readonly context?: { readonly user?: unknown; readonly cluster?: unknown };
  }[];
  readonly "current-context"?: unknown;
}

/** What berth run refuses in the user, and in the cluster, of the current context. */
const REFUSED = { user: ["auth-provider", "username", "password", "as"], cluster: ["proxy-url"] } as const;

/**
 * Rejects if the file exists and cannot be read or parsed, or if berth run would refuse it; the message quotes nothing
 * of it.
 */
export async function readKubeconfigFacts(files: Pick<Files, "read" | "stat">, path: string): Promise<KubeconfigFacts> {
  const mode = (await files.stat(path))?.mode;
  if (mode === undefined) return { path, mode, secretFiles: [] };
  const kubeconfig = parse(await files.read(path, MAX_FILE_BYTES), path);
  checkAccepted(kubeconfig, path);
  const user = currentUser(kubeconfig);
  const fileAt = (key: string) => (typeof user[key] === "string" ? resolve(dirname(path), user[key]) : undefined);
  const named = [fileAt("client-key"), fileAt("tokenFile")].filter((file) => file !== undefined);
  const secretFiles = await Promise.all(
    [...new Set(named)].map(async (file) => ({ path: file, mode: (await files.stat(file))?.mode })),
  );
  const certificate = await readCertificate(files, user["client-certificate-data"], fileAt("client-certificate"));
  return { path, mode, secretFiles, ...(certificate && { certificate }) };
}

/** Where a kubeconfig finds the API server, and which authority it trusts. */
export interface ApiServerEndpoint {
  readonly server: URL;
  /** PEM; undefined without one. */
  readonly certificateAuthority: string | undefined;
  readonly tlsServerName: string | undefined;
  readonly insecureSkipTlsVerify: boolean;
}

/**
 * The API server of a kubeconfig's current context; undefined if there is no such file. Rejects if the kubeconfig names
 * no server; the message quotes nothing of it.
 */
export async function readApiServerEndpoint(
  files: Pick<Files, "read" | "stat">,
  path: string,
): Promise<ApiServerEndpoint | undefined> {
  if ((await files.stat(path)) === undefined) return undefined;
  const kubeconfig = parse(await files.read(path, MAX_FILE_BYTES), path);
  const cluster = currentCluster(kubeconfig);
  const textAt = (key: string) => (typeof cluster[key] === "string" ? cluster[key] : undefined);
  const server = textAt("server") ?? "";
  if (!/^https:/.test(server) || !URL.canParse(server))
    throw new FilesError("EINVAL", path, `${path} names no server such as https://192.168.0.1:6443`);
  const encoded = textAt("certificate-authority-data");
  const file = textAt("certificate-authority");
  const inline = encoded === undefined ? undefined : Buffer.from(encoded, "base64").toString();
  return {
    server: new URL(server),
    certificateAuthority:
      inline ?? (file === undefined ? undefined : await files.read(resolve(dirname(path), file), MAX_FILE_BYTES)),
    tlsServerName: textAt("tls-server-name"),
    insecureSkipTlsVerify: cluster["insecure-skip-tls-verify"] === true,
  };
}

function parse(text: string, path: string): Kubeconfig {
  try {
    const root = parseYaml(text, path);
    if (root?.kind !== "map") throw new FilesError("EINVAL", path, `${path} is not a kubeconfig: it has no fields`);
    return toJson(root) as Kubeconfig;
  } catch (error) {
    if (!(error instanceof YamlError)) throw error;
    // The message of a YamlError may quote the line.
    throw new FilesError("EINVAL", path, `${error.problems[0]?.where ?? path} is not YAML`);
  }
}

/** Throws `FilesError` for what berth run refuses, as far as the doctor knows it. */
function checkAccepted(kubeconfig: Kubeconfig, path: string): void {
  if (currentContext(kubeconfig) === undefined)
    throw new FilesError("EINVAL", path, `${path} has no context of the name that current-context gives`);
  const parts = { user: currentUser(kubeconfig), cluster: currentCluster(kubeconfig) };
  for (const part of ["user", "cluster"] as const)
    for (const key of REFUSED[part])
      if (parts[part][key] !== undefined)
        throw new FilesError("EINVAL", path, `${path} sets ${key} for its ${part}, which berth run refuses`);
}

function currentCluster(kubeconfig: Kubeconfig): Readonly<Record<string, unknown>> {
  const context = currentContext(kubeconfig);
  return listOrEmpty(kubeconfig.clusters).find(({ name }) => name === context?.cluster)?.cluster ?? {};
}

function currentUser(kubeconfig: Kubeconfig): Readonly<Record<string, unknown>> {
  const context = currentContext(kubeconfig);
  return listOrEmpty(kubeconfig.users).find(({ name }) => name === context?.user)?.user ?? {};
}

function currentContext({ contexts, "current-context": current }: Kubeconfig) {
  return listOrEmpty(contexts).find(({ name }) => name === current)?.context;
}

const listOrEmpty = <T>(items: readonly T[] | undefined): readonly T[] => (Array.isArray(items) ? items : []);

async function readCertificate(
  files: Pick<Files, "read" | "stat">,
  data: unknown,
  path: string | undefined,
): Promise<KubeconfigFacts["certificate"]> {
  const isPresent = path !== undefined && (await files.stat(path)) !== undefined;
  const inline = typeof data === "string" ? Buffer.from(data, "base64").toString() : undefined;
  const pem = inline ?? (isPresent ? await files.read(path, MAX_FILE_BYTES) : undefined);
  if (pem === undefined) return undefined;
  const { validFrom, validTo } = parseCertificate(pem, path ?? "client-certificate-data");
  return { notBeforeMs: Date.parse(validFrom), notAfterMs: Date.parse(validTo) };
}

/** kubelet-client-current.pem holds the certificate and its key: errors must not quote the text. */
function parseCertificate(pem: string, where: string): X509Certificate {
  const [first] = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/.exec(pem) ?? [];
  try {
    return new X509Certificate(first ?? "");
  } catch {
    // The reason is the same for every text: it is not a certificate.
    throw new FilesError("EINVAL", where, `${where} contains no certificate`);
  }
}
