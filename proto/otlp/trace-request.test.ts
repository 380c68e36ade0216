import { expect, test } from "bun:test";
import { parse } from "protobufjs";
import { traceSchema } from "../../test/fakes/trace-collector.ts";
import { encodeTraceRequest } from "./trace-request.ts";

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
  const Request = parse(traceSchema).root.lookupType("Request");
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
