import type { Files } from "../../../host/fs/files.ts";
import { FilesError } from "../../../host/fs/files.ts";
import type { Reviews } from "../../../kube/reviews.ts";
import type { ApiConfig } from "../../config/config.ts";
import { StartError, toStartError } from "../../preflight/start-error.ts";
import { type ApiServer, createApiServer, type TlsSettings } from "../../serve/api/api-server.ts";
import { createAccessAuthorizer } from "../../serve/api/auth/access-authorizer.ts";
import { type Authorizer, alwaysAllow } from "../../serve/api/auth/authorizer.ts";
import { createRequestAuthenticator } from "../../serve/api/auth/request-authenticator.ts";
import { createTokenAuthenticator } from "../../serve/api/auth/token-authenticator.ts";
import { ensureSelfSignedCertificate, readCertificate } from "../../serve/api/tls/serving-certificate.ts";
import { tlsParametersOf } from "../../serve/api/tls/tls-parameters.ts";
import { type ApiRouteDeps, createApiRoutes } from "./api-routes.ts";

export interface NodeApiOptions extends Omit<ApiRouteDeps, "healthChecks"> {
  /** Asks the API server; undefined on a standalone node. */
  readonly reviews: Reviews | undefined;
  /** Rooted at `/`. */
  readonly hostFiles: Files;
}

/** The node's HTTPS API while it is served. */
export interface NodeApi {
  stop(): Promise<void>;
}

const LIMITS = { maxConnections: 4_096, idleTimeoutMs: 90_000 };
const MAX_CA_BYTES = 4 << 20;

/**
 * Serves the node's API. Undefined, with a warning, on a standalone node whose requests only an API server could authorize.
 * Throws `StartError` if the certificates cannot be used, or the port is in use.
 */
export async function serveNodeApi(options: NodeApiOptions): Promise<NodeApi | undefined> {
  const { api, clock, log, reviews } = options;
  const authorizer = createAuthorizer(options);
  if (authorizer === undefined) {
    log.warn({}, NO_AUTHORIZER);
    return undefined;
  }
  const { tokenReview, allowsAnonymous } = api;
  const authenticateToken = tokenReview && reviews && createTokenAuthenticator({ ...reviews, ...tokenReview, clock });
  const authenticator = createRequestAuthenticator({ authenticateToken, allowsAnonymous, clock });
  const { settings, unsupported } = tlsParametersOf(api.tls);
  if (unsupported.length > 0) log.warn({ unsupported }, "the node's API does not serve these parameters of TLS");
  const tls: TlsSettings = { ...settings, ...(await readFiles(options)) };
  const healthChecks = [{ name: "ping", check() {} }];
  const routes = createApiRoutes({ ...options, healthChecks });
  const server = createApiServer({ routes, authenticator, authorizer, tls, limits: LIMITS, clock, log });
  const port = await listen(server, api);
  log.info({ address: api.address, port }, "the node's API is served");
  return { stop: server.stop };
}

const NO_AUTHORIZER =
  "the node's API is not served: without an API server there is none to authorize its requests; authorization.mode AlwaysAllow serves every client with a certificate of authentication.x509.clientCAFile";

/** Undefined if only an API server could decide. */
function createAuthorizer({ api, reviews, config, clock }: NodeApiOptions): Authorizer | undefined {
  const { nodeName } = config;
  if (api.accessReview === undefined) return alwaysAllow;
  return reviews && createAccessAuthorizer({ ...reviews, ...api.accessReview, nodeName, clock });
}

async function readFiles(options: NodeApiOptions): Promise<TlsSettings> {
  const { api, hostFiles: files, clock, config } = options;
  const { files: servingFiles, certDir } = api.tls;
  const { nodeName } = config;
  const failed = (field: string) => (error: unknown) => {
    if (error instanceof FilesError) return toStartError("cannot serve the node's API", `set ${field}`)(error);
    throw new StartError(`cannot serve the node's API: ${String(error)}: set ${field}`, { cause: error });
  };
  const pair =
    servingFiles === undefined
      ? await ensureSelfSignedCertificate({ files, certDir, nodeName, clock }).catch(failed("--cert-dir"))
      : await readCertificate(files, servingFiles).catch(failed("tlsCertFile and tlsPrivateKeyFile"));
  if (api.clientCAFile === undefined) return pair;
  const ca = await files.read(api.clientCAFile, MAX_CA_BYTES).catch(failed("authentication.x509.clientCAFile"));
  return { ...pair, ca };
}

async function listen(server: ApiServer, { address, port }: ApiConfig): Promise<number> {
  try {
    return await server.listen(port, address);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new StartError(`cannot serve the node's API on ${address}:${port}: ${reason}: set address and port`, {
      cause: error,
    });
  }
}
