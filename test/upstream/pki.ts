import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";
import { isIPv4 } from "node:net";
import { formatPemBlock } from "../../proto/pem.ts";

// Creates the certificates that tests need, invalid ones included, without a program that might not be installed: X.509
// is a few nested DER records, and node:crypto makes the keys and signatures.

/** A certificate and its private key, as PEM. */
export interface KeyPair {
  readonly cert: string;
  readonly key: string;
}

export interface CertificateRequest {
  /** Kubernetes takes it as the user name. */
  readonly commonName: string;
  /** Kubernetes takes them as the user's groups. */
  readonly organizations?: readonly string[];
  /** Host names and IPv4 addresses of a server. */
  readonly hosts?: readonly string[];
  readonly validFrom?: Date;
  readonly validTo?: Date;
}

/** A certificate authority. Its certificates are valid for clients and for servers. */
export interface CertificateAuthority extends KeyPair {
  issue(request: CertificateRequest): KeyPair;
  /** A certificate for a key that another program has made, as PEM. */
  certify(request: CertificateRequest, publicKey: KeyObject): string;
}

/**
 * Creates a certificate authority with a new key. Two authorities of the same name do not trust each other's
 * certificates.
 */
export function createCertificateAuthority(commonName: string): CertificateAuthority {
  const keys = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const issuer = { commonName, privateKey: keys.privateKey, keyId: keyId(keys.publicKey) };
  const cert = certificate({ commonName }, keys.publicKey, issuer, [
    extension("2.5.29.19", sequence(boolean(true)), true),
    extension("2.5.29.15", bits(0x06, 1), true),
  ]);
  return {
    cert,
    key: keyPem(keys.privateKey),
    issue(request) {
      const leafKeys = generateKeyPairSync("ec", { namedCurve: "P-256" });
      return {
        cert: certificate(request, leafKeys.publicKey, issuer, leafExtensions(request)),
        key: keyPem(leafKeys.privateKey),
      };
    },
    certify: (request, publicKey) => certificate(request, publicKey, issuer, leafExtensions(request)),
  };
}

/** A private key for service account tokens, as PEM in a form that the API server accepts for signing and verifying. */
export function createSigningKey(): string {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  return privateKey.export({ type: "sec1", format: "pem" }) as string;
}

interface Issuer {
  readonly commonName: string;
  readonly privateKey: KeyObject;
  readonly keyId: Buffer;
}

const keyPem = (key: KeyObject) => key.export({ type: "pkcs8", format: "pem" }) as string;
const publicDer = (key: KeyObject) => key.export({ type: "spki", format: "der" });
const keyId = (key: KeyObject) => createHash("sha256").update(publicDer(key)).digest().subarray(0, 20);

const hourMs = 3_600_000;
const yearMs = 365 * 24 * hourMs;

function certificate(
  request: CertificateRequest,
  publicKey: KeyObject,
  issuer: Issuer,
  extensions: readonly Buffer[],
): string {
  const { validFrom = new Date(Date.now() - hourMs), validTo = new Date(Date.now() + yearMs) } = request;
  const signature = sequence(oid("1.2.840.10045.4.3.2"));
  const ids = [
    extension("2.5.29.14", octets(keyId(publicKey))),
    extension("2.5.29.35", sequence(derRecord(0x80, issuer.keyId))),
  ];
  const content = sequence(
    derRecord(0xa0, integer(Buffer.of(2))),
    // A serial number is positive, so the first bit is 0.
    integer(Buffer.concat([Buffer.of(0x40), randomBytes(15)])),
    signature,
    distinguishedName({ commonName: issuer.commonName }),
    sequence(time(validFrom), time(validTo)),
    distinguishedName(request),
    publicDer(publicKey),
    derRecord(0xa3, sequence(...extensions, ...ids)),
  );
  const der = sequence(content, signature, bitString(sign("sha256", content, issuer.privateKey)));
  return formatPemBlock("CERTIFICATE", der);
}

function leafExtensions({ hosts = [] }: CertificateRequest): readonly Buffer[] {
  const usages = ["1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"];
  const names = hosts.map((host) =>
    isIPv4(host) ? derRecord(0x87, Buffer.from(host.split(".").map(Number))) : derRecord(0x82, Buffer.from(host)),
  );
  return [
    extension("2.5.29.19", sequence(), true),
    extension("2.5.29.15", bits(0x80, 7), true),
    extension("2.5.29.37", sequence(...usages.map(oid))),
    ...(names.length > 0 ? [extension("2.5.29.17", sequence(...names))] : []),
  ];
}

function distinguishedName({ commonName, organizations = [] }: CertificateRequest): Buffer {
  const part = (type: string, text: string) => derRecord(0x31, sequence(oid(type), derRecord(0x0c, Buffer.from(text))));
  return sequence(...organizations.map((one) => part("2.5.4.10", one)), part("2.5.4.3", commonName));
}

/** UTCTime (two digits for the year) up to 2049, GeneralizedTime (four digits) from then on, as RFC 5280 requires. */
function time(date: Date): Buffer {
  const text = `${date.toISOString().replaceAll(/[-:T]|\.\d+/g, "")}`;
  const year = date.getUTCFullYear();
  return year >= 1950 && year < 2050 ? derRecord(0x17, Buffer.from(text.slice(2))) : derRecord(0x18, Buffer.from(text));
}

function oid(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split(".").map(Number);
  return derRecord(0x06, Buffer.from([first * 40 + second, ...rest.flatMap(base128)]));
}

/** Encodes a number in groups of seven bits. The eighth bit is set in all groups but the last. */
function base128(value: number): readonly number[] {
  const groups = [value & 0x7f];
  for (let rest = value >> 7; rest > 0; rest >>= 7) groups.unshift((rest & 0x7f) | 0x80);
  return groups;
}

const extension = (id: string, value: Buffer, isCritical = false) =>
  sequence(oid(id), ...(isCritical ? [boolean(true)] : []), octets(value));
const boolean = (value: boolean) => derRecord(0x01, Buffer.of(value ? 0xff : 0));
const integer = (bytes: Buffer) => derRecord(0x02, bytes);
const bits = (byte: number, unused: number) => derRecord(0x03, Buffer.of(unused, byte));
const bitString = (bytes: Buffer) => derRecord(0x03, Buffer.of(0), bytes);
const octets = (bytes: Buffer) => derRecord(0x04, bytes);
const sequence = (...parts: readonly Uint8Array[]) => derRecord(0x30, ...parts);

/** One DER record: tag, length, content. */
function derRecord(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}
