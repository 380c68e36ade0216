import { expect, test } from "bun:test";
import type { PodUid } from "../../../proto/ids.ts";
import type { DesiredPod, TerminationRequest } from "../pod/desired.ts";
import { withTerminationRequest } from "./termination-request.ts";

const web: DesiredPod = {
  uid: "u" as PodUid,
  pod: { metadata: { name: "web" }, spec: { containers: [] } },
  source: { kind: "api" },
  acceptedAt: 0,
  revision: 0,
};
const evicted: TerminationRequest = {
  reason: "Evicted",
  message: "The node was low on resource: memory.",
  disruption: { reason: "TerminationByKubelet", message: "The node was low on resource: memory." },
  gracePeriodSeconds: 20,
};
const requestAt = (at: number, pod: DesiredPod, more: Partial<TerminationRequest> = {}) =>
  withTerminationRequest(pod, { ...evicted, ...more }, at)?.terminationRequest;
const requested: DesiredPod = { ...web, terminationRequest: { ...evicted, requestedAt: 1_000 } };

test("the first request is recorded with its time", () => {
  expect(requestAt(1_000, web)).toEqual({ ...evicted, requestedAt: 1_000 });
});

test("the grace period is at least one second, as with the kubelet", () => {
  expect(requestAt(1_000, web, { gracePeriodSeconds: 0 })?.gracePeriodSeconds).toBe(1);
});

test("a repeated request changes nothing, and neither does one that ends later", () => {
  expect(requestAt(1_000, requested)).toBeUndefined();
  expect(requestAt(5_000, requested)).toBeUndefined();
  expect(requestAt(5_000, requested, { gracePeriodSeconds: 300 })).toBeUndefined();
});

test("a request that ends earlier shortens the grace period; reason, message and time stay those of the first", () => {
  const shutdown = { reason: "Terminated", message: "shutdown", gracePeriodSeconds: 5 };
  expect(requestAt(4_200, requested, shutdown)).toEqual({ ...evicted, requestedAt: 1_000, gracePeriodSeconds: 9 });
});

test("a clock that was set back does not extend the grace period", () => {
  expect(requestAt(-60_000, requested)?.gracePeriodSeconds).toBe(1);
});

test("a pod that has ended is not ended again", () => {
  expect(requestAt(1_000, { ...web, hasReleasedResources: true })).toBeUndefined();
  expect(requestAt(1_000, { ...web, pod: { ...web.pod, status: { phase: "Succeeded" } } })).toBeUndefined();
});

test("a pod that is being removed can be ended sooner", () => {
  const termination = { requestedAt: 0, gracePeriodSeconds: 300, why: "it was deleted" };
  expect(requestAt(1_000, { ...web, hasReleasedResources: true, termination })).toBeDefined();
});
