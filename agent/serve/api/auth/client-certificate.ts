import { createHash } from "node:crypto";
import type { PeerCertificate } from "node:tls";
import { credentialIdKey } from "../../../../proto/kubernetes/well-known-names.ts";
import type { UserInfo } from "../user-info.ts";
import type { RequestCredentials } from "./authenticator.ts";

/** `refused`: it is not trusted, has expired, or names no user. The client may have a token, too. */
export type CertificateUser =
  | { readonly kind: "none" }
  | { readonly kind: "refused" }
  | { readonly kind: "user"; readonly user: UserInfo };

const UID = "1.3.6.1.4.1.57683.2";

/**
 * The user of the connection's certificate: CN is the name, each O a group. The chain was verified in the handshake; how
 * long the certificate is valid is checked for each request, since a connection may outlive it. `now` in epoch
 * milliseconds. Rule: CommonNameUserConversion in k8s.io/apiserver.
 */
export function userOfCertificate(socket: RequestCredentials["socket"], now: number): CertificateUser {
  const certificate = peerCertificateOf(socket);
  if (certificate === undefined) return { kind: "none" };
  // The subject of a certificate that is not trusted can be anything.
  if (!socket.authorized || now > Date.parse(certificate.valid_to)) return { kind: "refused" };
  const user = userOf(certificate);
  return user === undefined ? { kind: "refused" } : { kind: "user", user };
}

/** Bun returns undefined, Node an empty object, if the client has shown none. */
function peerCertificateOf(socket: RequestCredentials["socket"]): PeerCertificate | undefined {
  const certificate: Partial<PeerCertificate> | undefined = socket.getPeerCertificate();
  return certificate?.raw === undefined ? undefined : (certificate as PeerCertificate);
}

/** An attribute that occurs twice is a list. Two names, or two uids, are ambiguous. */
function userOf({ subject, raw }: PeerCertificate): UserInfo | undefined {
  const attributes = subject as unknown as Readonly<Record<string, string | readonly string[] | undefined>>;
  const { CN: username, O: groups = [], [UID]: uid } = attributes;
  if (typeof username !== "string" || username === "" || (uid !== undefined && typeof uid !== "string"))
    return undefined;
  const id = `X509SHA256=${createHash("sha256").update(raw).digest("hex")}`;
  return { username, groups: [groups].flat(), ...(uid && { uid }), extra: { [credentialIdKey]: [id] } };
}
