import { Server, ServerCredentials } from "@grpc/grpc-js";
import { parse } from "protobufjs";
import { EXPORT_TRACES_PATH } from "../../proto/otlp/trace-request.ts";

/** A collector of traces on 127.0.0.1. */
export interface TraceCollector {
  readonly endpoint: string;
  /** The requests so far, as they were sent. */
  readonly received: readonly Buffer[];
  /** The spans of all requests that were answered with success. */
  spans(): readonly ReceivedSpan[];
  stop(): void;
}

export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  /** Empty for the first span of a trace. */
  readonly parentSpanId: string;
  readonly name: string;
  /** Epoch milliseconds with their fraction. */
  readonly startedAt: number;
  readonly endedAt: number;
  readonly attributes: Readonly<Record<string, string>>;
}

/** The part of OpenTelemetry's .proto files that agents send, with their field numbers. */
export const traceSchema = `syntax = "proto3";
message Request { repeated ResourceSpans resource_spans = 1; }
message ResourceSpans { Resource resource = 1; repeated ScopeSpans scope_spans = 2; }
message Resource { repeated KeyValue attributes = 1; }
message ScopeSpans { Scope scope = 1; repeated Span spans = 2; }
message Scope { string name = 1; }
message KeyValue { string key = 1; AnyValue value = 2; }
message AnyValue { string string_value = 1; }
message Span {
  bytes trace_id = 1; bytes span_id = 2; bytes parent_span_id = 4; string name = 5; uint32 kind = 6;
  fixed64 start_time_unix_nano = 7; fixed64 end_time_unix_nano = 8; repeated KeyValue attributes = 9; Status status = 15;
}
message Status { string message = 2; uint32 code = 3; }`;

const asIs = (bytes: Buffer) => bytes;

/** Starts a collector that answers with these gRPC codes in turn, then with success. */
export async function startTraceCollector(...failures: readonly number[]): Promise<TraceCollector> {
  const server = new Server();
  const codes = [...failures];
  const [received, accepted]: readonly [Buffer[], Buffer[]] = [[], []];
  const method = {
    ...{ path: EXPORT_TRACES_PATH, requestStream: false, responseStream: false },
    ...{ requestSerialize: asIs, requestDeserialize: asIs, responseSerialize: asIs, responseDeserialize: asIs },
  };
  server.addService(
    { Export: method },
    {
      Export({ request }: { readonly request: Buffer }, answer: (error: object | null, reply?: Buffer) => void) {
        received.push(request);
        const code = codes.shift();
        if (code !== undefined) return answer({ code, details: "try later" });
        accepted.push(request);
        answer(null, Buffer.alloc(0));
      },
    },
  );
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    ),
  );
  return {
    endpoint: `127.0.0.1:${port}`,
    received,
    spans: () => accepted.flatMap(spansOf),
    stop: () => server.forceShutdown(),
  };
}

function spansOf(bytes: Buffer): readonly ReceivedSpan[] {
  const Request = parse(traceSchema).root.lookupType("Request");
  const { resourceSpans } = Request.toObject(Request.decode(bytes), { bytes: Buffer, longs: String });
  return (resourceSpans as readonly DecodedResource[]).flatMap(({ scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map(({ traceId, spanId, parentSpanId = Buffer.alloc(0), name, attributes = [], ...times }) => ({
        ...{ traceId: traceId.toString("hex"), spanId: spanId.toString("hex") },
        ...{ parentSpanId: parentSpanId.toString("hex"), name },
        ...{ startedAt: millisecondsOf(times.startTimeUnixNano), endedAt: millisecondsOf(times.endTimeUnixNano) },
        attributes: Object.fromEntries(attributes.map(({ key, value }) => [key, value.stringValue])),
      })),
    ),
  );
}

const millisecondsOf = (nanoseconds: string) => Number(BigInt(nanoseconds) / 1000n) / 1000;

interface DecodedResource {
  readonly scopeSpans: readonly { readonly spans: readonly DecodedSpan[] }[];
}

interface DecodedSpan {
  readonly traceId: Buffer;
  readonly spanId: Buffer;
  readonly parentSpanId?: Buffer;
  readonly name: string;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes?: readonly { readonly key: string; readonly value: { readonly stringValue: string } }[];
}
