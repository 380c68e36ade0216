import { expect, test } from "bun:test";
import { ContainerConfig, NamespaceMode, Signal } from "../../proto/cri/gen/api.ts";
import type { ContainerId } from "../../proto/ids.ts";
import type { Container, Pod, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { nodeFacts } from "../../test/fakes/node-facts.ts";
import { type ContainerConfigInput, containerConfig } from "./container-config.ts";
import { TranslateError } from "./translate-error.ts";

const container: Container = {
  name: "a",
  image: "busybox:1",
  command: ["/bin/serve", "--port=$(PORT)"],
  args: ["$(NONE)", "$$(PORT)"],
  workingDir: "/srv",
  env: [
    { name: "PORT", value: "80" },
    { name: "GREETING", value: "grüß $(PORT)" },
  ],
  ports: [{ containerPort: 80, protocol: "TCP" }],
  volumeMounts: [{ name: "cache", mountPath: "/cache", readOnly: true }],
  resources: { requests: { cpu: "250m", memory: "1Gi" }, limits: { cpu: "500m", memory: "2Gi" } },
  terminationMessagePath: "/last-word",
  terminationMessagePolicy: "FallbackToLogsOnError",
};
const pod: Pod = {
  metadata: { name: "web-node", namespace: "shop", uid: "u-1", labels: { app: "web" }, annotations: { note: "n" } },
  spec: { containers: [container], volumes: [{ name: "cache", emptyDir: {} }], terminationGracePeriodSeconds: 20 },
};
const input: ContainerConfigInput = {
  pod,
  container,
  attempt: 3,
  crashes: 2,
  hash: "abcd",
  qosClass: "Burstable",
  podIPs: ["10.0.0.7"],
  imageRef: "sha256:1234",
  imageUser: { uid: 1001, username: "" },
  files: new Map(),
  facts: nodeFacts,
};

function configOf(change: Partial<Container>, more: Partial<ContainerConfigInput> = {}): ContainerConfig {
  return containerConfig({ ...input, container: { ...container, ...change }, ...more });
}

test("containerConfig builds the whole CreateContainer message", () => {
  const { linux, envs, ...config } = containerConfig(input);
  const { metadata, image, command, args, workingDir, mounts, labels, annotations, logPath } = config;
  const environment = envs.map(({ key, value }) => `${key}=${new TextDecoder().decode(value)}`);
  const { containerPath, hostPath, readonly } = mounts[0]!;
  expect({
    metadata,
    image: { image: image?.image, userSpecifiedImage: image?.userSpecifiedImage },
    command,
    args,
    workingDir,
    environment,
    mount: { containerPath, hostPath, readonly },
    labels,
    annotations,
    logPath,
  }).toMatchInlineSnapshot(`
    {
      "annotations": {
        "berth.dev/crashes": "2",
        "berth.dev/resources": "{"cpuRequest":250,"cpuLimit":500,"memoryRequest":1073741824,"memoryLimit":2147483648}",
        "io.kubernetes.container.hash": "abcd",
        "io.kubernetes.container.ports": "[{"containerPort":80,"protocol":"TCP"}]",
        "io.kubernetes.container.restartCount": "3",
        "io.kubernetes.container.terminationMessagePath": "/last-word",
        "io.kubernetes.container.terminationMessagePolicy": "FallbackToLogsOnError",
        "io.kubernetes.pod.terminationGracePeriod": "20",
      },
      "args": [
        "$(NONE)",
        "$(PORT)",
      ],
      "command": [
        "/bin/serve",
        "--port=80",
      ],
      "environment": [
        "PORT=80",
        "GREETING=grüß 80",
      ],
      "image": {
        "image": "sha256:1234",
        "userSpecifiedImage": "busybox:1",
      },
      "labels": {
        "io.kubernetes.container.name": "a",
        "io.kubernetes.pod.name": "web-node",
        "io.kubernetes.pod.namespace": "shop",
        "io.kubernetes.pod.uid": "u-1",
      },
      "logPath": "a/3.log",
      "metadata": {
        "attempt": 3,
        "name": "a",
      },
      "mount": {
        "containerPath": "/cache",
        "hostPath": "/root-dir/pods/u-1/volumes/kubernetes.io~empty-dir/cache",
        "readonly": true,
      },
      "workingDir": "/srv",
    }
  `);
  const { cpuShares, cpuQuota, cpuPeriod, memoryLimitInBytes, oomScoreAdj } = linux?.resources ?? {};
  const user = linux?.securityContext?.runAsUser?.value;
  expect({ cpuShares, cpuQuota, cpuPeriod, memoryLimitInBytes, oomScoreAdj, user }).toMatchInlineSnapshot(`
    {
      "cpuPeriod": 100000n,
      "cpuQuota": 50000n,
      "cpuShares": 256n,
      "memoryLimitInBytes": 2147483648n,
      "oomScoreAdj": 875n,
      "user": 1001n,
    }
  `);
});

test("the CreateContainer message survives encoding and decoding", () => {
  const config = containerConfig(input);
  expect(ContainerConfig.decode(ContainerConfig.encode(config).finish())).toEqual(config);
});

test("an unset field of the spec becomes empty or the API's default", () => {
  const least: Container = { name: "a", image: "busybox:1", ports: [] };
  const config = containerConfig({
    ...input,
    pod: { metadata: { uid: "u" }, spec: { containers: [least] } },
    container: least,
  });
  expect(config).toMatchObject({ command: [], args: [], workingDir: "", envs: [], tty: false });
  expect(config.mounts.map(({ containerPath }) => containerPath)).toEqual(["/etc/hosts", "/dev/termination-log"]);
  expect(config.annotations).toEqual({
    "io.kubernetes.container.hash": "abcd",
    "io.kubernetes.container.restartCount": "3",
    "berth.dev/crashes": "2",
    "berth.dev/resources": '{"cpuRequest":0,"cpuLimit":0,"memoryRequest":0,"memoryLimit":0}',
    "io.kubernetes.container.terminationMessagePath": "/dev/termination-log",
    "io.kubernetes.container.terminationMessagePolicy": "File",
  });
});

test("the kubelet's annotations record how to stop a container whose pod is unknown", () => {
  const preStop = { exec: { command: ["drain"] } };
  const ending: Pod = { ...pod, metadata: { ...pod.metadata, deletionGracePeriodSeconds: 7 } };
  const { annotations } = configOf({ lifecycle: { preStop } }, { pod: ending });
  expect(annotations).toMatchObject({
    "io.kubernetes.container.preStopHandler": '{"exec":{"command":["drain"]}}',
    "io.kubernetes.pod.deletionGracePeriod": "7",
    "io.kubernetes.pod.terminationGracePeriod": "20",
  });
});

const pidNamespaces: readonly [sentence: string, spec: Partial<PodSpec>, pid: NamespaceMode, targetId: string][] = [
  ["joins the process namespace of its target container", {}, NamespaceMode.TARGET, "target"],
  ["uses the pod's shared process namespace", { shareProcessNamespace: true }, NamespaceMode.POD, ""],
  ["uses the node's process namespace under hostPID", { hostPID: true }, NamespaceMode.NODE, ""],
];
for (const [sentence, spec, pid, targetId] of pidNamespaces)
  test(`an ephemeral container ${sentence}`, () => {
    const input = { pod: { ...pod, spec: { ...pod.spec, ...spec } }, targetId: "target" as ContainerId };
    expect(configOf({}, input).linux?.securityContext?.namespaceOptions).toMatchObject({ pid, targetId });
  });

test("stdin, stdinOnce and tty follow the spec", () => {
  expect(configOf({})).toMatchObject({ stdin: false, stdinOnce: false, tty: false });
  expect(configOf({ stdin: true, stdinOnce: true, tty: true })).toMatchObject({
    stdin: true,
    stdinOnce: true,
    tty: true,
  });
});

const rejected: readonly [
  sentence: string,
  change: Partial<Container>,
  more: Partial<ContainerConfigInput>,
  message: string,
][] = [
  [
    "a mount of an unknown volume",
    { volumeMounts: [{ name: "v", mountPath: "/v" }] },
    {},
    'cannot find volume "v" to mount into container',
  ],
  ["root under runAsNonRoot", { securityContext: { runAsNonRoot: true, runAsUser: 0 } }, {}, "breaks non-root policy"],
  [
    "an unknown valueFrom",
    { env: [{ name: "A", valueFrom: {} }] },
    {},
    "environment variable A: its valueFrom is not supported by this release",
  ],
  ["a container name that leaves the log directory", { name: ".." }, {}, "cannot be the name of a folder"],
];
for (const [sentence, change, more, message] of rejected)
  test(`containerConfig rejects ${sentence}`, () => {
    expect(() => configOf(change, more)).toThrow(TranslateError);
    expect(() => configOf(change, more)).toThrow(message);
  });

test("CreateContainer carries the stop signal when the feature gate is on", () => {
  const facts = { ...nodeFacts, containerStopSignals: true };
  const lifecycle = { stopSignal: "SIGRTMIN+3" } as const;
  expect(configOf({ lifecycle }, { facts }).stopSignal).toBe(Signal.SIGRTMINPLUS3);
  expect(configOf({ lifecycle }).stopSignal).toBe(Signal.RUNTIME_DEFAULT);
  expect(configOf({}, { facts }).stopSignal).toBe(Signal.RUNTIME_DEFAULT);
});
