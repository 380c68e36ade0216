import type { TLSSocket } from "node:tls";
import type { UserInfo } from "../user-info.ts";

/**
 * The user of a client certificate that a client CA has signed: CN is the name, each O a group, and the OID
 * 1.3.6.1.4.1.57683.2 the uid. Undefined without a certificate, and for one that is not trusted or has no name: the client
 * may still have a token. Rule: CommonNameUserConversion in k8s.io/apiserver.
 */
export function userOfCertificate(socket: Pick<TLSSocket, "authorized" | "getPeerCertificate">): UserInfo | undefined {
  // The subject of a certificate that is not trusted can be anything.
  if (!socket.authorized) return undefined;
  const certificate = socket.getPeerCertificate();
  const { CN: name, O: groups } = certificate?.subject ?? {};
  if (typeof name !== "string" || name === "") return undefined;
  return { username: name, groups: typeof groups === "string" ? [groups] : [...(groups ?? [])] };
}
