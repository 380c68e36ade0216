import { expect, test } from "bun:test";
import { ContainerConfig, NamespaceMode, Signal } from "../../proto/cri/gen/api.ts";
import type { ContainerId } from "../../proto/ids.ts";
import type { Container, Pod, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { nodeFacts } from "../../test/fakes/node-facts.ts";
import { type ContainerScene, containerConfig } from "./container-config.ts";
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
const scene: ContainerScene = {
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

function configOf(change: Partial<Container>, more: Partial<ContainerScene> = {}): ContainerConfig {
  return containerConfig({ ...scene, container: { ...container, ...change }, ...more });
}

test("the whole message of CreateContainer", () => {
  const { linux, envs, ...config } = containerConfig(scene);
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

test("the message survives the wire", () => {
  const config = containerConfig(scene);
  expect(ContainerConfig.decode(ContainerConfig.encode(config).finish())).toEqual(config);
});

test("what the spec does not say is empty, or the API's default", () => {
  const least: Container = { name: "a", image: "busybox:1", ports: [] };
  const config = containerConfig({
    ...scene,
    pod: { metadata: { uid: "u" }, spec: { containers: [least] } },
    container: least,
  });
  expect(config).toMatchObject({ command: [], args: [], workingDir: "", envs: [], tty: false });
  expect(config.mounts.map(({ containerPath }) => containerPath)).toEqual(["/etc/hosts", "/dev/termination-log"]);
  expect(config.annotations).toEqual({
    "io.kubernetes.container.hash": "abcd",
    "io.kubernetes.container.restartCount": "3",
    "berth.dev/crashes": "2",
    "io.kubernetes.container.terminationMessagePath": "/dev/termination-log",
    "io.kubernetes.container.terminationMessagePolicy": "File",
  });
});

test("an agent that has lost the pod finds on the container how it is to be stopped, as the kubelet writes it", () => {
  const preStop = { exec: { command: ["drain"] } };
  const ending: Pod = { ...pod, metadata: { ...pod.metadata, deletionGracePeriodSeconds: 7 } };
  const { annotations } = configOf({ lifecycle: { preStop } }, { pod: ending });
  expect(annotations).toMatchObject({
    "io.kubernetes.container.preStopHandler": '{"exec":{"command":["drain"]}}',
    "io.kubernetes.pod.deletionGracePeriod": "7",
    "io.kubernetes.pod.terminationGracePeriod": "20",
  });
});

const spaces: readonly [sentence: string, spec: Partial<PodSpec>, pid: NamespaceMode, targetId: string][] = [
  ["that of the container it is to look into", {}, NamespaceMode.TARGET, "target"],
  ["the pod's, where its containers share one", { shareProcessNamespace: true }, NamespaceMode.POD, ""],
  ["the node's, where the pod is in it", { hostPID: true }, NamespaceMode.NODE, ""],
];
for (const [sentence, spec, pid, targetId] of spaces)
  test(`an ephemeral container sees the processes of a namespace: ${sentence}`, () => {
    const scene = { pod: { ...pod, spec: { ...pod.spec, ...spec } }, targetId: "target" as ContainerId };
    expect(configOf({}, scene).linux?.securityContext?.namespaceOptions).toMatchObject({ pid, targetId });
  });

test("a terminal, standard input, and standard input that closes once, are what the spec says", () => {
  expect(configOf({})).toMatchObject({ stdin: false, stdinOnce: false, tty: false });
  expect(configOf({ stdin: true, stdinOnce: true, tty: true })).toMatchObject({
    stdin: true,
    stdinOnce: true,
    tty: true,
  });
});

const refused: readonly [
  sentence: string,
  change: Partial<Container>,
  more: Partial<ContainerScene>,
  message: string,
][] = [
  ["a mount of no volume", { volumeMounts: [{ name: "v", mountPath: "/v" }] }, {}, "which the pod does not have"],
  [
    "root where root is forbidden",
    { securityContext: { runAsNonRoot: true, runAsUser: 0 } },
    {},
    "breaks non-root policy",
  ],
  [
    "an environment of an unknown source",
    { env: [{ name: "A", valueFrom: {} }] },
    {},
    "environment variable A: its valueFrom is not supported by this release",
  ],
  ["a name that leads out of the log folder", { name: ".." }, {}, "cannot be the name of a folder"],
];
for (const [sentence, change, more, message] of refused)
  test(`${sentence} is refused`, () => {
    expect(() => configOf(change, more)).toThrow(TranslateError);
    expect(() => configOf(change, more)).toThrow(message);
  });

test("the runtime is told of a signal to stop with, where the gate for it is on", () => {
  const facts = { ...nodeFacts, containerStopSignals: true };
  const lifecycle = { stopSignal: "SIGRTMIN+3" } as const;
  expect(configOf({ lifecycle }, { facts }).stopSignal).toBe(Signal.SIGRTMINPLUS3);
  expect(configOf({ lifecycle }).stopSignal).toBe(Signal.RUNTIME_DEFAULT);
  expect(configOf({}, { facts }).stopSignal).toBe(Signal.RUNTIME_DEFAULT);
});
