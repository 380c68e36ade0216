import { createPrivateKey, X509Certificate } from "node:crypto";
import { KubeError } from "../error.ts";

/** A PEM text and where it is from, for messages: a path, or `users[0].user.client-key-data`. */
export interface Pem {
  readonly text: string;
  readonly where: string;
}

/** A client certificate, its chain included, and its key; PEM both. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

const CERTIFICATES = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;
const PRIVATE_KEY = /-----BEGIN ((?:[A-Z]+ )?PRIVATE KEY)-----[^-]+-----END \1-----/;

/** The certificates of a text, whatever else it holds. Throws `KubeError` where there is none, or one that cannot be read. */
export function readCertificates({ text, where }: Pem): string {
  const found = text.match(CERTIFICATES) ?? [];
  if (found.length === 0) throw unusable(`${where} holds no certificate in PEM form`);
  for (const one of found) readCertificate(one, where);
  return `${found.join("\n")}\n`;
}

/**
 * A client certificate with its key; both may stand in one file. Throws `KubeError` where one of them is missing or the key belongs
 * to another certificate.
 */
export function readCertificatePair(cert: Pem, key: Pem): Certificate {
  const certificates = readCertificates(cert);
  const [block] = PRIVATE_KEY.exec(key.text) ?? [];
  if (block === undefined) throw unusable(`${key.where} holds no private key in PEM form that is not encrypted`);
  if (!readCertificate(certificates, cert.where).checkPrivateKey(readKey(block, key.where)))
    throw unusable(
      `the key in ${key.where} does not belong to the certificate in ${cert.where}: replace the one that is of another pair`,
    );
  return { cert: certificates, key: `${block}\n` };
}

/** Why a certificate of ours is of no use at this time, in words; undefined where it is good. */
export function timeProblem(cert: string, now: number): string | undefined {
  const { validFromDate, validToDate } = new X509Certificate(cert);
  if (now > validToDate.getTime())
    return `our client certificate has expired on ${inWords(validToDate)}: give this node a new one`;
  if (now < validFromDate.getTime())
    return `our client certificate is valid only from ${inWords(validFromDate)}, and by this machine's clock it is ${dayOf(now)}: set the clock`;
  return undefined;
}

/** Whom a certificate names, as Kubernetes reads it: `system:node:a`. */
export function commonNameOf(cert: string): string {
  return /^CN=(.*)$/m.exec(new X509Certificate(cert).subject)?.[1] ?? "nobody";
}

/** Its groups, as Kubernetes reads them: `system:nodes`. */
export function organizationsOf(cert: string): readonly string[] {
  return [...new X509Certificate(cert).subject.matchAll(/^O=(.*)$/gm)].map(([, name = ""]) => name);
}

/** `2026-01-02T03:04:05Z` */
function inWords(date: Date): string {
  return date.toISOString().replace(/\.\d+Z$/, "Z");
}

/** Only the day, so that the same trouble has the same words a moment later: `2026-01-02`. */
export function dayOf(now: number): string {
  return new Date(now).toISOString().slice(0, 10);
}

function readCertificate(pem: string, where: string): X509Certificate {
  try {
    return new X509Certificate(pem);
  } catch (error) {
    throw unusable(`${where} holds a certificate that cannot be read`, error);
  }
}

function readKey(pem: string, where: string) {
  try {
    return createPrivateKey(pem);
  } catch {
    // What the library says of a key it cannot read is left out: nothing of a key belongs into a message.
    throw unusable(`${where} holds a private key that cannot be read (encrypted ones cannot be used)`);
  }
}

function unusable(message: string, cause?: unknown): KubeError {
  return new KubeError("CREDENTIALS", message, cause === undefined ? {} : { cause });
}
