import { expect, test } from "bun:test";
import type { Container, EnvVar, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { nodeFacts } from "../../../test/fakes/node-facts.ts";
import { TranslateError } from "../translate-error.ts";
import { type EnvScene, environmentOf } from "./environment.ts";
import { createPortion } from "./variable-expansion.ts";

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
const scene: EnvScene = { pod, container, podIPs: ["10.0.0.7", "fd00::7"], files: new Map(), facts: nodeFacts };

const portion = () => createPortion("a", "CreateContainerConfigError");

function entries(env: readonly EnvVar[], changes: Partial<EnvScene> = {}): readonly (readonly [string, string])[] {
  return [...environmentOf({ ...scene, container: { ...container, env }, ...changes }, portion())];
}

test("variables stand in the order of the spec and see those before them", () => {
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

test("references in a circle end: each sees those before it, and no value is read once more", () => {
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

test("of a name given twice the last value counts, and may use the first", () => {
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
  facts: { ...nodeFacts, cluster: { services: [kubernetes], runtimeHandlers: undefined, referents: new Map() } },
};

test("Services stand before the spec's own, which may refer to them and take their place", () => {
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

test("a node that stands alone, or has not read the Services, tells of none", () => {
  const unread = {
    facts: { ...nodeFacts, cluster: { services: undefined, runtimeHandlers: undefined, referents: new Map() } },
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

test("a field's value is taken as it is: its dollars are no references", () => {
  const odd: Pod = { ...pod, metadata: { ...pod.metadata, labels: { app: "$(B)" } } };
  const env = [
    { name: "B", value: "1" },
    { name: "A", valueFrom: { fieldRef: { fieldPath: "metadata.labels['app']" } } },
  ];
  expect(entries(env, { pod: odd })).toContainEqual(["A", "$(B)"]);
});

const hostNetwork: Pod = { ...pod, spec: { ...pod.spec, hostNetwork: true } };

test("on the host's network the pod's addresses are the host's", () => {
  const env = [{ name: "A", valueFrom: { fieldRef: { fieldPath: "status.podIPs" } } }];
  expect(entries(env, { pod: hostNetwork, podIPs: [] })).toEqual([["A", "192.0.2.1,2001:db8::1"]]);
});

const addressless: readonly [fieldPath: string, whose: Pod][] = [
  ["status.hostIP", pod],
  ["status.hostIPs", pod],
  ["status.podIP", hostNetwork],
  ["status.podIPs", hostNetwork],
];
for (const [fieldPath, whose] of addressless)
  test(`${fieldPath} is waited for while the node has no address${whose === pod ? "" : ", on the host's network"}`, () => {
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

test("a pod's own address needs none of the node", () => {
  const env = [{ name: "A", valueFrom: { fieldRef: { fieldPath: "status.podIP" } } }];
  expect(entries(env, { facts: { ...nodeFacts, hostIPs: [] } })).toEqual([["A", "10.0.0.7"]]);
});

const amounts: readonly [sentence: string, resource: string, more: object, value: string][] = [
  ["a CPU request is rounded up to whole CPUs", "requests.cpu", {}, "1"],
  ["a CPU request counts in the divisor's units", "requests.cpu", { divisor: "1m" }, "250"],
  ["a remainder counts as a whole", "requests.cpu", { divisor: "100m" }, "3"],
  ["memory is bytes without a divisor", "limits.memory", {}, "1073741824"],
  ["memory in mebibytes", "limits.memory", { divisor: "1Mi" }, "1024"],
  ["memory in megabytes is rounded up", "limits.memory", { divisor: "1M" }, "1074"],
  ["a divisor of 0 is none", "limits.memory", { divisor: "0" }, "1073741824"],
  ["a divisor of 0 is none, however it is written", "limits.memory", { divisor: "0Mi" }, "1073741824"],
  ["a limit that is not set is the node's CPUs", "limits.cpu", {}, "2"],
  ["a limit of another container", "limits.cpu", { containerName: "side", divisor: "1m" }, "1500"],
  [
    "a memory limit that is not set is what pods may have of the node's memory",
    "limits.memory",
    { containerName: "side" },
    "8589934592",
  ],
  ["a limit of 0 is none, however it is written", "limits.cpu", { containerName: "free" }, "2"],
  ["a request that is not set is 0", "requests.cpu", { containerName: "side" }, "0"],
  ["storage has a limit like any other", "limits.ephemeral-storage", { divisor: "1Gi" }, "2"],
  [
    "a storage limit that is not set is the node's storage",
    "limits.ephemeral-storage",
    { containerName: "side" },
    String(64 * 2 ** 30),
  ],
  ["a storage request that is not set is 0", "requests.ephemeral-storage", { containerName: "side" }, "0"],
  ["a name that every JavaScript object has is 0", "requests.constructor", {}, "0"],
  ["huge pages that nobody asked for are 0", "limits.hugepages-2Mi", {}, "0"],
];
for (const [sentence, resource, more, value] of amounts)
  test(`resources: ${sentence}`, () => {
    expect(entries([{ name: "A", valueFrom: { resourceFieldRef: { resource, ...more } } }])).toEqual([["A", value]]);
  });

const refused: readonly [sentence: string, valueFrom: NonNullable<EnvVar["valueFrom"]>, message: string][] = [
  ["a field that the API does not offer", { fieldRef: { fieldPath: "spec.hostname" } }, "fieldPath: spec.hostname"],
  ["a word that every JavaScript object has", { fieldRef: { fieldPath: "constructor" } }, "fieldPath: constructor"],
  ["whole labels, which only volumes offer", { fieldRef: { fieldPath: "metadata.labels" } }, "metadata.labels"],
  [
    "a resource of a container that the pod does not have",
    { resourceFieldRef: { resource: "limits.cpu", containerName: "none" } },
    "container none not found",
  ],
  [
    "a resource that is neither request nor limit",
    { resourceFieldRef: { resource: "cpu" } },
    "unsupported container resource : cpu",
  ],
  [
    "a source that only a newer API knows",
    {},
    "environment variable A: its valueFrom is not supported by this release",
  ],
];
for (const [sentence, valueFrom, message] of refused)
  test(`${sentence} is refused as a configuration error`, () => {
    const translate = () => entries([{ name: "A", valueFrom }]);
    expect(translate).toThrow(TranslateError);
    expect(translate).toThrow(
      expect.objectContaining({ reason: "CreateContainerConfigError", message: expect.stringContaining(message) }),
    );
  });
