import { KubeError } from "../../kube/error.ts";
import type { Connection, ConnectionState, KubeRequest, LinesRequest } from "../../kube/transport/connection.ts";
import { rest } from "./clock.ts";

/** A stream of lines that a test has in its hands. */
export interface FakeStream {
  readonly request: LinesRequest;
  /** The server begins to answer. */
  open(): Promise<void>;
  send(...lines: readonly unknown[]): Promise<void>;
  /** In order, or with an error. */
  end(error?: KubeError): Promise<void>;
}

/** A connection whose other end is the test. */
export class FakeConnection implements Connection {
  readonly requests: KubeRequest[] = [];
  /** Every stream that was ever asked for, the last one last. */
  readonly streams: FakeStream[] = [];
  /** How requests are answered, if ever; what it throws is what they end with. */
  answer: (request: KubeRequest) => unknown = ({ method, path }) => {
    throw new KubeError("NOT_FOUND", `${method} ${path}: not found`);
  };
  #open = 0;

  async request(request: KubeRequest): Promise<unknown> {
    this.requests.push(request);
    const { promise: cancelled, reject } = Promise.withResolvers<never>();
    request.signal?.addEventListener("abort", () => reject(new KubeError("CANCELLED", "cancelled")), { once: true });
    return await Promise.race([cancelled, (async () => await this.answer(request))()]);
  }

  lines(request: LinesRequest, onLine: (line: unknown) => void, opened?: () => void): Promise<KubeError | undefined> {
    const { promise, resolve } = Promise.withResolvers<KubeError | undefined>();
    const cancel = () => resolve(new KubeError("CANCELLED", "cancelled"));
    request.signal?.addEventListener("abort", cancel, { once: true });
    this.#open += 1;
    this.streams.push({
      request,
      open: async () => {
        opened?.();
        await rest();
      },
      send: async (...lines) => {
        for (const line of lines) onLine(line);
        await rest();
      },
      end: async (error) => {
        resolve(error);
        await rest();
      },
    });
    return promise.finally(() => {
      this.#open -= 1;
    });
  }

  state = (): ConnectionState => ({ kind: "never connected" });
  close = (): void => {};

  /** How many streams have not ended. */
  get open(): number {
    return this.#open;
  }

  get last(): FakeStream {
    return this.streams.at(-1)!;
  }
}
