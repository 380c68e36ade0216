import { createPrivateKey, X509Certificate } from "node:crypto";
import { KubeError } from "../error.ts";

/** A PEM text and its origin for messages: a path, or `client-key-data (/etc/kubernetes/kubelet.conf:17)`. */
export interface PemSource {
  readonly text: string;
  readonly where: string;
}

/** A client certificate with its chain, and its key, both PEM. */
export interface ClientCertificate {
  readonly cert: string;
  readonly key: string;
}

const CERTIFICATES = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;
const PRIVATE_KEY = /-----BEGIN ((?:[A-Z]+ )?PRIVATE KEY)-----[^-]+-----END \1-----/;

/** Extracts the certificates of a PEM text. Throws `KubeError` if there is none, or one cannot be parsed. */
export function readCertificates({ text, where }: PemSource): string {
  const found = text.match(CERTIFICATES) ?? [];
  if (found.length === 0) throw credentialsError(`${where} contains no certificate in PEM format`);
  for (const one of found) readCertificate(one, where);
  return `${found.join("\n")}\n`;
}

/**
 * Reads a client certificate and its key, possibly from one file. Throws `KubeError` if one of them is missing or the
 * key belongs to another certificate.
 */
export function readCertificatePair(cert: PemSource, key: PemSource): ClientCertificate {
  const certificates = readCertificates(cert);
  const [block] = PRIVATE_KEY.exec(key.text) ?? [];
  if (block === undefined) throw credentialsError(`${key.where} contains no unencrypted private key in PEM format`);
  if (!readCertificate(certificates, cert.where).checkPrivateKey(readKey(block, key.where)))
    throw credentialsError(
      `the key in ${key.where} does not belong to the certificate in ${cert.where}: replace one of them`,
    );
  return { cert: certificates, key: `${block}\n` };
}

/** Why our certificate is not valid at this time, as a message; undefined if it is valid. */
export function validityProblem(cert: string, now: number): string | undefined {
  const { validFromDate, validToDate } = new X509Certificate(cert);
  if (now > validToDate.getTime())
    return `our client certificate expired on ${formatTime(validToDate)}: issue a new one for this node`;
  if (now < validFromDate.getTime())
    return `our client certificate is valid only from ${formatTime(validFromDate)}, but this machine's clock shows ${formatDate(now)}: set the clock`;
  return undefined;
}

/** The user that Kubernetes derives from a certificate: its common name, such as `system:node:a`. */
export function commonNameOf(cert: string): string {
  return /^CN=(.*)$/m.exec(new X509Certificate(cert).subject)?.[1] ?? "nobody";
}

/** The groups that Kubernetes derives from a certificate: its organizations, such as `system:nodes`. */
export function organizationsOf(cert: string): readonly string[] {
  return [...new X509Certificate(cert).subject.matchAll(/^O=(.*)$/gm)].map(([, name = ""]) => name);
}

/** `2026-01-02T03:04:05Z` */
function formatTime(date: Date): string {
  return date.toISOString().replace(/\.\d+Z$/, "Z");
}

/** Only the date, `2026-01-02`, so that a repeated error has the same message and is logged once. */
export function formatDate(now: number): string {
  return new Date(now).toISOString().slice(0, 10);
}

function readCertificate(pem: string, where: string): X509Certificate {
  try {
    return new X509Certificate(pem);
  } catch (error) {
    throw credentialsError(`${where} contains a certificate that cannot be parsed`, error);
  }
}

function readKey(pem: string, where: string) {
  try {
    return createPrivateKey(pem);
  } catch {
    // Without the library's message: it may quote a part of the key.
    throw credentialsError(`${where} contains a private key that cannot be parsed (encrypted keys are not supported)`);
  }
}

function credentialsError(message: string, cause?: unknown): KubeError {
  return new KubeError("CREDENTIALS", message, cause === undefined ? {} : { cause });
}
