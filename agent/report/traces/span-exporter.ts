import { Client, credentials } from "@grpc/grpc-js";
import type { Clock } from "../../../host/clock.ts";
import type { Log } from "../../../host/log/log.ts";
import { EXPORT_TRACES_PATH, encodeTraceRequest, type TraceSpan } from "../../../proto/otlp/trace-request.ts";

export interface SpanExporter {
  /** Sends the span with others, some seconds later. Never throws. */
  export(span: TraceSpan): void;
  /** Sends what is left, for at most a second, and closes the connection. */
  stop(): Promise<void>;
}

export interface SpanExporterOptions {
  /** `HOST:PORT`, or `unix://PATH`. As with the kubelet, the connection is not encrypted. */
  readonly endpoint: string;
  readonly resource: Readonly<Record<string, string>>;
  readonly clock: Clock;
  readonly log: Log;
}

/** The limits of OpenTelemetry's batch processor. */
const SEND_AFTER_MS = 5_000;
const SPANS_OF_REQUEST = 512;
const MAX_SPANS = 2_048;
const TIMEOUT_MS = 10_000;

/** Sends spans to a collector by OTLP over gRPC. Spans that the collector does not accept are dropped. */
export function createSpanExporter({ endpoint, resource, clock, log }: SpanExporterOptions): SpanExporter {
  const client = new Client(endpoint, credentials.createInsecure(), { "grpc.use_local_subchannel_pool": 1 });
  let waiting: TraceSpan[] = [];
  let cancelTimer: (() => void) | undefined;
  /** Spans that were sent and not answered: a collector that hangs gets no more than the limit. */
  let underWay = 0;
  let isAway = false;

  function send(timeoutMs: number): Promise<void> {
    cancelTimer?.();
    cancelTimer = undefined;
    const request = encodeTraceRequest({ resource, scope: "berth", spans: waiting });
    const count = waiting.length;
    waiting = [];
    underWay += count;
    return new Promise((resolve) => {
      const deadline = Date.now() + timeoutMs;
      const asIs = (bytes: Buffer) => bytes;
      client.makeUnaryRequest(EXPORT_TRACES_PATH, asIs, asIs, request, { deadline }, (error) => {
        if (error !== null && !isAway) log.warn({ endpoint, err: error }, "cannot send traces to the collector");
        isAway = error !== null;
        underWay -= count;
        resolve();
      });
    });
  }

  return {
    export(span) {
      if (waiting.length + underWay >= MAX_SPANS) return;
      waiting.push(span);
      if (waiting.length >= SPANS_OF_REQUEST) void send(TIMEOUT_MS);
      else cancelTimer ??= clock.wakeAt(clock.now() + SEND_AFTER_MS, () => void send(TIMEOUT_MS));
    },
    async stop() {
      if (waiting.length > 0) await send(1_000);
      client.close();
    },
  };
}
