import { expect, test } from "bun:test";
import { type AuditEvent, countRequests, firstSuccessAt } from "./audit-log.ts";

const start = Date.parse("2026-01-02T03:04:00Z");

function request(second: number, verb: string, resource: string, more: Partial<AuditEvent> = {}): AuditEvent {
  return {
    auditID: `${second} ${verb} ${resource}`,
    verb,
    user: { username: "system:node:a" },
    objectRef: { resource },
    requestReceivedTimestamp: new Date(start + second * 1000).toISOString(),
    ...more,
  };
}

const status = { objectRef: { resource: "nodes", subresource: "status" } };

test("counts each request of a node once by kind, within the time range only", () => {
  const events = [
    request(-1, "update", "leases"),
    request(0, "update", "leases"),
    request(10, "update", "leases"),
    request(20, "patch", "nodes", status),
    // The start and the end of one watch.
    request(30, "watch", "pods"),
    request(30, "watch", "pods"),
    request(40, "get", "nodes"),
    request(41, "patch", "pods", { objectRef: { resource: "pods", subresource: "status" } }),
    request(42, "create", "leases"),
    request(50, "update", "leases", { user: { username: "system:node:b" } }),
    request(60, "update", "leases"),
  ];
  expect(countRequests(events, "a", start, start + 60_000)).toEqual({
    leaseRenewals: 2,
    statusReports: 1,
    watches: 1,
    others: ["get nodes", "patch pods status", "create leases"],
  });
});

test("the first success is the first request after a time that was not refused", () => {
  const answered = (second: number, code?: number) =>
    request(second, "get", "nodes", code === undefined ? {} : { responseStatus: { code } });
  const events = [answered(1, 200), answered(11, 403), answered(12), answered(14, 201), answered(13, 200)];
  expect(firstSuccessAt(events, start + 10_000)).toBe(start + 13_000);
  expect(firstSuccessAt(events.slice(0, 3), start + 10_000)).toBe(Number.POSITIVE_INFINITY);
});
