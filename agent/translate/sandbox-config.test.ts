import { expect, test } from "bun:test";
import { PodSandboxConfig, Protocol } from "../../proto/cri/gen/api.ts";
import type { Container, Pod, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { nodeFacts } from "../../test/fakes/node-facts.ts";
import { podLabels, sandboxConfig } from "./sandbox-config.ts";
import { TranslateError } from "./translate-error.ts";

const pod: Pod = {
  metadata: {
    name: "web-node",
    namespace: "shop",
    uid: "u-1",
    labels: { app: "web", "io.kubernetes.pod.name": "a liar" },
    annotations: { "kubernetes.io/config.source": "file" },
  },
  spec: {
    containers: [
      {
        name: "a",
        resources: { requests: { cpu: "250m", memory: "64Mi" }, limits: { cpu: "500m", memory: "64Mi" } },
        ports: [{ containerPort: 80, hostPort: 8080, protocol: "TCP" }],
      },
      { name: "b", ports: [{ containerPort: 53, protocol: "UDP", hostIP: "192.0.2.1", hostPort: 53 }] },
    ],
    securityContext: { sysctls: [{ name: "net/ipv4/ip_forward", value: "1" }] },
  },
};

function configOf(spec: Partial<PodSpec> = {}, metadata: Pod["metadata"] = {}): PodSandboxConfig {
  return sandboxConfig(
    { metadata: { ...pod.metadata, ...metadata }, spec: { ...pod.spec, ...spec } },
    { attempt: 2, crashes: 0 },
    nodeFacts,
  );
}

test("sandboxConfig builds the whole RunPodSandbox message", () => {
  const { metadata, hostname, logDirectory, dnsConfig, portMappings, labels, annotations, linux } = configOf();
  expect({ metadata, hostname, logDirectory, dnsConfig, portMappings, labels, annotations }).toMatchInlineSnapshot(`
    {
      "annotations": {
        "berth.dev/crashes": "0",
        "kubernetes.io/config.source": "file",
      },
      "dnsConfig": {
        "options": [
          "ndots:5",
        ],
        "searches": [
          "shop.svc.cluster.local",
          "svc.cluster.local",
          "cluster.local",
          "example.com",
        ],
        "servers": [
          "192.0.2.10",
        ],
      },
      "hostname": "web-node",
      "labels": {
        "app": "web",
        "io.kubernetes.pod.name": "web-node",
        "io.kubernetes.pod.namespace": "shop",
        "io.kubernetes.pod.uid": "u-1",
      },
      "logDirectory": "/logs/shop_web-node_u-1",
      "metadata": {
        "attempt": 2,
        "name": "web-node",
        "namespace": "shop",
        "uid": "u-1",
      },
      "portMappings": [
        {
          "containerPort": 80,
          "hostIp": "",
          "hostPort": 8080,
          "protocol": 0,
        },
        {
          "containerPort": 53,
          "hostIp": "192.0.2.1",
          "hostPort": 53,
          "protocol": 1,
        },
      ],
    }
  `);
  const { cgroupParent, sysctls, resources } = linux ?? {};
  const { cpuShares, cpuQuota, cpuPeriod, memoryLimitInBytes } = resources ?? {};
  expect({ cgroupParent, sysctls, cpuShares, cpuQuota, cpuPeriod, memoryLimitInBytes }).toMatchInlineSnapshot(`
    {
      "cgroupParent": "",
      "cpuPeriod": 100000n,
      "cpuQuota": 50000n,
      "cpuShares": 256n,
      "memoryLimitInBytes": 67108864n,
      "sysctls": {
        "net.ipv4.ip_forward": "1",
      },
    }
  `);
});

test("the overhead of the RuntimeClass is separate from the containers' resources", () => {
  const { overhead, resources } = configOf({ overhead: { cpu: "250m", memory: "64Mi" } }).linux ?? {};
  const { cpuShares, cpuPeriod, cpuQuota, memoryLimitInBytes } = overhead ?? {};
  expect({ cpuShares, cpuPeriod, cpuQuota, memoryLimitInBytes }).toEqual({
    cpuShares: 256n,
    cpuPeriod: 100_000n,
    cpuQuota: 25_000n,
    memoryLimitInBytes: 67_108_864n,
  });
  expect(resources).toEqual(configOf().linux?.resources);
  expect(configOf().linux?.overhead).toBeUndefined();
});

test("the RunPodSandbox message survives encoding and decoding", () => {
  const config = configOf();
  expect(PodSandboxConfig.decode(PodSandboxConfig.encode(config).finish())).toEqual(config);
});

test("Kubernetes' labels override labels of the pod with the same key", () => {
  expect(podLabels({ metadata: { name: "web", uid: "u" }, spec: { containers: [] } })).toEqual({
    "io.kubernetes.pod.name": "web",
    "io.kubernetes.pod.namespace": "default",
    "io.kubernetes.pod.uid": "u",
  });
  expect(configOf().labels["io.kubernetes.pod.name"]).toBe("web-node");
});

const hostnames: readonly [sentence: string, spec: Partial<PodSpec>, name: string, hostname: string][] = [
  ["defaults to the pod's name", {}, "web", "web"],
  ["spec.hostname", { hostname: "www" }, "web", "www"],
  ["is the pod's name when spec.hostname is empty", { hostname: "" }, "web", "web"],
  [
    "is spec.hostnameOverride when both are set",
    { hostname: "www", hostnameOverride: "www.example.com" },
    "web",
    "www.example.com",
  ],
  [
    "truncates a long hostnameOverride to 63 characters",
    { hostnameOverride: `${"x".repeat(61)}.yy` },
    "web",
    `${"x".repeat(61)}.y`,
  ],
  ["truncates a long pod name to 63 characters", {}, "x".repeat(70), "x".repeat(63)],
  ["drops a dash or dot at the truncated end", {}, `${"x".repeat(61)}.-yy`, "x".repeat(61)],
  ["is empty under hostNetwork", { hostNetwork: true }, "web", ""],
  ["is empty under hostNetwork, even with spec.hostname", { hostNetwork: true, hostname: "www" }, "web", ""],
];
for (const [sentence, spec, name, hostname] of hostnames)
  test(`hostname ${sentence}`, () => {
    expect(configOf(spec, { name }).hostname).toBe(hostname);
  });

test("host ports of sidecars are mapped, those of other init containers are not", () => {
  const initContainers: readonly Container[] = [
    { name: "first", ports: [{ containerPort: 1, hostPort: 10 }] },
    { name: "side", restartPolicy: "Always", ports: [{ containerPort: 2, hostPort: 20 }] },
  ];
  const containers = [{ name: "a", ports: [{ containerPort: 3, hostPort: 30 }] }];
  expect(configOf({ initContainers, containers }).portMappings.map(({ hostPort }) => hostPort)).toEqual([20, 30]);
});

test("ports of all containers are mapped, with TCP as the default", () => {
  const containers: readonly Container[] = [
    { name: "a", ports: [{ containerPort: 1 }, { containerPort: 2, protocol: "SCTP" }] },
    { name: "b", ports: [{ containerPort: 3, protocol: "UDP", hostPort: 30 }] },
  ];
  expect(configOf({ containers }).portMappings).toEqual([
    { protocol: Protocol.TCP, containerPort: 1, hostPort: 0, hostIp: "" },
    { protocol: Protocol.SCTP, containerPort: 2, hostPort: 0, hostIp: "" },
    { protocol: Protocol.UDP, containerPort: 3, hostPort: 30, hostIp: "" },
  ]);
});

test("a uid that leaves the log directory is rejected", () => {
  expect(() => configOf({}, { uid: "../../etc" })).toThrow(TranslateError);
});
