import { createPrivateKey, X509Certificate } from "node:crypto";
import type { Clock } from "../../../../host/clock.ts";
import { type Files, FilesError } from "../../../../host/fs/files.ts";
import { type CertificateAndKey, createSelfSignedCertificate } from "../../../../host/self-signed-certificate.ts";

export interface ServingFiles {
  /** Absolute paths. */
  readonly cert: string;
  readonly key: string;
}

const MAX_PEM_BYTES = 1 << 20;
const HOUR_MS = 3_600_000;
const YEAR_MS = 365 * 24 * HOUR_MS;
/** A self-signed certificate with less time left is replaced. */
const RENEW_BEFORE_MS = 30 * 24 * HOUR_MS;

/**
 * The certificate and its key, both in PEM. Rejects with `FilesError`, or with an `Error` if the key is that of another
 * certificate. `files` is rooted at `/`.
 */
export async function readCertificate(
  files: Pick<Files, "read">,
  { cert, key }: ServingFiles,
): Promise<CertificateAndKey> {
  const [certPem, keyPem] = await Promise.all([files.read(cert, MAX_PEM_BYTES), files.read(key, MAX_PEM_BYTES)]);
  if (!new X509Certificate(certPem).checkPrivateKey(createPrivateKey(keyPem)))
    throw new Error(`${key} is not the private key of ${cert}`);
  return { cert: certPem, key: keyPem };
}

export interface SelfSignedCertificateOptions {
  /** Rooted at `/`. */
  readonly files: Pick<Files, "read" | "write" | "makeFolder">;
  readonly certDir: string;
  readonly nodeName: string;
  readonly clock: Pick<Clock, "now">;
}

/**
 * The certificate in `--cert-dir`, as the kubelet names it. One that is missing, broken or about to expire is replaced.
 * Rejects with `FilesError` if it cannot be kept there.
 */
export async function ensureSelfSignedCertificate(options: SelfSignedCertificateOptions): Promise<CertificateAndKey> {
  const { files, certDir, nodeName, clock } = options;
  const paths = selfSignedFiles(certDir);
  const kept = await readCertificate(files, paths).catch((error: unknown) => {
    // It is replaced, whatever is wrong with it, except that files of an unreadable disk stay.
    if (error instanceof FilesError && error.code !== "ENOENT") throw error;
    return undefined;
  });
  const now = clock.now();
  if (kept !== undefined && renewalOf(kept.cert) > now) return kept;
  const made = await createSelfSignedCertificate({
    commonName: `${nodeName}@${Math.floor(now / 1000)}`,
    hosts: [nodeName],
    validFrom: now - HOUR_MS,
    validTo: now + YEAR_MS,
  });
  await files.makeFolder(certDir, 0o750);
  // The key first: a certificate whose key is not there yet would be of no use.
  await files.write(paths.key, made.key, 0o600);
  await files.write(paths.cert, made.cert, 0o644);
  return made;
}

/** When a self-signed certificate in PEM is replaced, in epoch milliseconds. */
export function renewalOf(cert: string): number {
  return Date.parse(new X509Certificate(cert).validTo) - RENEW_BEFORE_MS;
}

/** Where a self-signed certificate is kept. */
function selfSignedFiles(certDir: string): ServingFiles {
  return { cert: `${certDir}/kubelet.crt`, key: `${certDir}/kubelet.key` };
}
