import { expect, test } from "bun:test";
import type { Container, PodSpec, ResourceRequirements } from "./gen/types.ts";
import { podLimits, podRequests } from "./pod-resources.ts";
import type { ResourceQuantities } from "./resource-list.ts";
import { formatQuantity } from "./values/quantity.ts";

let count = 0;
const container = (resources: ResourceRequirements, more: Partial<Container> = {}): Container => ({
  name: `c${count++}`,
  resources,
  ...more,
});
const cpu = (amount: string, more: Partial<Container> = {}) =>
  container({ requests: { cpu: amount }, limits: { cpu: amount } }, more);
const sidecar = (amount: string) => cpu(amount, { restartPolicy: "Always" });
const format = (quantities: ResourceQuantities) =>
  Object.fromEntries([...quantities].map(([name, quantity]) => [name, formatQuantity(quantity)]));

/** By sentence: a pod whose containers have equal CPU requests and limits, and what it needs. */
const steps: Readonly<Record<string, readonly [init: readonly Container[], app: readonly Container[], cpu: string]>> = {
  "app containers run together": [[], [cpu("1"), cpu("500m")], "1500m"],
  "an init container runs alone": [[cpu("4"), cpu("3")], [cpu("1"), cpu("1")], "4"],
  "a small init container costs nothing": [[cpu("1")], [cpu("2")], "2"],
  // KEP-753, "Resources calculation for scheduling and pod admission".
  "a sidecar runs beside the app containers": [[sidecar("1")], [cpu("2")], "3"],
  "a sidecar runs beside the init containers behind it": [[sidecar("1"), cpu("4")], [cpu("2")], "5"],
  "a sidecar does not run beside the init containers before it": [[cpu("4"), sidecar("1")], [cpu("2")], "4"],
  "sidecars add up in their order": [[sidecar("1"), cpu("2"), sidecar("3"), cpu("1")], [cpu("500m")], "5"],
  "an init container between two sidecars may need the most": [
    [sidecar("1"), cpu("9"), sidecar("3")],
    [cpu("1")],
    "10",
  ],
};
for (const [sentence, [initContainers, containers, expected]] of Object.entries(steps))
  test(`steps of a pod: ${sentence}`, () => {
    const spec = { initContainers, containers };
    expect(format(podRequests(spec))).toEqual({ cpu: expected });
    expect(format(podLimits(spec))).toEqual({ cpu: expected });
    expect(format(podLimits(spec, { requiresAllContainers: true }))).toEqual({ cpu: expected });
  });

test("each resource has a maximum of its own", () => {
  const spec: PodSpec = {
    initContainers: [container({ requests: { cpu: "2", memory: "1Mi" } })],
    containers: [container({ requests: { cpu: "1", memory: "3Mi" } })],
  };
  expect(format(podRequests(spec))).toEqual({ cpu: "2", memory: "3Mi" });
});

test("small amounts are summed exactly, without rounding each", () => {
  const spec = { containers: [cpu("100u"), cpu("200u")] };
  expect(format(podRequests(spec))).toEqual({ cpu: "300u" });
});

test("an unreadable amount counts as zero", () => {
  expect(format(podRequests({ containers: [cpu("a lot"), cpu("1")] }))).toEqual({ cpu: "1" });
});

const KEP_2837: PodSpec = {
  resources: { requests: { cpu: "4", memory: "100Mi" }, limits: { memory: "200Mi" } },
  containers: [
    container({
      requests: { cpu: "1", memory: "50Mi", "example.com/dongle": "1" },
      limits: { cpu: "2", memory: "80Mi", "example.com/dongle": "1" },
    }),
    container({}),
  ],
};

test("pod-level resources replace the sum of the containers, resource by resource (KEP-2837)", () => {
  expect(format(podRequests(KEP_2837))).toEqual({ cpu: "4", memory: "100Mi", "example.com/dongle": "1" });
  expect(format(podLimits(KEP_2837))).toEqual({ cpu: "2", memory: "200Mi", "example.com/dongle": "1" });
});

test("skipsPodLevel: only the containers count", () => {
  expect(format(podRequests(KEP_2837, { skipsPodLevel: true }))).toMatchObject({ cpu: "1", memory: "50Mi" });
  expect(format(podLimits(KEP_2837, { skipsPodLevel: true }))).toMatchObject({ cpu: "2", memory: "80Mi" });
});

test("pod-level resources are CPU, memory and huge pages only", () => {
  const requests = { "hugepages-2Mi": "4Mi", "ephemeral-storage": "1Gi" };
  expect(format(podRequests({ containers: [cpu("1")], resources: { requests } }))).toEqual({
    cpu: "1",
    "hugepages-2Mi": "4Mi",
  });
});

test("overhead comes on top of all requests, and of the limits that there are", () => {
  const overhead = { cpu: "250m", memory: "120Mi" };
  const spec = { containers: [cpu("1")], overhead };
  expect(format(podRequests(spec))).toEqual({ cpu: "1250m", memory: "120Mi" });
  expect(format(podLimits(spec))).toEqual({ cpu: "1250m" });
  expect(format(podRequests(spec, { excludesOverhead: true }))).toEqual({ cpu: "1" });
  expect(format(podLimits(spec, { excludesOverhead: true }))).toEqual({ cpu: "1" });
});

test("overhead is added to pod-level resources too", () => {
  const spec = { containers: [cpu("1")], resources: { limits: { cpu: "3" } }, overhead: { cpu: "250m" } };
  expect(format(podLimits(spec))).toEqual({ cpu: "3250m" });
});

test("requiresAllContainers: a pod has a limit only where all its containers have one", () => {
  const both = container({ limits: { cpu: "1", memory: "1Gi" } });
  const memory = container({ limits: { memory: "1Gi" } });
  const limitsOf = (spec: PodSpec) => format(podLimits(spec, { requiresAllContainers: true }));
  expect(limitsOf({ containers: [both, memory] })).toEqual({ memory: "2Gi" });
  expect(limitsOf({ initContainers: [memory], containers: [both] })).toEqual({ memory: "1Gi" });
  expect(format(podLimits({ containers: [both, memory] }))).toEqual({ cpu: "1", memory: "2Gi" });
  expect(limitsOf({ containers: [memory], resources: { limits: { cpu: "1" } } })).toEqual({ cpu: "1", memory: "1Gi" });
});

test("requiresAllContainers: a limit of 0 is none", () => {
  const none = container({ limits: { memory: "0" } });
  const some = container({ limits: { memory: "1Gi" } });
  expect(format(podLimits({ containers: [some, none] }, { requiresAllContainers: true }))).toEqual({});
});

test("requiresAllContainers: an init container needs no limit behind a sidecar that has one", () => {
  const limited = { limits: { memory: "1Gi" } };
  const [unlimited, app] = [container({}), container(limited)];
  const limitedSidecar = container(limited, { restartPolicy: "Always" });
  const limitsOf = (...initContainers: readonly Container[]) =>
    format(podLimits({ initContainers, containers: [app] }, { requiresAllContainers: true }));
  expect(limitsOf(limitedSidecar, unlimited)).toEqual({ memory: "2Gi" });
  expect(limitsOf(unlimited, limitedSidecar)).toEqual({});
});
