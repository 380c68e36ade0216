import type { Instant } from "../../host/clock.ts";
import type { ClusterEndpoint } from "../auth/cluster-endpoint.ts";
import type { Identity } from "../auth/credentials.ts";
import { commonNameOf, formatDate, organizationsOf, validityProblem } from "../auth/pem.ts";
import { KubeError, type KubeErrorCode } from "../error.ts";

export interface ConnectAttempt {
  readonly cluster: Pick<ClusterEndpoint, "server" | "tlsServerName">;
  readonly identity: Identity;
  readonly now: Instant;
}

/**
 * Why connecting failed or a connection was lost, with advice what to correct. `cause` is the error of `node:http2`, if
 * any.
 */
export function toConnectError(cause: unknown, attempt: ConnectAttempt): KubeError {
  const errorCode = cause instanceof Error && "code" in cause ? String(cause.code) : "";
  const [code, text] = describeError(errorCode, cause, attempt);
  return new KubeError(code, text, { cause });
}

function describeError(errorCode: string, cause: unknown, attempt: ConnectAttempt): readonly [KubeErrorCode, string] {
  const { server } = attempt.cluster;
  const networkProblem = networkMessage(errorCode, server);
  if (networkProblem !== undefined) return ["UNREACHABLE", networkProblem];
  const tlsProblem = tlsMessage(errorCode, cause, attempt);
  if (tlsProblem !== undefined) return ["TLS", tlsProblem];
  const message = cause instanceof Error ? `: ${cause.message}` : "";
  return ["UNREACHABLE", `the connection to ${server.host} has ended${message}`];
}

/** Describes a network error; undefined for other codes. */
function networkMessage(errorCode: string, { host, hostname }: URL): string | undefined {
  switch (errorCode) {
    case "ENOTFOUND":
    case "EAI_NONAME":
    case "ENODATA":
      return `there is no host ${hostname}: correct the server's address in the kubeconfig, or this machine's DNS`;
    case "EAI_AGAIN":
    case "ESERVFAIL":
    case "ETIMEOUT":
      return `the host ${hostname} cannot be looked up: this machine's DNS does not answer`;
    case "ECONNREFUSED":
      return `nothing listens at ${host}: is the API server running, and is this its port?`;
    case "EHOSTUNREACH":
    case "ENETUNREACH":
    case "EADDRNOTAVAIL":
      return `no route leads to ${host}: is the network up, and is the address right?`;
    case "ETIMEDOUT":
      return `${host} does not answer: is the address right, and does a firewall lie in between?`;
    case "ECONNRESET":
    case "EPIPE":
      return `the connection to ${host} was reset`;
    case "ERR_SSL_WRONG_VERSION_NUMBER":
    case "ERR_SSL_HTTP_REQUEST":
      return `the server at ${host} does not speak TLS: is this the API server's secure port?`;
    case "ERR_HTTP2_ERROR":
      return `the server at ${host} does not speak HTTP/2: is it the API server, without a proxy in between?`;
    default:
      return undefined;
  }
}

/** Describes a TLS error; undefined for other codes. */
function tlsMessage(errorCode: string, cause: unknown, { cluster, identity, now }: ConnectAttempt): string | undefined {
  const { host, hostname } = cluster.server;
  switch (errorCode) {
    case "UNABLE_TO_VERIFY_LEAF_SIGNATURE":
    case "UNABLE_TO_GET_ISSUER_CERT":
    case "UNABLE_TO_GET_ISSUER_CERT_LOCALLY":
    case "SELF_SIGNED_CERT_IN_CHAIN":
    case "DEPTH_ZERO_SELF_SIGNED_CERT":
    case "CERT_SIGNATURE_FAILURE":
    case "CERT_UNTRUSTED":
      return `the certificate of ${host} is not signed by the configured certificate authority: correct certificate-authority in the kubeconfig, if this is the right server`;
    case "CERT_HAS_EXPIRED":
      return `the certificate of ${host} has expired by this machine's clock (${formatDate(now)}): renew it on the server, or set the clock`;
    case "CERT_NOT_YET_VALID":
      return `the certificate of ${host} is not valid yet by this machine's clock (${formatDate(now)}): set the clock`;
    case "ERR_TLS_CERT_ALTNAME_INVALID":
      return `the certificate of ${host} is not valid for ${cluster.tlsServerName ?? hostname}: use a name that it contains${certificateNames(cause)} as server, or as tls-server-name, in the kubeconfig`;
    case "ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION":
    case "ERR_SSL_UNSUPPORTED_PROTOCOL":
      return `${host} does not speak TLS 1.2 or newer`;
    default:
      return errorCode.startsWith("ERR_SSL_") || errorCode.startsWith("CERT_")
        ? `${handshakeMessage(host, errorCode, identity, now)}`
        : undefined;
  }
}

/** ` (DNS:kubernetes, IP Address:10.96.0.1)`, if the TLS error carries the certificate. */
function certificateNames(cause: unknown): string {
  const names: unknown = Reflect.get(Object(Reflect.get(Object(cause), "cert")), "subjectaltname");
  return typeof names === "string" && names !== "" ? ` (${names.slice(0, 500)})` : "";
}

function handshakeMessage(host: string, errorCode: string, identity: Identity, now: Instant): string {
  const certificateProblem = certificateTimeProblem(identity, now);
  if (certificateProblem !== undefined) return `${host} does not accept us: ${certificateProblem}`;
  const alert = errorCode
    .replace(/^ERR_SSL_/, "")
    .toLowerCase()
    .replaceAll("_", " ");
  return `the TLS handshake with ${host} failed (${alert}): it does not accept ${describeIdentity(identity)}, or its certificate cannot be used`;
}

/** Why the server answered 401, and what to do about it. */
export function unauthorizedMessage({ cluster: { server }, identity, now }: ConnectAttempt): string {
  const certificateProblem = certificateTimeProblem(identity, now);
  if (certificateProblem !== undefined) return `${server.host} does not accept us: ${certificateProblem}`;
  const advice = "renew it, or use the kubeconfig of this cluster";
  if (identity.certificate === undefined && identity.token === undefined)
    return `${server.host} does not accept a client without credentials: give the kubeconfig's user a client certificate, a token or exec`;
  return `${server.host} does not accept ${describeIdentity(identity)}: ${advice}`;
}

/**
 * Names the identity that the server answered with 403, and what to do if that is not the user of a node with this
 * name.
 */
export function forbiddenMessage(identity: Identity, nodeName: string): string {
  const { certificate, token } = identity;
  const requiredUser = `system:node:${nodeName}`;
  if (certificate === undefined)
    return token === undefined
      ? "the kubeconfig's user has no credentials: give it a client certificate, a token or exec"
      : `the token's user lacks this permission; a node needs the user ${requiredUser} in the group system:nodes, or RBAC rules`;
  const name = commonNameOf(certificate.cert);
  const other = /^system:node:(.+)$/.exec(name)?.[1];
  if (other === undefined)
    return `our client certificate is issued to ${JSON.stringify(name)}: a node needs one for ${requiredUser} in the group system:nodes, or RBAC rules`;
  if (other !== nodeName)
    return `our client certificate is issued to the node ${JSON.stringify(other)}, but this node is named ${JSON.stringify(nodeName)}: set --hostname-override=${other}, or use a certificate for ${requiredUser}`;
  if (!organizationsOf(certificate.cert).includes("system:nodes"))
    return `our client certificate for ${requiredUser} lacks the group of nodes: it has to be issued with O=system:nodes`;
  return `we are ${describeIdentity(identity)}`;
}

/** Why our client certificate is not valid at this time: a server may then close the connection without an alert. */
export function certificateTimeProblem({ certificate }: Identity, now: Instant): string | undefined {
  return certificate === undefined ? undefined : validityProblem(certificate.cert, now);
}

/** Names our identity in messages, never with the token itself. */
export function describeIdentity({ token, certificate }: Identity): string {
  if (certificate !== undefined) return `the client certificate of ${JSON.stringify(commonNameOf(certificate.cert))}`;
  return token === undefined ? "a client without credentials" : "our token";
}
