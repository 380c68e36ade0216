import { Agent, type RequestOptions, request as requestHttps } from "node:https";
import type { Node } from "../../../proto/kubernetes/gen/types.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import type { ControlPlane } from "../../upstream/control-plane.ts";
import type { ApiClient } from "../cluster/api-client.ts";
import { nodesPath } from "../cluster/api-watch.ts";

/** How an administrator's client reaches the API of one node, for `node:tls`. */
export interface NodeServer {
  readonly host: string;
  readonly port: number;
  readonly cert: string;
  readonly key: string;
  readonly rejectUnauthorized: false;
}

/** A body that was read to its end. */
export interface Read {
  /** From the request to the last byte, in milliseconds. */
  readonly ms: number;
  readonly bytes: number;
}

/** A client of one node's API, in this process: kubectl would take longer than the measured time. */
export interface NodeApi {
  readonly server: NodeServer;
  /** Reads a page as Prometheus does, compressed, on a connection that stays open. The kubelet negotiates no HTTP/2. */
  readPage(path: string): Promise<Read>;
  /** Reads a body on a connection of its own, without keeping it. */
  download(path: string): Promise<Read>;
  close(): void;
}

/** Finds the node's API by its Node object, which has to have an address and a port. A status other than 200 rejects. */
export async function connectNodeApi(
  nodeName: string,
  api: Pick<ApiClient, "get">,
  { authority }: Pick<ControlPlane, "authority">,
): Promise<NodeApi> {
  const { status } = (await api.get(`${nodesPath}/${nodeName}`)) as Node;
  const host = status?.addresses?.find(({ type }) => type === "InternalIP")?.address;
  const port = status?.daemonEndpoints?.kubeletEndpoint?.Port;
  if (host === undefined || port === undefined) throw new Error(`the Node ${nodeName} has no address or no port`);
  const identity = authority.issue({ commonName: "bench", organizations: ["system:masters"] });
  // The kubelet signs its serving certificate itself.
  const server: NodeServer = { host, port, ...identity, rejectUnauthorized: false };
  const connection = new Agent({ keepAlive: true, maxSockets: 1 });
  return {
    server,
    readPage: (path) => read({ ...server, path, agent: connection, headers: { "accept-encoding": "gzip" } }),
    download: (path) => read({ ...server, path, agent: false }),
    close: () => connection.destroy(),
  };
}

/**
 * Connects once the Node has the new agent's port, and reads a page: an agent that has not measured for long measures twice. If
 * that takes too long, rejects with the reason of the last attempt.
 */
export async function connectOnceReady(
  what: string,
  timeoutMs: number,
  connect: () => Promise<NodeApi>,
): Promise<NodeApi> {
  let lastError: unknown;
  const attempt = async () => {
    let api: NodeApi | undefined;
    try {
      api = await connect();
      await api.readPage("/metrics/resource");
      return api;
    } catch (error) {
      // The Node has no port, or still that of the agent before, or the new agent is not ready.
      lastError = error;
      api?.close();
      return undefined;
    }
  };
  try {
    return await pollUntil(what, timeoutMs, attempt);
  } catch (error) {
    throw new Error(`${messageOf(error)}; the last attempt: ${messageOf(lastError)}`, { cause: lastError });
  }
}

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error));

function read(options: RequestOptions): Promise<Read> {
  const { host, port, path } = options;
  const from = performance.now();
  return new Promise((resolve, reject) => {
    const fail = (reason: string) => reject(new Error(`GET ${path} from ${host}:${port}: ${reason}`));
    const sent = requestHttps(options, (response) => {
      const { statusCode } = response;
      let bytes = 0;
      let refusal = "";
      response.on("data", (chunk: Buffer) => {
        bytes += chunk.length;
        if (statusCode !== 200) refusal += chunk.toString();
      });
      response.on("aborted", () => fail("the answer has ended early"));
      response.on("error", reject);
      response.on("end", () => {
        if (statusCode === 200) resolve({ ms: performance.now() - from, bytes });
        else fail(`${statusCode} ${refusal}`);
      });
    });
    sent.on("error", reject);
    sent.end();
  });
}
