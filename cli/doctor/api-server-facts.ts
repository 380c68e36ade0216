import { connect, type IncomingHttpHeaders, type IncomingHttpStatusHeader } from "node:http2";
import type { Clock } from "../../host/clock.ts";
import type { ApiServerEndpoint } from "./kubeconfig-facts.ts";

/** What the API server answered to a request without credentials, or why it did not. */
export type ApiServerAnswer = {
  /** Host and port. */
  readonly server: string;
} & (
  | {
      readonly isReachable: true;
      /** HTTP's status of /healthz: 401 and 403, too, come from a server that answers. */
      readonly status: number;
      /** How far the clock of this machine is ahead of the server's; undefined if the server does not say. */
      readonly clockAheadMs: number | undefined;
    }
  | { readonly isReachable: false; readonly message: string }
);

/** The Date header has whole seconds: on average the server's clock shows half a second more. */
const DATE_ROUNDING_MS = 500;

/** Asks the API server once whether it is healthy, and what its clock shows. Sends no credentials. */
export async function readApiServer(
  endpoint: ApiServerEndpoint,
  { clock, requestTimeoutMs }: { readonly clock: Clock; readonly requestTimeoutMs: number },
): Promise<ApiServerAnswer> {
  const server = endpoint.server.host;
  const sentAt = clock.now();
  try {
    const headers = await requestHealth(endpoint, clock, requestTimeoutMs);
    const serverTime = Date.parse(headers.date ?? "") + DATE_ROUNDING_MS;
    const clockAheadMs = (sentAt + clock.now()) / 2 - serverTime;
    return {
      server,
      isReachable: true,
      status: Number(headers[":status"]),
      clockAheadMs: Number.isNaN(clockAheadMs) ? undefined : clockAheadMs,
    };
  } catch (error) {
    return { server, isReachable: false, message: error instanceof Error ? error.message : String(error) };
  }
}

type ResponseHeaders = IncomingHttpHeaders & IncomingHttpStatusHeader;

function requestHealth(
  { server, certificateAuthority, tlsServerName, insecureSkipTlsVerify }: ApiServerEndpoint,
  clock: Clock,
  timeoutMs: number,
): Promise<ResponseHeaders> {
  return new Promise((resolve, reject) => {
    const session = connect(server.origin, {
      minVersion: "TLSv1.2",
      rejectUnauthorized: !insecureSkipTlsVerify,
      ...(certificateAuthority === undefined ? {} : { ca: [certificateAuthority] }),
      ...(tlsServerName === undefined ? {} : { servername: tlsServerName }),
    });
    const fail = (error: Error) => {
      reject(error);
      session.destroy();
    };
    const cancel = clock.wakeAt(clock.now() + timeoutMs, () =>
      fail(new Error(`no answer within ${timeoutMs / 1000} s`)),
    );
    session.once("error", fail);
    session.once("close", () => {
      cancel();
      reject(new Error("the connection was closed"));
    });
    const stream = session.request({
      ":path": `${server.pathname.replace(/\/$/, "")}/healthz`,
      ":authority": server.host,
    });
    stream.once("error", fail);
    stream.once("response", (headers) => {
      resolve(headers);
      session.destroy();
    });
    stream.end();
  });
}
