import type { Instant } from "../../host/clock.ts";
import type { Cluster } from "../auth/cluster-endpoint.ts";
import type { Identity } from "../auth/credentials.ts";
import { commonNameOf, dayOf, organizationsOf, timeProblem } from "../auth/pem.ts";
import { KubeError, type KubeErrorCode } from "../error.ts";

export interface Attempt {
  readonly cluster: Pick<Cluster, "server" | "tlsServerName">;
  readonly identity: Identity;
  readonly now: Instant;
}

/** Why there is no connection, or no longer one, and what to do about it. `cause` is what `node:http2` said, if anything. */
export function toConnectError(cause: unknown, attempt: Attempt): KubeError {
  const said = cause instanceof Error && "code" in cause ? String(cause.code) : "";
  const [code, words] = inOurWords(said, cause, attempt);
  return new KubeError(code, words, { cause });
}

function inOurWords(said: string, cause: unknown, attempt: Attempt): readonly [KubeErrorCode, string] {
  const { server } = attempt.cluster;
  const way = wayWords(said, server);
  if (way !== undefined) return ["UNREACHABLE", way];
  const trust = trustWords(said, cause, attempt);
  if (trust !== undefined) return ["TLS", trust];
  const message = cause instanceof Error ? `: ${cause.message}` : "";
  return ["UNREACHABLE", `the connection to ${server.host} has ended${message}`];
}

/** What is wrong with the way to the server. */
function wayWords(said: string, { host, hostname }: URL): string | undefined {
  switch (said) {
    case "ENOTFOUND":
    case "EAI_NONAME":
    case "ENODATA":
      return `there is no host ${hostname}: correct the server's address in the kubeconfig, or this machine's DNS`;
    case "EAI_AGAIN":
    case "ESERVFAIL":
    case "ETIMEOUT":
      return `the host ${hostname} cannot be looked up: this machine's DNS does not answer`;
    case "ECONNREFUSED":
      return `nobody listens at ${host}: is the API server running, and is this its port?`;
    case "EHOSTUNREACH":
    case "ENETUNREACH":
    case "EADDRNOTAVAIL":
      return `no route leads to ${host}: is the network up, and is the address right?`;
    case "ETIMEDOUT":
      return `${host} does not answer: is the address right, and does a firewall lie in between?`;
    case "ECONNRESET":
    case "EPIPE":
      return `the connection to ${host} was broken off`;
    case "ERR_SSL_WRONG_VERSION_NUMBER":
    case "ERR_SSL_HTTP_REQUEST":
      return `what listens at ${host} does not speak TLS: is this the API server's secure port?`;
    case "ERR_HTTP2_ERROR":
      return `what listens at ${host} does not speak HTTP/2: is it the API server, without a proxy in between?`;
    default:
      return undefined;
  }
}

/** Why the two do not trust each other. */
function trustWords(said: string, cause: unknown, { cluster, identity, now }: Attempt): string | undefined {
  const { host, hostname } = cluster.server;
  switch (said) {
    case "UNABLE_TO_VERIFY_LEAF_SIGNATURE":
    case "UNABLE_TO_GET_ISSUER_CERT":
    case "UNABLE_TO_GET_ISSUER_CERT_LOCALLY":
    case "SELF_SIGNED_CERT_IN_CHAIN":
    case "DEPTH_ZERO_SELF_SIGNED_CERT":
    case "CERT_SIGNATURE_FAILURE":
    case "CERT_UNTRUSTED":
      return `the certificate of ${host} is not from the certificate authority that we were given: correct certificate-authority in the kubeconfig, if this is the right server`;
    case "CERT_HAS_EXPIRED":
      return `the certificate of ${host} has expired by this machine's clock (${dayOf(now)}): renew it on the server, or set the clock`;
    case "CERT_NOT_YET_VALID":
      return `the certificate of ${host} is not valid yet by this machine's clock (${dayOf(now)}): set the clock`;
    case "ERR_TLS_CERT_ALTNAME_INVALID":
      return `the certificate of ${host} is not made out to ${cluster.tlsServerName ?? hostname}: use a name that it carries${namesOf(cause)} as server, or as tls-server-name, in the kubeconfig`;
    case "ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION":
    case "ERR_SSL_UNSUPPORTED_PROTOCOL":
      return `${host} does not speak TLS 1.2 or newer`;
    default:
      return said.startsWith("ERR_SSL_") || said.startsWith("CERT_")
        ? `${notTaken(host, said, identity, now)}`
        : undefined;
  }
}

/** ` (DNS:kubernetes, IP Address:10.96.0.1)`, as far as TLS tells of them. */
function namesOf(cause: unknown): string {
  const names: unknown = Reflect.get(Object(Reflect.get(Object(cause), "cert")), "subjectaltname");
  return typeof names === "string" && names !== "" ? ` (${names.slice(0, 500)})` : "";
}

function notTaken(host: string, said: string, identity: Identity, now: Instant): string {
  const own = ownTimeProblem(identity, now);
  if (own !== undefined) return `${host} does not accept us: ${own}`;
  const alert = said
    .replace(/^ERR_SSL_/, "")
    .toLowerCase()
    .replaceAll("_", " ");
  return `${host} and we do not agree (${alert}): it does not accept ${describeIdentity(identity)}, or its certificate cannot be used`;
}

/** Why the server answered 401, and what to do about it. */
export function unauthorizedWords({ cluster: { server }, identity, now }: Attempt): string {
  const own = ownTimeProblem(identity, now);
  if (own !== undefined) return `${server.host} does not accept us: ${own}`;
  const advice = "renew it, or use the kubeconfig of this cluster";
  if (identity.certificate === undefined && identity.token === undefined)
    return `${server.host} does not accept a client without credentials: give the kubeconfig's user a client certificate, a token or exec`;
  return `${server.host} does not accept ${describeIdentity(identity)}: ${advice}`;
}

/** Whom the server has answered 403; where that is not the user that a node of this name has to be, what to do about it. */
export function forbiddenWords(identity: Identity, nodeName: string): string {
  const { certificate, token } = identity;
  const wanted = `system:node:${nodeName}`;
  if (certificate === undefined)
    return token === undefined
      ? "the kubeconfig's user has no credentials: give it a client certificate, a token or exec"
      : `we are whoever our token stands for; what a node needs is granted to ${wanted} in the group system:nodes, or by RBAC`;
  const name = commonNameOf(certificate.cert);
  const other = /^system:node:(.+)$/.exec(name)?.[1];
  if (other === undefined)
    return `our client certificate is made out to ${JSON.stringify(name)}: a node needs one of ${wanted} in the group system:nodes, or rights by RBAC`;
  if (other !== nodeName)
    return `our client certificate is made out to the node ${JSON.stringify(other)}, and this node is called ${JSON.stringify(nodeName)}: give --hostname-override=${other}, or a certificate of ${wanted}`;
  if (!organizationsOf(certificate.cert).includes("system:nodes"))
    return `our client certificate of ${wanted} lacks the group of nodes: it has to be issued with O=system:nodes`;
  return `we are ${describeIdentity(identity)}`;
}

/** The server broke off without an answer: if our own certificate is out of its time, then for that. */
export function ownTimeProblem({ certificate }: Identity, now: Instant): string | undefined {
  return certificate === undefined ? undefined : timeProblem(certificate.cert, now);
}

/** Whom we claim to be, for messages: never the token itself. */
export function describeIdentity({ token, certificate }: Identity): string {
  if (certificate !== undefined) return `the client certificate of ${JSON.stringify(commonNameOf(certificate.cert))}`;
  return token === undefined ? "a client without credentials" : "our token";
}
