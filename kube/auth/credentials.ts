import type { Clock } from "../../host/clock.ts";
import { type Files, FilesError } from "../../host/fs/files.ts";
import type { Log } from "../../host/log.ts";
import { KubeError } from "../error.ts";
import { type Certificate, readCertificatePair } from "./pem.ts";
import { createKept } from "./reloading-file.ts";

/** What is presented to the API server. */
export interface Identity {
  readonly token?: string;
  readonly certificate?: Certificate;
}

export interface Credentials {
  /**
   * What to present now: reads files again when they have changed, runs a plugin when what it gave has expired. The same object
   * as before where nothing has changed. Rejects with `KubeError` of code CREDENTIALS.
   */
  identity(): Promise<Identity>;
  /** The server did not accept it (401): whatever is kept of it is asked for anew next time. */
  refused(): void;
}

/** A text that stands in the kubeconfig itself, or in a file that others may replace at any time. */
export type TextSource =
  | { readonly kind: "inline"; readonly text: string /** For messages. */; readonly where: string }
  | {
      readonly kind: "file";
      readonly path: string /** What names the file, for messages. */;
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

const LARGEST_FILE_BYTES = 1 << 20;

/** Credentials of a kubeconfig's own words and of files, which are taken up with the next request when they have changed. */
export function createCredentials({ source, files, clock, log }: CredentialsOptions): Credentials {
  const paths = pathsOf(source);
  const kept = createKept({
    what: "the credentials for the API server",
    paths: () => paths,
    read: () => readIdentity(source, files),
    isEqual,
    files,
    clock,
    log,
  });
  return { identity: kept.latest, refused: kept.doubt };
}

function pathsOf({ token, certificate }: IdentitySource): readonly string[] {
  const sources = [token, certificate?.cert, certificate?.key];
  return [...new Set(sources.flatMap((one) => (one?.kind === "file" ? [one.path] : [])))];
}

async function readIdentity({ token, certificate }: IdentitySource, files: Pick<Files, "read">): Promise<Identity> {
  const [secret, cert, key] = await Promise.all(
    [token, certificate?.cert, certificate?.key].map(async (one) => one && (await readText(one, files))),
  );
  return {
    ...(secret && { token: checkToken(secret.text, secret.where) }),
    ...(cert && key && { certificate: readCertificatePair(cert, key) }),
  };
}

/** A text with where it is from, for messages. Rejects with `KubeError` of code CREDENTIALS. */
export async function readText(
  source: TextSource,
  files: Pick<Files, "read">,
): Promise<{ text: string; where: string }> {
  if (source.kind === "inline") return source;
  try {
    return { text: await files.read(source.path, LARGEST_FILE_BYTES), where: source.path };
  } catch (error) {
    if (!(error instanceof FilesError)) throw error;
    const message = `${error.message}: ${source.namedBy} names it; put it there, readable, or name another`;
    throw new KubeError("CREDENTIALS", message, { cause: error });
  }
}

/** A token as it is sent in a header, blanks around it cut off. Throws `KubeError` for what cannot be one; never quotes it. */
export function checkToken(text: string, where: string): string {
  const token = text.trim();
  if (token === "") throw new KubeError("CREDENTIALS", `the token in ${where} is empty`);
  if (!/^[\x21-\x7e]+$/.test(token))
    throw new KubeError("CREDENTIALS", `what stands in ${where} is no token: it has blanks or other letters in it`);
  return token;
}

function isEqual(a: Identity, b: Identity): boolean {
  return (
    a.token === b.token && a.certificate?.cert === b.certificate?.cert && a.certificate?.key === b.certificate?.key
  );
}
