import { generateKeyPair, type KeyObject, randomBytes, sign, X509Certificate } from "node:crypto";
import { isIP, isIPv4 } from "node:net";
import { promisify } from "node:util";
import {
  bitString,
  boolean,
  element,
  integer,
  objectIdentifier,
  octetString,
  sequence,
  set,
  time,
  utf8String,
} from "./der.ts";

/** A certificate and its private key, both in PEM. */
export interface CertificateAndKey {
  readonly cert: string;
  readonly key: string;
}

export interface SelfSignedOptions {
  readonly commonName: string;
  /** DNS names and IP addresses. */
  readonly hosts: readonly string[];
  /** Epoch milliseconds. */
  readonly validFrom: number;
  readonly validTo: number;
}

const generatePair = promisify(generateKeyPair);
const ECDSA_WITH_SHA256 = sequence(objectIdentifier("1.2.840.10045.4.3.2"));
const VERSION_3 = element(0xa0, integer([2]));
const SERVER_AUTH = objectIdentifier("1.3.6.1.5.5.7.3.1");
const DIGITAL_SIGNATURE = bitString([0x80], 7);

/** Makes a key (ECDSA P-256), and a certificate for a TLS server (RFC 5280) that it signs itself. */
export async function createSelfSignedCertificate(options: SelfSignedOptions): Promise<CertificateAndKey> {
  const { publicKey, privateKey } = await generatePair("ec", { namedCurve: "P-256" });
  const content = formatContent(options, publicKey);
  const signature = sign("sha256", content, privateKey);
  const der = sequence(content, ECDSA_WITH_SHA256, bitString(signature));
  return {
    cert: new X509Certificate(der).toString(),
    key: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
  };
}

/** What is signed: TBSCertificate. */
function formatContent({ commonName, hosts, validFrom, validTo }: SelfSignedOptions, publicKey: KeyObject): Uint8Array {
  const name = sequence(set(sequence(objectIdentifier("2.5.4.3"), utf8String(commonName))));
  const extensions = sequence(
    extension("2.5.29.19", sequence(), true),
    extension("2.5.29.15", DIGITAL_SIGNATURE, true),
    extension("2.5.29.37", sequence(SERVER_AUTH)),
    extension("2.5.29.17", sequence(...hosts.map(formatHost))),
  );
  return sequence(
    VERSION_3,
    // A serial number is positive: its first bit is 0.
    integer(Buffer.concat([Buffer.of(0x40), randomBytes(15)])),
    ECDSA_WITH_SHA256,
    name,
    sequence(time(validFrom), time(validTo)),
    name,
    publicKey.export({ type: "spki", format: "der" }),
    element(0xa3, extensions),
  );
}

function formatHost(host: string): Uint8Array {
  if (isIP(host) === 0) return element(0x82, Buffer.from(host));
  return element(0x87, isIPv4(host) ? host.split(".").map(Number) : bytesOfIPv6(host));
}

function bytesOfIPv6(address: string): readonly number[] {
  // The URL parser writes an address in its shortest form, without a dotted part.
  const [head = "", tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split("::");
  const groups = (text: string | undefined) => (text === undefined || text === "" ? [] : text.split(":"));
  const zeros = 8 - groups(head).length - groups(tail).length;
  const all = [...groups(head), ...Array<string>(tail === undefined ? 0 : zeros).fill("0"), ...groups(tail)];
  return all.flatMap((group) => [Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 0xff]);
}

function extension(id: string, value: Uint8Array, isCritical = false): Uint8Array {
  return sequence(objectIdentifier(id), ...(isCritical ? [boolean(true)] : []), octetString(value));
}
