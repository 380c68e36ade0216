import { expect, test } from "bun:test";
import type { Container, Pod, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { allocationOf } from "./allocation.ts";
import { byResizeOrder, type QueuedResize, resizeRetryAt } from "./resize-queue.ts";

const containers = (cpu: string, isGuaranteed = false): readonly Container[] => {
  const list = { cpu, memory: "1Gi" };
  return [{ name: "a", resources: { requests: list, ...(isGuaranteed && { limits: list }) } }];
};
interface Given {
  readonly to: string;
  readonly since?: number;
  readonly spec?: Partial<PodSpec>;
  readonly isGuaranteed?: boolean;
}

/** From one CPU. */
function queued(name: string, { to, since, spec, isGuaranteed }: Given): QueuedResize {
  const pod: Pod = { metadata: { name }, spec: { containers: containers(to, isGuaranteed), ...spec } };
  const allocation = allocationOf({ spec: { containers: containers("1", isGuaranteed) } });
  const pending = { reason: "Deferred", message: "", generation: 1 } as const;
  return { pod, allocation: since === undefined ? allocation : { ...allocation, pending: { ...pending, since } } };
}

test("resizes that make room come first, then important pods, then those that wait longest", () => {
  const all = [
    queued("new", { to: "2" }),
    queued("newer", { to: "2" }),
    queued("waits for 5 s", { to: "2", since: 5000 }),
    queued("waits for 9 s", { to: "2", since: 1000 }),
    queued("guaranteed, waits for 5 s", { to: "2", since: 5000, isGuaranteed: true }),
    queued("priority 10", { to: "2", spec: { priority: 10 } }),
    queued("priority 20", { to: "2", since: 9000, spec: { priority: 20 } }),
    queued("priority below 0", { to: "2", since: 0, spec: { priority: -1 } }),
    queued("shrinks", { to: "500m", spec: { priority: -1 } }),
    queued("keeps its requests", { to: "1", since: 9000 }),
  ];
  const names = (list: readonly QueuedResize[]) => list.map(({ pod }) => pod.metadata.name);
  const sorted = names(all.toSorted(byResizeOrder));
  expect(sorted).toEqual([
    "keeps its requests",
    "shrinks",
    "priority 20",
    "priority 10",
    "guaranteed, waits for 5 s",
    "waits for 9 s",
    "waits for 5 s",
    "new",
    "newer",
    "priority below 0",
  ]);
  expect(new Set(names(all.toReversed().toSorted(byResizeOrder)).slice(0, 7))).toEqual(new Set(sorted.slice(0, 7)));
});

test("a deferred resize is decided again after 30 seconds, then every 3 minutes", () => {
  expect(resizeRetryAt(1000, undefined)).toBe(31_000);
  expect(resizeRetryAt(1000, 31_000)).toBe(211_000);
});
