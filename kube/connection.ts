import type { Clock, Instant } from "../host/clock.ts";
import type { Log } from "../host/log.ts";
import type { Cluster } from "./cluster.ts";
import type { KubeError } from "./error.ts";

/** Each lane waits only for itself; heartbeats wait for nobody. */
export type Lane = "heartbeat" | "main" | "events";

export interface KubeRequest {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Such as `/api/v1/nodes/a`, its parts already encoded. */
  readonly path: string;
  /** What is undefined is left out. */
  readonly query?: Readonly<Record<string, string | undefined>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** `application/json` if left out. */
  readonly contentType?: string;
  /** For everything together: waiting for the lane, connecting, retries, and the answer to its last byte. */
  readonly deadlineMs: number;
  readonly signal?: AbortSignal;
  /** `main` if left out. */
  readonly lane?: Lane;
}

export type LinesRequest = Omit<KubeRequest, "deadlineMs"> & {
  /** Until the answer begins, 30 s if left out; how long it then lasts is the server's and the signal's affair. */
  readonly deadlineMs?: number;
};

export type ConnectionState =
  | { readonly kind: "never connected" }
  | { readonly kind: "connected"; readonly since: Instant }
  /** The server cannot be reached, or does not know us. `since` is the first failure, `why` the last one. */
  | { readonly kind: "away"; readonly since: Instant; readonly why: KubeError };

/** One HTTP/2 session to one API server, made when it is needed and made anew when it is lost or our certificate changes. */
export interface Connection {
  /**
   * Resolves with the parsed JSON of a 2xx answer, undefined for an empty one. Rejects with `KubeError`. What may be sent again
   * without doing it twice (GET, or what the server has certainly not begun) is sent again within the deadline.
   */
  request(request: KubeRequest): Promise<unknown>;
  /**
   * Hands over each line of the answer as parsed JSON, as it comes. `opened` is called when the server has begun to answer with
   * success. Resolves with why it ended: undefined where the server ended it in order. Never rejects; `onLine` must not throw.
   */
  lines(request: LinesRequest, onLine: (value: unknown) => void, opened?: () => void): Promise<KubeError | undefined>;
  state(): ConnectionState;
  /** Ends everything under way with CLOSED, as everything asked for afterwards. */
  close(): void;
}

/** Requests a second, and how many may be made at once after a rest; undefined: no limit. */
export interface Rate {
  readonly qps: number;
  readonly burst: number;
}

export interface ConnectionOptions {
  readonly cluster: Cluster;
  readonly userAgent: string;
  /** The kubelet's `kubeAPIQPS` and `kubeAPIBurst`, `eventRecordQPS` and `eventBurst`. */
  readonly rates: { readonly main: Rate | undefined; readonly events: Rate | undefined };
  readonly clock: Clock;
  /** From 0 up to 1, for jitter. */
  readonly random: () => number;
  readonly log: Log;
}
