import { expect, test } from "bun:test";
import { parse } from "protobufjs";
import { encodeTraceRequest } from "./trace-request.ts";

/** The part of OpenTelemetry's .proto files that the request uses, with their field numbers. */
const schema = `syntax = "proto3";
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

test("the request is what OpenTelemetry's own schema reads", () => {
  const traceId = "0af7651916cd43dd8448eb211c80319c";
  const bytes = encodeTraceRequest({
    resource: { "service.name": "kubelet" },
    scope: "berth",
    spans: [
      {
        ...{ traceId, spanId: "b7ad6b7169203331", parentSpanId: "00f067aa0ba902b7", name: "x".repeat(300) },
        ...{ isClient: true, startedAt: 1_700_000_000_000.5, endedAt: 1_700_000_001_000 },
        attributes: { "k8s.pod": "default/web" },
        error: "no such image",
      },
    ],
  });
  const Request = parse(schema).root.lookupType("Request");
  const read = Request.toObject(Request.decode(bytes), { bytes: Buffer, longs: String });
  const span = read["resourceSpans"][0].scopeSpans[0].spans[0];
  expect(read["resourceSpans"][0].resource.attributes).toEqual([
    { key: "service.name", value: { stringValue: "kubelet" } },
  ]);
  expect({ ...span, traceId: span.traceId.toString("hex"), spanId: "", parentSpanId: "" }).toEqual({
    ...{ traceId, spanId: "", parentSpanId: "", name: "x".repeat(300), kind: 3 },
    ...{ startTimeUnixNano: "1700000000000500000", endTimeUnixNano: "1700000001000000000" },
    attributes: [{ key: "k8s.pod", value: { stringValue: "default/web" } }],
    status: { message: "no such image", code: 2 },
  });
});
