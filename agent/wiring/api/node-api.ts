import { messageOf } from "../../../host/error-message.ts";
import type { Log } from "../../../host/log/log.ts";
import type { Reviews } from "../../../kube/reviews.ts";
import type { ApiConfig } from "../../config/config.ts";
import { StartError } from "../../preflight/start-error.ts";
import { type ApiServer, createApiServer, type TlsSettings } from "../../serve/api/api-server.ts";
import { createAccessAuthorizer } from "../../serve/api/auth/access-authorizer.ts";
import { type Authorizer, alwaysAllow } from "../../serve/api/auth/authorizer.ts";
import { createRequestAuthenticator } from "../../serve/api/auth/request-authenticator.ts";
import { createTokenAuthenticator } from "../../serve/api/auth/token-authenticator.ts";
import { apiConnectionLimits } from "../../serve/api/connections.ts";
import { withBursts } from "../../serve/api/request-bursts.ts";
import {
  createTlsFiles,
  isSameCA,
  type TlsContents,
  type TlsFiles,
  type TlsFilesOptions,
} from "../../serve/api/tls/tls-files.ts";
import { tlsParametersOf } from "../../serve/api/tls/tls-parameters.ts";
import { createHttpRequestRecorder } from "../../serve/metrics/http-recorder.ts";
import { type ApiRouteDeps, createApiRoutes } from "./api-routes.ts";

export interface NodeApiOptions extends Omit<ApiRouteDeps, "certificates"> {
  /** Asks the API server; undefined on a standalone node. */
  readonly reviews: Reviews | undefined;
  /** The certificate in PEM that the API server was last shown; undefined if there is none. */
  readonly clientCertificate: () => string | undefined;
}

/** The node's HTTPS API while it is served. */
export interface NodeApi {
  /** Address and port. */
  readonly address: string;
  stop(): Promise<void>;
}

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
  if (unsupported.length > 0)
    log.warn({ unsupported }, "the node's API does not support these parameters of TLS, and ignores them");
  const files = createTlsFiles({ ...options, ...tlsFilesOf(options) });
  const contents = await readFirst(files, api);
  const served = { contents };
  const certificates = { client: options.clientCertificate, serving: () => served.contents.cert };
  const routes = createApiRoutes({ ...options, certificates });
  const tls = tlsSettings(settings, contents);
  const onRequest = withBursts(createHttpRequestRecorder(options.metrics, clock), options.agent.releaseMemorySoon);
  const limits = apiConnectionLimits;
  const server = createApiServer({ routes, authenticator, authorizer, tls, limits, onRequest, clock, log });
  const port = await listen(server, api);
  log.info({ address: api.address, port }, "the node's API is served");
  const stopped = new AbortController();
  const followed = followFiles(files, served, { server, settings, log }, stopped.signal);
  return {
    address: `${api.address}:${port}`,
    async stop() {
      stopped.abort();
      await Promise.all([server.stop(), followed]);
    },
  };
}

const NO_AUTHORIZER =
  "the node's API is not served: a standalone node has no API server that authorizes requests; set authorization.mode: AlwaysAllow to serve every client with a certificate of authentication.x509.clientCAFile";

/** Undefined if only an API server could decide. */
function createAuthorizer({ api, reviews, config, clock }: NodeApiOptions): Authorizer | undefined {
  const { nodeName } = config;
  if (api.accessReview === undefined) return alwaysAllow;
  return reviews && createAccessAuthorizer({ ...reviews, ...api.accessReview, nodeName, clock });
}

function tlsFilesOf({
  api,
  config,
  hostFiles: files,
}: NodeApiOptions): Pick<TlsFilesOptions, "files" | "serving" | "certDir" | "nodeName" | "clientCAFile"> {
  const { files: serving, certDir } = api.tls;
  return { files, serving, certDir, nodeName: config.nodeName, clientCAFile: api.clientCAFile };
}

async function readFirst(files: TlsFiles, { tls }: ApiConfig): Promise<TlsContents> {
  try {
    return await files.read();
  } catch (error) {
    const fields = tls.files === undefined ? "--cert-dir" : "tlsCertFile and tlsPrivateKeyFile";
    throw new StartError(
      `cannot serve the node's API: ${messageOf(error)}: set ${fields}, and authentication.x509.clientCAFile`,
      { cause: error },
    );
  }
}

function tlsSettings(settings: Partial<TlsSettings>, { ca, ...pair }: TlsContents): TlsSettings {
  return { ...settings, ...pair, ...(ca && { ca: [...ca] }) };
}

interface FollowingServer {
  readonly server: ApiServer;
  readonly settings: Partial<TlsSettings>;
  readonly log: Log;
}

/** Serves new certificates without a restart, and keeps them in `served`. Clients that an earlier client CA has admitted connect again. */
function followFiles(
  files: TlsFiles,
  served: { contents: TlsContents },
  { server, settings, log }: FollowingServer,
  signal: AbortSignal,
): Promise<void> {
  const onChanged = (contents: TlsContents) => {
    try {
      server.setTls(tlsSettings(settings, contents));
    } catch (err) {
      log.warn({ err }, "the node's API keeps its certificates: the new ones cannot be used");
      return;
    }
    log.info({}, "the node's API uses new certificates");
    if (!isSameCA(contents, served.contents)) server.drainConnections();
    served.contents = contents;
  };
  return files.follow(served.contents, onChanged, signal);
}

async function listen(server: ApiServer, { address, port }: ApiConfig): Promise<number> {
  try {
    return await server.listen(port, address);
  } catch (error) {
    throw new StartError(
      `cannot serve the node's API on ${address}:${port}: ${messageOf(error)}: set address and port`,
      {
        cause: error,
      },
    );
  }
}
