import type { Clock, Instant } from "../host/clock.ts";
import { type FileStat, type Files, FilesError } from "../host/files.ts";
import type { Log } from "../host/log.ts";
import { KubeError } from "./error.ts";
import { type Certificate, readCertificatePair } from "./pem.ts";

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
  | { readonly kind: "file"; readonly path: string };

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
/** Within this time of a look nobody looks again: hundreds of requests may be made in a second. */
const LOOK_EVERY_MS = 1_000;

/**
 * Credentials of a kubeconfig's own words and of files. A file that has changed is taken up with the next request; while it cannot be
 * used, half replaced perhaps, what it held before goes on to be presented, and that is said once.
 */
export function createCredentials({ source, files, clock, log }: CredentialsOptions): Credentials {
  const paths = pathsOf(source);
  let kept: { readonly identity: Identity; readonly versions: string } | undefined;
  let lookedAt: Instant | undefined;
  let looking: Promise<Identity> | undefined;
  let told: string | undefined;

  function isFresh(): boolean {
    if (paths.length === 0) return true;
    const agoMs = lookedAt === undefined ? -1 : clock.now() - lookedAt;
    return agoMs >= 0 && agoMs < LOOK_EVERY_MS;
  }

  async function look(): Promise<Identity> {
    const versions = (await Promise.all(paths.map(async (path) => versionOf(await statOf(files, path))))).join(" ");
    lookedAt = clock.now();
    if (kept?.versions === versions) return kept.identity;
    try {
      const identity = await readIdentity(source, files);
      // A file that was only touched is no reason for a new connection.
      kept = { identity: isEqual(kept?.identity, identity) ? kept.identity : identity, versions };
      if (told !== undefined) log.info({}, "the credentials for the API server can be used again");
      told = undefined;
    } catch (error) {
      if (kept === undefined || !(error instanceof KubeError)) throw error;
      if (told !== error.message)
        log.warn(
          { err: error },
          "the credentials for the API server have changed and cannot be used; those before stay",
        );
      told = error.message;
    }
    return kept.identity;
  }

  return {
    async identity() {
      if (kept !== undefined && isFresh()) return kept.identity;
      looking ??= look().finally(() => {
        looking = undefined;
      });
      return await looking;
    },
    refused() {
      lookedAt = undefined;
    },
  };
}

function pathsOf({ token, certificate }: IdentitySource): readonly string[] {
  const sources = [token, certificate?.cert, certificate?.key];
  return [...new Set(sources.flatMap((one) => (one?.kind === "file" ? [one.path] : [])))];
}

async function statOf(files: Pick<Files, "stat">, path: string): Promise<FileStat | undefined> {
  try {
    return await files.stat(path);
  } catch (error) {
    throw toCredentialsError(error);
  }
}

function versionOf(stat: FileStat | undefined): string {
  return stat === undefined ? "absent" : `${stat.inode}:${stat.modifiedMs}:${stat.sizeBytes}`;
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
    throw toCredentialsError(error);
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

function isEqual(a: Identity | undefined, b: Identity): a is Identity {
  return (
    a !== undefined &&
    a.token === b.token &&
    a.certificate?.cert === b.certificate?.cert &&
    a.certificate?.key === b.certificate?.key
  );
}

function toCredentialsError(error: unknown): unknown {
  return error instanceof FilesError ? new KubeError("CREDENTIALS", error.message, { cause: error }) : error;
}
