import { expect, test } from "bun:test";
import type { Container, EnvVar, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { nodeFacts } from "../../../test/fakes/node-facts.ts";
import { TranslateError } from "../translate-error.ts";
import { type EnvironmentInput, environmentOf } from "./environment.ts";
import { createBoundedExpander } from "./variable-expansion.ts";

const container: Container = {
  name: "a",
  resources: { requests: { cpu: "250m", memory: "100Mi" }, limits: { memory: "1Gi", "ephemeral-storage": "2Gi" } },
};
const sidecar: Container = { name: "side", resources: { limits: { cpu: "1500m" } } };
const unlimited: Container = { name: "free", resources: { limits: { cpu: "0m" } } };
const pod: Pod = {
  metadata: {
    name: "web-node",
    namespace: "shop",
    uid: "u-1",
    labels: { app: "web", "example.com/tier": "front" },
    annotations: { note: "hello\nworld" },
  },
  spec: { nodeName: "node", serviceAccountName: "robot", containers: [container, sidecar, unlimited] },
};
const input: EnvironmentInput = { pod, container, podIPs: ["10.0.0.7", "fd00::7"], files: new Map(), facts: nodeFacts };

const expander = () => createBoundedExpander("a", "CreateContainerConfigError");

function entries(
  env: readonly EnvVar[],
  changes: Partial<EnvironmentInput> = {},
): readonly (readonly [string, string])[] {
  return [...environmentOf({ ...input, container: { ...container, env }, ...changes }, expander())];
}

test("variables keep the order of the spec and may refer to earlier ones", () => {
  const env = [
    { name: "LATER", value: "$(HOST)" },
    { name: "HOST", value: "db" },
    { name: "URL", value: "http://$(HOST)/$(NONE)" },
    { name: "EMPTY" },
  ];
  expect(entries(env)).toEqual([
    ["LATER", "$(HOST)"],
    ["HOST", "db"],
    ["URL", "http://db/$(NONE)"],
    ["EMPTY", ""],
  ]);
});

test("circular references end: each sees only earlier variables, and values are not expanded again", () => {
  const env = [
    { name: "A", value: "a-$(B)" },
    { name: "B", value: "b-$(A)" },
    { name: "SELF", value: "$(SELF)-$(SELF)" },
  ];
  expect(entries(env)).toEqual([
    ["A", "a-$(B)"],
    ["B", "b-a-$(B)"],
    ["SELF", "$(SELF)-$(SELF)"],
  ]);
});

test("the last value of a repeated name wins and may refer to the first", () => {
  const env = [
    { name: "PATH", value: "/bin" },
    { name: "OTHER", value: "1" },
    { name: "PATH", value: "/opt:$(PATH)" },
  ];
  expect(entries(env)).toEqual([
    ["OTHER", "1"],
    ["PATH", "/opt:/bin"],
  ]);
});

const clusterIP = "10.96.0.1";
const kubernetes = {
  metadata: { namespace: "default", name: "kubernetes" },
  spec: { clusterIP, ports: [{ port: 443 }] },
};
const inCluster = {
  facts: {
    ...nodeFacts,
    cluster: {
      services: [kubernetes],
      runtimeHandlers: undefined,
      referencedObjects: new Map(),
      tokens: new Map(),
      claims: new Map(),
      nodeLabels: {},
    },
  },
};

test("service links come before env, which may refer to and override them", () => {
  const env = [
    { name: "API", value: "https://$(KUBERNETES_SERVICE_HOST)" },
    { name: "KUBERNETES_SERVICE_HOST", value: "proxy-of-$(KUBERNETES_SERVICE_HOST)" },
    { name: "KUBERNETES_PORT" },
  ];
  const all = entries(env, inCluster);
  expect(all.slice(0, 2)).toEqual([
    ["KUBERNETES_SERVICE_PORT", "443"],
    ["KUBERNETES_PORT_443_TCP", "tcp://10.96.0.1:443"],
  ]);
  expect(all.slice(-3)).toEqual([
    ["API", "https://10.96.0.1"],
    ["KUBERNETES_SERVICE_HOST", "proxy-of-10.96.0.1"],
    ["KUBERNETES_PORT", ""],
  ]);
});

test("a node that is standalone or has not read the Services sets no service links", () => {
  const unread = {
    facts: {
      ...nodeFacts,
      cluster: {
        services: undefined,
        runtimeHandlers: undefined,
        referencedObjects: new Map(),
        tokens: new Map(),
        claims: new Map(),
        nodeLabels: {},
      },
    },
  };
  expect([entries([]), entries([], unread)]).toEqual([[], []]);
});

const fields: readonly [fieldPath: string, value: string][] = [
  ["metadata.name", "web-node"],
  ["metadata.namespace", "shop"],
  ["metadata.uid", "u-1"],
  ["metadata.labels['app']", "web"],
  ["metadata.labels['example.com/tier']", "front"],
  ["metadata.labels['none']", ""],
  ["metadata.labels['constructor']", ""],
  ["metadata.annotations['note']", "hello\nworld"],
  ["metadata.annotations['toString']", ""],
  ["spec.nodeName", "node"],
  ["spec.serviceAccountName", "robot"],
  ["status.hostIP", "192.0.2.1"],
  ["status.hostIPs", "192.0.2.1,2001:db8::1"],
  ["status.podIP", "10.0.0.7"],
  ["status.podIPs", "10.0.0.7,fd00::7"],
];
for (const [fieldPath, value] of fields)
  test(`the field ${fieldPath} is ${JSON.stringify(value)}`, () => {
    expect(entries([{ name: "A", valueFrom: { fieldRef: { fieldPath } } }])).toEqual([["A", value]]);
  });

test("the value of a fieldRef is not expanded", () => {
  const odd: Pod = { ...pod, metadata: { ...pod.metadata, labels: { app: "$(B)" } } };
  const env = [
    { name: "B", value: "1" },
    { name: "A", valueFrom: { fieldRef: { fieldPath: "metadata.labels['app']" } } },
  ];
  expect(entries(env, { pod: odd })).toContainEqual(["A", "$(B)"]);
});

const hostNetwork: Pod = { ...pod, spec: { ...pod.spec, hostNetwork: true } };

test("under hostNetwork the pod's addresses are the host's", () => {
  const env = [{ name: "A", valueFrom: { fieldRef: { fieldPath: "status.podIPs" } } }];
  expect(entries(env, { pod: hostNetwork, podIPs: [] })).toEqual([["A", "192.0.2.1,2001:db8::1"]]);
});

const withoutAddress: readonly [fieldPath: string, whose: Pod][] = [
  ["status.hostIP", pod],
  ["status.hostIPs", pod],
  ["status.podIP", hostNetwork],
  ["status.podIPs", hostNetwork],
];
for (const [fieldPath, whose] of withoutAddress)
  test(`${fieldPath} fails while the node has no address${whose === pod ? "" : ", under hostNetwork"}`, () => {
    const translate = () =>
      entries([{ name: "A", valueFrom: { fieldRef: { fieldPath } } }], {
        pod: whose,
        facts: { ...nodeFacts, hostIPs: [] },
      });
    expect(translate).toThrow(
      expect.objectContaining({
        reason: "CreateContainerConfigError",
        message: `${fieldPath}: this node has no address yet`,
      }),
    );
  });

test("the pod's own address does not need the node's", () => {
  const env = [{ name: "A", valueFrom: { fieldRef: { fieldPath: "status.podIP" } } }];
  expect(entries(env, { facts: { ...nodeFacts, hostIPs: [] } })).toEqual([["A", "10.0.0.7"]]);
});

const amounts: readonly [sentence: string, resource: string, more: object, value: string][] = [
  ["a CPU request is rounded up to whole CPUs", "requests.cpu", {}, "1"],
  ["a CPU request is divided by the divisor", "requests.cpu", { divisor: "1m" }, "250"],
  ["a remainder is rounded up", "requests.cpu", { divisor: "100m" }, "3"],
  ["memory is bytes without a divisor", "limits.memory", {}, "1073741824"],
  ["memory in mebibytes", "limits.memory", { divisor: "1Mi" }, "1024"],
  ["memory in megabytes is rounded up", "limits.memory", { divisor: "1M" }, "1074"],
  ["a divisor of 0 counts as unset", "limits.memory", { divisor: "0" }, "1073741824"],
  ["a divisor of 0 with a unit counts as unset", "limits.memory", { divisor: "0Mi" }, "1073741824"],
  ["an unset CPU limit is the node's allocatable CPU", "limits.cpu", {}, "2"],
  ["containerName selects another container", "limits.cpu", { containerName: "side", divisor: "1m" }, "1500"],
  ["an unset memory limit is the node's allocatable memory", "limits.memory", { containerName: "side" }, "8589934592"],
  ["a limit of 0 with a unit counts as unset", "limits.cpu", { containerName: "free" }, "2"],
  ["an unset request is 0", "requests.cpu", { containerName: "side" }, "0"],
  ["an ephemeral-storage limit is read", "limits.ephemeral-storage", { divisor: "1Gi" }, "2"],
  [
    "an unset storage limit is the node's allocatable storage",
    "limits.ephemeral-storage",
    { containerName: "side" },
    String(64 * 2 ** 30),
  ],
  ["an unset storage request is 0", "requests.ephemeral-storage", { containerName: "side" }, "0"],
  ["a resource named like a property of every object is 0", "requests.constructor", {}, "0"],
  ["unset huge pages are 0", "limits.hugepages-2Mi", {}, "0"],
];
for (const [sentence, resource, more, value] of amounts)
  test(`resourceFieldRef: ${sentence}`, () => {
    expect(entries([{ name: "A", valueFrom: { resourceFieldRef: { resource, ...more } } }])).toEqual([["A", value]]);
  });

const rejected: readonly [sentence: string, valueFrom: NonNullable<EnvVar["valueFrom"]>, message: string][] = [
  ["an unsupported field", { fieldRef: { fieldPath: "spec.hostname" } }, "fieldPath: spec.hostname"],
  [
    "a field named like a property of every object",
    { fieldRef: { fieldPath: "constructor" } },
    "fieldPath: constructor",
  ],
  ["a whole label map, which only volumes support", { fieldRef: { fieldPath: "metadata.labels" } }, "metadata.labels"],
  [
    "a resource of an unknown container",
    { resourceFieldRef: { resource: "limits.cpu", containerName: "none" } },
    "container none not found",
  ],
  [
    "a resource that is neither request nor limit",
    { resourceFieldRef: { resource: "cpu" } },
    "unsupported container resource : cpu",
  ],
  ["an unknown source", {}, "environment variable A: its valueFrom is not supported by this release"],
];
for (const [sentence, valueFrom, message] of rejected)
  test(`${sentence} is a configuration error`, () => {
    const translate = () => entries([{ name: "A", valueFrom }]);
    expect(translate).toThrow(TranslateError);
    expect(translate).toThrow(
      expect.objectContaining({ reason: "CreateContainerConfigError", message: expect.stringContaining(message) }),
    );
  });
