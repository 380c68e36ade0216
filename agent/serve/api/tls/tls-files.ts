import { X509Certificate } from "node:crypto";
import { dirname } from "node:path/posix";
import { createAutoResetEvent } from "../../../../host/async/auto-reset-event.ts";
import { createLogOnChange } from "../../../../host/async/log-once.ts";
import { type Clock, sleepUnlessAborted } from "../../../../host/clock.ts";
import { messageOf } from "../../../../host/error-message.ts";
import type { Files } from "../../../../host/fs/files.ts";
import type { Log } from "../../../../host/log/log.ts";
import type { CertificateAndKey } from "../../../../host/self-signed-certificate.ts";
import { parsePemBlocks } from "../../../../proto/pem.ts";
import { ensureSelfSignedCertificate, readCertificate, renewalOf, type ServingFiles } from "./serving-certificate.ts";

export interface TlsFilesOptions {
  /** Rooted at `/`. */
  readonly files: Pick<Files, "read" | "write" | "makeFolder" | "watch">;
  /** Undefined for a self-signed certificate in `certDir`. */
  readonly serving: ServingFiles | undefined;
  readonly certDir: string;
  readonly nodeName: string;
  /** The CAs of client certificates; undefined if none is accepted. */
  readonly clientCAFile: string | undefined;
  readonly clock: Clock;
  readonly log: Log;
}

/** What the server's connections use. */
export interface TlsContents extends CertificateAndKey {
  /** Each in PEM. */
  readonly ca?: readonly string[];
}

/** The files behind the server's TLS, which other programs may replace at any time. */
export interface TlsFiles {
  /** Rejects with `FilesError`, or with an `Error` if they do not fit together. */
  read(): Promise<TlsContents>;
  /** Calls back with every version that differs from `current` and can be used, until the signal aborts. Never rejects. */
  follow(current: TlsContents, onChanged: (contents: TlsContents) => void, signal: AbortSignal): Promise<void>;
}

const MAX_CA_BYTES = 4 << 20;
/** Programs replace a certificate and its key one after the other. */
const SETTLE_MS = 200;
/** A folder that is gone is looked for again that often. */
const UNWATCHED_CHECK_MS = 60_000;

export function createTlsFiles(options: TlsFilesOptions): TlsFiles {
  const { files, serving, certDir, clientCAFile, clock, log } = options;
  const watched = [serving?.cert, serving?.key, clientCAFile].filter((path) => path !== undefined);
  const folders = new Set(watched.map((path) => dirname(path)));
  const logged = createLogOnChange();

  async function read(): Promise<TlsContents> {
    const pair = await (serving === undefined
      ? ensureSelfSignedCertificate({ ...options, certDir })
      : readCertificate(files, serving));
    if (clientCAFile === undefined) return pair;
    return { ...pair, ca: certificatesOf(await files.read(clientCAFile, MAX_CA_BYTES), clientCAFile) };
  }

  /** The files as they are now; the contents before where those cannot be used. */
  async function readAgain(before: TlsContents): Promise<TlsContents> {
    try {
      const contents = await read();
      if (!logged.isEmpty()) log.info({}, "the certificates of the node's API can be used again");
      logged.clear();
      return contents;
    } catch (error) {
      const message = messageOf(error);
      if (logged.shouldLog(message))
        log.warn({}, `the certificates of the node's API cannot be used; keeping what was read before: ${message}`);
      return before;
    }
  }

  return {
    read,
    async follow(first, onChanged, signal) {
      const changed = createAutoResetEvent(clock);
      const watches = createFolderWatches(files, folders, changed.set, signal);
      let current = first;
      while (!signal.aborted) {
        const areAllWatched = watches.open();
        const checkAt = areAllWatched ? Number.POSITIVE_INFINITY : clock.now() + UNWATCHED_CHECK_MS;
        const renewAt = serving === undefined ? renewalOf(current.cert) : Number.POSITIVE_INFINITY;
        await changed.wait(Math.min(checkAt, renewAt), signal);
        await sleepUnlessAborted(clock, SETTLE_MS, signal);
        if (signal.aborted) return;
        const contents = await readAgain(current);
        if (isSame(contents, current)) continue;
        current = contents;
        onChanged(contents);
      }
    },
  };
}

/** The certificates of a bundle. Throws for a bundle without any: no client could be authenticated. */
function certificatesOf(pem: string, path: string): readonly string[] {
  const found = parsePemBlocks(pem).map((der) => toCertificate(der, path));
  if (found.length === 0) throw new Error(`${path} contains no certificate`);
  return found;
}

function toCertificate(der: Uint8Array, path: string): string {
  try {
    return new X509Certificate(der).toString();
  } catch (error) {
    throw new Error(`${path} contains something else than certificates: ${messageOf(error)}`, { cause: error });
  }
}

function isSame(one: TlsContents, other: TlsContents): boolean {
  return one.cert === other.cert && one.key === other.key && isSameCA(one, other);
}

/** Whether both accept the client certificates of the same CAs. */
export function isSameCA({ ca: one = [] }: TlsContents, { ca: other = [] }: TlsContents): boolean {
  return one.join() === other.join();
}

/** `open` watches the folders that are not watched yet, and returns whether all of them are. */
function createFolderWatches(
  files: Pick<Files, "watch">,
  folders: ReadonlySet<string>,
  onChanged: () => void,
  signal: AbortSignal,
): { open(): boolean } {
  const open = new Set<string>();
  function watch(folder: string): boolean {
    try {
      const onGone = () => {
        open.delete(folder);
        onChanged();
      };
      files.watch(folder, onChanged, onGone, signal);
      open.add(folder);
      return true;
    } catch {
      // It does not exist, or inotify has reached a limit: the next check tries again.
      return false;
    }
  }
  return { open: () => [...folders].every((folder) => open.has(folder) || watch(folder)) };
}
