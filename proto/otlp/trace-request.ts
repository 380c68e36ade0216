/*
 * The one message of OTLP that Berth sends, in protobuf: ExportTraceServiceRequest of
 * opentelemetry/proto/collector/trace/v1/trace_service.proto and opentelemetry/proto/trace/v1/trace.proto.
 */

/** One span of a trace. Ids are hexadecimal, times epoch milliseconds. */
export interface TraceSpan {
  /** 32 digits. */
  readonly traceId: string;
  /** 16 digits. */
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  /** It is a call to another program. */
  readonly isClient: boolean;
  readonly startedAt: number;
  readonly endedAt: number;
  readonly attributes: Readonly<Record<string, string>>;
  /** Why it has failed. */
  readonly error?: string;
}

export interface TraceRequest {
  /** Of the program that sends it: `service.name`. */
  readonly resource: Readonly<Record<string, string>>;
  readonly scope: string;
  readonly spans: readonly TraceSpan[];
}

/** The path of the gRPC method that takes the request. */
export const EXPORT_TRACES_PATH = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

const LENGTH_DELIMITED = 2;
const FIXED64 = 1;
const VARINT = 0;

/** Returns the message in protobuf's wire format. */
export function encodeTraceRequest({ resource, scope, spans }: TraceRequest): Buffer {
  const scopeSpans = [field(1, text(1, scope)), ...spans.map((span) => field(2, encodeSpan(span)))];
  const resourceSpans = [field(1, attributes(1, resource)), field(2, Buffer.concat(scopeSpans))];
  return field(1, Buffer.concat(resourceSpans));
}

function encodeSpan(span: TraceSpan): Buffer {
  const { parentSpanId, error } = span;
  return Buffer.concat([
    field(1, Buffer.from(span.traceId, "hex")),
    field(2, Buffer.from(span.spanId, "hex")),
    ...(parentSpanId === undefined ? [] : [field(4, Buffer.from(parentSpanId, "hex"))]),
    text(5, span.name),
    // SPAN_KIND_CLIENT or SPAN_KIND_INTERNAL
    number(6, span.isClient ? 3 : 1),
    nanoseconds(7, span.startedAt),
    nanoseconds(8, span.endedAt),
    attributes(9, span.attributes),
    // STATUS_CODE_ERROR
    ...(error === undefined ? [] : [field(15, Buffer.concat([text(2, error), number(3, 2)]))]),
  ]);
}

/** Each is a KeyValue whose AnyValue is a text. */
function attributes(tag: number, all: Readonly<Record<string, string>>): Buffer {
  const pairs = Object.entries(all).map(([key, value]) => Buffer.concat([text(1, key), field(2, text(1, value))]));
  return Buffer.concat(pairs.map((pair) => field(tag, pair)));
}

function field(tag: number, content: Buffer): Buffer {
  return Buffer.concat([varint(tag * 8 + LENGTH_DELIMITED), varint(content.length), content]);
}

const text = (tag: number, content: string) => field(tag, Buffer.from(content));
const number = (tag: number, value: number) => Buffer.concat([varint(tag * 8 + VARINT), varint(value)]);

function nanoseconds(tag: number, epochMs: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(Math.round(epochMs * 1000)) * 1000n);
  return Buffer.concat([varint(tag * 8 + FIXED64), bytes]);
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
  return Buffer.from([...bytes, rest]);
}
