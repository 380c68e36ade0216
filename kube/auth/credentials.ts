import type { Clock } from "../../host/clock.ts";
import { type Files, FilesError } from "../../host/fs/files.ts";
import type { Log } from "../../host/log/log.ts";
import { KubeError } from "../error.ts";
import { type ClientCertificate, readCertificatePair } from "./pem.ts";
import { createReloadingFile } from "./reloading-file.ts";

/** The credentials that we present to the API server: a bearer token, a client certificate, or both. */
export interface Identity {
  readonly token?: string;
  readonly certificate?: ClientCertificate;
}

export interface Credentials {
  /**
   * The current identity: reads changed files again, and runs an exec plugin again when its credentials have expired.
   * The same object as before if nothing has changed. Rejects with `KubeError` of code CREDENTIALS.
   */
  identity(): Promise<Identity>;
  /** Records that the server rejected the identity (401): the next `identity` does not use a cached one. */
  markRejected(): void;
}

/** A value given inline in the kubeconfig, or in a file that other programs may replace at any time. */
export type TextSource =
  | {
      readonly kind: "inline";
      readonly text: string;
      /** For messages. */
      readonly where: string;
    }
  | {
      readonly kind: "file";
      readonly path: string;
      /** What names the file, for messages. */
      readonly namedBy: string;
    };

export interface IdentitySource {
  readonly token?: TextSource;
  readonly certificate?: { readonly cert: TextSource; readonly key: TextSource };
}

export interface CredentialsOptions {
  readonly source: IdentitySource;
  /** Rooted at `/`. */
  readonly files: Pick<Files, "stat" | "read">;
  readonly clock: Pick<Clock, "now">;
  readonly log: Log;
}

const MAX_FILE_BYTES = 1 << 20;

/** Static credentials, inline or from files; the next request after a change of a file uses the new ones. */
export function createCredentials({ source, files, clock, log }: CredentialsOptions): Credentials {
  const paths = pathsOf(source);
  const reloadingFile = createReloadingFile({
    subject: "the credentials for the API server",
    paths: () => paths,
    read: () => readIdentity(source, files),
    isEqual,
    files,
    clock,
    log,
  });
  return { identity: reloadingFile.latest, markRejected: reloadingFile.invalidate };
}

function pathsOf({ token, certificate }: IdentitySource): readonly string[] {
  const sources = [token, certificate?.cert, certificate?.key];
  return [...new Set(sources.flatMap((textSource) => (textSource?.kind === "file" ? [textSource.path] : [])))];
}

async function readIdentity({ token, certificate }: IdentitySource, files: Pick<Files, "read">): Promise<Identity> {
  const [secret, cert, key] = await Promise.all(
    [token, certificate?.cert, certificate?.key].map(
      async (textSource) => textSource && (await readTextSource(textSource, files)),
    ),
  );
  return {
    ...(secret && { token: checkToken(secret.text, secret.where) }),
    ...(cert && key && { certificate: readCertificatePair(cert, key) }),
  };
}

/** Reads a value; `where` is its origin for messages. Rejects with `KubeError` of code CREDENTIALS. */
export async function readTextSource(
  source: TextSource,
  files: Pick<Files, "read">,
): Promise<{ text: string; where: string }> {
  if (source.kind === "inline") return source;
  try {
    return { text: await files.read(source.path, MAX_FILE_BYTES), where: source.path };
  } catch (error) {
    if (!(error instanceof FilesError)) throw error;
    const message = `${error.message}: ${source.namedBy} refers to it; create it with read permission, or configure another file`;
    throw new KubeError("CREDENTIALS", message, { cause: error });
  }
}

/** Trims a bearer token and checks that a header can carry it. Throws `KubeError`, which never quotes it. */
export function checkToken(text: string, where: string): string {
  const token = text.trim();
  if (token === "") throw new KubeError("CREDENTIALS", `the token in ${where} is empty`);
  if (!/^[\x21-\x7e]+$/.test(token))
    throw new KubeError("CREDENTIALS", `${where} does not contain a token: it has spaces or non-ASCII characters`);
  return token;
}

function isEqual(a: Identity, b: Identity): boolean {
  return (
    a.token === b.token && a.certificate?.cert === b.certificate?.cert && a.certificate?.key === b.certificate?.key
  );
}
