import { KubeError } from "../../kube/error.ts";
import type { ConnectionState, KubeConnection, KubeRequest, LinesRequest } from "../../kube/transport/connection.ts";
import { settlePromises } from "./clock.ts";

/** The server's end of one stream of JSON lines, which the test drives. */
export interface FakeStream {
  readonly request: LinesRequest;
  /** Sends the response headers. */
  open(): Promise<void>;
  send(...lines: readonly unknown[]): Promise<void>;
  /** Ends the stream, cleanly if there is no error. */
  end(error?: KubeError): Promise<void>;
}

/** A connection to an API server that the test plays. */
export class FakeConnection implements KubeConnection {
  readonly requests: KubeRequest[] = [];
  /** Every stream that was requested, oldest first. */
  readonly streams: FakeStream[] = [];
  /** Returns the response body of a request; the request rejects with what this throws. */
  respond: (request: KubeRequest) => unknown = ({ method, path }) => {
    throw new KubeError("NOT_FOUND", `${method} ${path}: not found`);
  };
  #openStreams = 0;

  async request(request: KubeRequest): Promise<unknown> {
    this.requests.push(request);
    const { promise: cancelled, reject } = Promise.withResolvers<never>();
    request.signal?.addEventListener("abort", () => reject(new KubeError("CANCELLED", "cancelled")), { once: true });
    return await Promise.race([cancelled, (async () => await this.respond(request))()]);
  }

  lines(request: LinesRequest, onLine: (line: unknown) => void, opened?: () => void): Promise<KubeError | undefined> {
    const { promise, resolve } = Promise.withResolvers<KubeError | undefined>();
    const cancel = () => resolve(new KubeError("CANCELLED", "cancelled"));
    request.signal?.addEventListener("abort", cancel, { once: true });
    this.#openStreams += 1;
    this.streams.push({
      request,
      open: async () => {
        opened?.();
        await settlePromises();
      },
      send: async (...lines) => {
        for (const line of lines) onLine(line);
        await settlePromises();
      },
      end: async (error) => {
        resolve(error);
        await settlePromises();
      },
    });
    return promise.finally(() => {
      this.#openStreams -= 1;
    });
  }

  state = (): ConnectionState => ({ kind: "never connected" });
  close = (): void => {};

  /** The number of streams that have not ended. */
  get openStreams(): number {
    return this.#openStreams;
  }

  get lastStream(): FakeStream {
    return this.streams.at(-1)!;
  }
}
