import { describe, expect, test } from "bun:test";
import { formatExplanation } from "../../../../cli/explanation-text.ts";
import type { ContainerState, ContainerStatus, Pod } from "../../../../proto/kubernetes/gen/types.ts";
import { type ExplainedNode, type ExplainedReport, explainPod as explainOnNode } from "./pod-explanation.ts";

const explainPod = (report: ExplainedReport, node: Partial<ExplainedNode> = {}) =>
  explainOnNode(report, {
    refused: [],
    reports: [],
    runtime: { name: "containerd", endpoint: "unix:///run/containerd/containerd.sock" },
    ...node,
  });

const START = Date.parse("2026-01-01T14:03:07.120Z");
const pod: Pod = {
  metadata: { namespace: "shop", name: "web", uid: "u-1", creationTimestamp: "2026-01-01T14:03:07Z" },
  spec: {
    containers: [
      {
        name: "main",
        image: "registry.example:5000/web:1",
        livenessProbe: { httpGet: { path: "/healthz", port: "http" } },
        readinessProbe: { exec: { command: ["test", "-f", "/tmp/is ready"] } },
        ports: [{ name: "http", containerPort: 8080 }],
        resources: { limits: { memory: "64Mi" } },
      },
    ],
  },
};

const containerStatus = (state: ContainerState, other: Partial<ContainerStatus> = {}): ContainerStatus => ({
  ...{ name: "main", image: "", imageID: "", ready: false, restartCount: 0, state },
  ...other,
});
const waiting = (reason: string, message: string) => containerStatus({ waiting: { reason, message } });

const step = (what: string, ms: number, after: number) => ({
  what,
  firstAt: START + after,
  at: START + after,
  ms,
  times: 1,
});
const report: ExplainedReport = {
  pod,
  status: { phase: "Pending", podIP: "10.1.2.3", containerStatuses: [waiting("ContainerCreating", "")] },
  stage: "syncing",
  isTerminationRequested: false,
  steps: [],
  blockedReason: undefined,
  source: { kind: "api" },
  acceptedAt: START,
  firstSyncAt: START + 1,
  readyAt: undefined,
  timeline: new Map([
    ["podDirs", step("create the pod's directories", 12, 5)],
    ["sandbox", step("run sandbox (attempt 0): the pod has none", 85, 20)],
  ]),
};

test("a pod whose image does not exist: its steps, the cause, the next try, the cure and what to run", () => {
  const message =
    'Back-off pulling image "registry.example:5000/web:1": ErrImagePull: registry.example:5000/web:1: not found';
  const failure = { reason: "ErrImagePull", message: "not found", times: 3, retryAt: START + 60_000 };
  const explanation = explainPod({
    ...report,
    status: { ...report.status, containerStatuses: [waiting("ImagePullBackOff", message)] },
    timeline: new Map([
      ...report.timeline,
      [
        "pull",
        {
          ...step("pull image registry.example:5000/web:1: it is missing", 870, 120),
          times: 3,
          at: START + 40_000,
          failure,
        },
      ],
    ]),
  });
  expect(
    formatExplanation(explanation, START + 45_000),
  ).toBe(`shop/web: ImagePullBackOff, 0/1 ready, from the API server

  14:03:07.120          received; the API server created it at 2026-01-01T14:03:07Z
  14:03:07.121          first sync by this agent
  14:03:07.125   12 ms  create the pod's directories
  14:03:07.140   85 ms  run sandbox (attempt 0): the pod has none
  14:03:07.240  870 ms  pull image registry.example:5000/web:1: it is missing … 3 times, last 5s ago, FAILED each time: ErrImagePull

why   container main: ImagePullBackOff: ${message}
next  tried 3 times, again at 14:04:07.120, in 15s
cure  the registry has no image "registry.example:5000/web:1" for this machine: correct its name or tag, or push it
run   crictl pull registry.example:5000/web:1
      kubectl -n shop edit pod web
`);
});

test("a crash loop says how the last instance ended, and when it is restarted", () => {
  const crashed = containerStatus(
    {
      waiting: {
        reason: "CrashLoopBackOff",
        message: "back-off 1m20s restarting failed container=main pod=web_shop(u-1)",
      },
    },
    {
      restartCount: 4,
      lastState: { terminated: { exitCode: 127, reason: "Error", finishedAt: "2026-01-01T14:10:00Z" } },
    },
  );
  const { cause } = explainPod({ ...report, status: { phase: "Running", containerStatuses: [crashed] } });
  expect(cause).toMatchObject({
    container: "main",
    reason: "CrashLoopBackOff",
    tries: 5,
    retryAt: "2026-01-01T14:11:20.000000Z",
    cure: "its shell has not found the program: correct command and args",
    commands: ["berth logs web -n shop -c main --previous"],
  });
});

test("the steps of the latest attempt of a container follow those of the first, and not beside them", () => {
  const sentence = (attempt: number) => `create container main (attempt ${attempt}): it exited with code 3`;
  const creation = {
    ...step(sentence(4), 41, 60_000),
    attempt: 4,
    ofFirstAttempt: { ...step("create container main (attempt 0): it does not exist", 52, 200), attempt: 0 },
  };
  const start = {
    ...step("start container main (attempt 4)", 31, 60_050),
    attempt: 4,
    ofFirstAttempt: { ...step("start container main (attempt 0)", 33, 260), attempt: 0 },
  };
  const timeline = new Map([...report.timeline, ["create", creation], ["start", start]]);
  const text = formatExplanation(explainPod({ ...report, timeline }), START + 70_000);
  expect(text).toContain(`
  14:03:07.140  85 ms  run sandbox (attempt 0): the pod has none
  14:03:07.320  52 ms  create container main (attempt 0): it does not exist
  14:03:07.380  33 ms  start container main (attempt 0)
  14:04:07.120  41 ms  create container main (attempt 4): it exited with code 3
  14:04:07.170  31 ms  start container main (attempt 4)
`);
});

test("a pod that is ready has no cause, and says when it became ready", () => {
  const running = containerStatus({ running: { startedAt: "2026-01-01T14:03:08Z" } }, { ready: true, started: true });
  const status = { phase: "Running" as const, podIP: "10.1.2.3", containerStatuses: [running] };
  const text = formatExplanation(explainPod({ ...report, status, readyAt: START + 2_000 }), START + 60_000);
  expect(text).toStartWith("shop/web: Running, 1/1 ready, from the API server\n");
  expect(text).toEndWith("  14:03:09.120         ready\n");
});

interface CauseRow {
  readonly status: ExplainedReport["status"];
  readonly blockedReason?: ExplainedReport["blockedReason"];
  readonly cure: string;
  readonly command: string;
}

const ofContainer = (reason: string, message: string): CauseRow["status"] => ({
  phase: "Pending",
  podIP: "10.1.2.3",
  containerStatuses: [waiting(reason, message)],
});
const networkNotReady = (message: string) =>
  `network is not ready: container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:${message}`;
const rejected = (reason: string, message: string): CauseRow["status"] => ({ phase: "Failed", reason, message });
const ended = (exitCode: number, reason = "Error"): CauseRow["status"] => ({
  phase: "Running",
  containerStatuses: [
    containerStatus(
      { waiting: { reason: "CrashLoopBackOff", message: "back-off 10s restarting failed container=main pod=x" } },
      { lastState: { terminated: { exitCode, reason, finishedAt: "2026-01-01T14:10:00Z" } } },
    ),
  ],
});

describe("causes, their cures, and a command to run", () => {
  const rows: Readonly<Record<string, CauseRow>> = {
    "a name that is no image": {
      status: ofContainer("InvalidImageName", 'Failed to apply default image tag "A B"'),
      cure: "write a valid image name",
      command: "kubectl -n shop edit pod web",
    },
    "a registry without an answer": {
      status: ofContainer("ErrImagePull", "dial tcp 10.0.0.9:5000: connect: connection refused"),
      cure: "does not reach registry.example:5000",
      command: "curl -v https://registry.example:5000/v2/",
    },
    "a registry that requires credentials": {
      status: ofContainer("ErrImagePull", "401 Unauthorized"),
      cure: "imagePullSecrets",
      command: "kubectl -n shop create secret docker-registry NAME",
    },
    "a registry without TLS": {
      status: ofContainer("ErrImagePull", "http: server gave HTTP response to HTTPS client"),
      cure: "speaks plain HTTP",
      command: "ls /etc/containerd/certs.d/registry.example:5000",
    },
    "a ConfigMap of the environment that is missing": {
      status: ofContainer("CreateContainerConfigError", 'configmap "settings" not found'),
      cure: "create the ConfigMap settings in namespace shop",
      command: "kubectl -n shop create configmap settings --from-literal=KEY=VALUE",
    },
    "a Secret of a volume that is missing": {
      status: ofContainer("ContainerCreating", ""),
      blockedReason: {
        reason: "FailedMount",
        message: 'MountVolume.SetUp failed for volume "v" : secret "login" not found',
      },
      cure: "create the Secret login in namespace shop",
      command: "kubectl -n shop create secret generic login --from-literal=KEY=VALUE",
    },
    "a program that the image lacks": {
      status: ofContainer("RunContainerError", 'exec: "/bin/nope": stat /bin/nope: no such file or directory'),
      cure: "has no such program",
      command: "crictl inspecti registry.example:5000/web:1",
    },
    "a program that crun does not find": {
      status: ofContainer("RunContainerError", "executable file `nope` not found in $PATH: No such file or directory"),
      cure: "has no such program",
      command: "crictl inspecti registry.example:5000/web:1",
    },
    "a runtime without user namespaces": {
      status: ofContainer("ContainerCreating", ""),
      blockedReason: {
        reason: "CreatePodSandboxError",
        message: "can't set `spec.hostUsers: false`, runtime does not support user namespaces",
      },
      cure: "containerd 2 with runc 1.2 or crun 1.9",
      command: "berth doctor",
    },
    "a container that ran out of memory": {
      status: ended(137, "OOMKilled"),
      cure: "limit of 64Mi",
      command: "berth logs web",
    },
    "a command that ends": {
      status: ended(0, "Completed"),
      cure: "run a command that stays",
      command: "berth logs web",
    },
    "a pod that does not fit": {
      status: rejected(
        "OutOfcpu",
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 2000, used: 1000, capacity: 2000",
      ),
      cure: "lower the pod's requests to at most cpu 1 ",
      command: "berth pods",
    },
    "a pod that the node does not match": {
      status: rejected("NodeAffinity", "Pod was rejected: Predicate NodeAffinity failed"),
      cure: "correct the pod's nodeSelector, give the node such labels, or run the pod on another node",
      command: "kubectl get node NODE --show-labels",
    },
    "a network that this node may not read": {
      status: ofContainer("ContainerCreating", ""),
      blockedReason: {
        reason: "CreatePodSandboxError",
        message:
          'plugin type="berth-cni" failed (add): the pod selects the network shop/lan: network-attachment-definitions.k8s.cni.cncf.io "lan" is forbidden',
      },
      cure: "let the nodes read the NetworkAttachmentDefinitions",
      command: "kubectl apply -f deploy/network-attachment-definitions.yaml",
    },
    "a network that does not exist": {
      status: ofContainer("ContainerCreating", ""),
      blockedReason: {
        reason: "CreatePodSandboxError",
        message: 'the pod selects the network shop/lan: network-attachment-definitions.k8s.cni.cncf.io "lan" not found',
      },
      cure: "correct the pod's annotation k8s.v1.cni.cncf.io/networks",
      command: "kubectl -n shop get network-attachment-definitions lan -o yaml",
    },
    "a sandbox without a network": {
      status: ofContainer("ContainerCreating", ""),
      blockedReason: {
        reason: "CreatePodSandboxError",
        message: "failed to setup network: cni plugin not initialized",
      },
      cure: "network of pods does not work",
      command: "berth doctor",
    },
    "a plugin that the runtime does not find": {
      status: ofContainer("ContainerCreating", ""),
      blockedReason: {
        reason: "CreatePodSandboxError",
        message:
          'failed to setup network for sandbox "3f": plugin type="loopback" failed (add): failed to find plugin "loopback" in path [/opt/cni/bin /usr/lib/cni]',
      },
      cure: "put the plugin loopback into /opt/cni/bin (Debian: containernetworking-plugins has it in /usr/lib/cni)",
      command: "ls /opt/cni/bin /usr/lib/cni",
    },
    "a delegate that the runtime does not find": {
      status: ofContainer("ContainerCreating", ""),
      blockedReason: {
        reason: "CreatePodSandboxError",
        message: 'plugin type="berth-cni" failed (add): failed to find plugin "berth-cni" in path [/b]',
      },
      cure: "let berth cni install put its plugin into /b: --bin-dir",
      command: "ls /b",
    },
    "plugins that Debian does not have": {
      status: ofContainer(
        "ContainerCreating",
        networkNotReady("/n/10-f.conflist needs flannel and portmap, and they are not in /b and /c"),
      ),
      cure: "put the plugins flannel, portmap into /b",
      command: "ls /b /c",
    },
    "a runtime that reads another folder than that of the delegate": {
      status: ofContainer(
        "ContainerCreating",
        networkNotReady(
          'the container runtime reads its networks from /n, but the list of berth-cni is in /d: set conf_dir = "/d" in its configuration and restart it',
        ),
      ),
      cure: "do what the message says",
      command: "berth doctor",
    },
    "a node without a network": {
      status: ofContainer(
        "ContainerCreating",
        networkNotReady("cni plugin not initialized: /n has no network configuration"),
      ),
      cure: "install a network into /n, or let the agent execute the built-in network: berth doctor says how",
      command: "berth doctor",
    },
  };
  for (const [name, { status, blockedReason, cure, command }] of Object.entries(rows))
    test(name, () => {
      const failing = { ...step("set up volume v", 1, 30), failure: { ...blockedReason!, times: 1, retryAt: START } };
      const timeline = blockedReason === undefined ? report.timeline : new Map([["volume", failing]]);
      const { cause } = explainPod({ ...report, status, blockedReason, timeline });
      expect(cause?.cure).toContain(cure);
      expect(cause?.commands.join("\n")).toContain(command);
    });
});

const MKDIR = 'failed to generate container "35d2" spec: failed to mkdir "": mkdir : no such file or directory';

test("a runtime without image volumes is named where the pod has one", () => {
  const volumes = [{ name: "files", image: { reference: "registry.example:5000/files:1" } }];
  const status = ofContainer("CreateContainerError", MKDIR);
  const { cause } = explainPod({ ...report, pod: { ...pod, spec: { ...pod.spec, volumes } }, status });
  expect(cause?.cure).toContain("does not support image volumes (volume files): install containerd 2.1 or later");
});

test.each([MKDIR, 'error mounting "/state" to rootfs at "/page": stat /state: no such file or directory'])(
  "a folder that is missing does not count as a missing program: %s",
  (message) => {
    const { cause } = explainPod({ ...report, status: ofContainer("CreateContainerError", message) });
    expect(cause?.cure).toBe("");
  },
);

test("a probe that fails comes with a command that asks the same", () => {
  const running = containerStatus({ running: { startedAt: "2026-01-01T14:03:08Z" } }, { started: true });
  const status = { phase: "Running" as const, podIP: "10.1.2.3", containerStatuses: [running] };
  const probeFailures = [{ container: "main", kind: "readiness", message: "Readiness probe failed: " }] as const;
  const { cause } = explainPod({ ...report, status, probeFailures });
  expect(cause?.container).toBe("main");
  expect(cause?.commands).toEqual([
    "berth exec web -n shop -c main -- test -f '/tmp/is ready'",
    "berth logs web -n shop -c main",
  ]);
  const restarted = ended(137);
  const liveness = [{ container: "main", kind: "liveness", message: "Liveness probe failed: HTTP 500" }] as const;
  const { commands } = explainPod({ ...report, status: { ...restarted, podIP: "10.1.2.3" }, probeFailures: liveness })
    .cause!;
  expect(commands[0]).toBe("curl -v http://10.1.2.3:8080/healthz");
});

test("a static pod is changed in its manifest", () => {
  const { cause, source } = explainPod({
    ...report,
    source: { kind: "file", path: "/etc/kubernetes/manifests/web.yaml" },
    status: ofContainer("InvalidImageName", "couldn't parse"),
  });
  expect(source).toBe("/etc/kubernetes/manifests/web.yaml");
  expect(cause?.commands).toEqual(["$EDITOR /etc/kubernetes/manifests/web.yaml"]);
});

test("a pod whose manifest is refused since it has started says so, and what cures that", () => {
  const path = "/etc/kubernetes/manifests/web.yaml";
  const problem = 'line 8: unknown field "imag"; the pod web stays as it was';
  const refused = [
    { file: "/etc/kubernetes/manifests/other.yaml", problem: "line 1" },
    { file: path, problem },
  ];
  const explanation = explainPod({ ...report, source: { kind: "file", path } }, { refused });
  expect(formatExplanation(explanation, START)).toContain(`

the agent refuses this manifest: ${problem}
cure  correct the file, or move it out of the folder, which ends the pod
run   $EDITOR ${path}

`);
  expect(explainPod({ ...report, source: { kind: "api" } }, { refused }).refused).toBeUndefined();
});

test.each([
  ["exits with code 0", ended(0, "Completed"), "run a command that stays, or write restartPolicy: OnFailure"],
  [
    "does not match the node",
    rejected("NodeAffinity", "Predicate NodeAffinity failed"),
    "or kubectl label in a cluster; after a change of the node move the manifest out of its folder, and back when berth pods does not show the pod any more",
  ],
  [
    "does not fit",
    rejected("OutOfcpu", "Node didn't have enough resource: cpu"),
    "or end other pods of this node; after a change of the node move the manifest out of its folder, and back when berth pods does not show the pod any more",
  ],
])("a static pod that %s needs no cluster for its cure", (_, status, end) => {
  const { cause } = explainPod({ ...report, source: { kind: "file", path: "/manifests/web.yaml" }, status });
  expect(cause?.cure).toEndWith(end);
  expect(cause?.commands.join("\n")).not.toContain("kubectl");
});

test("a static pod whose image is private gets its credentials from the node, because it cannot refer to Secrets", () => {
  const status = ofContainer("ErrImagePull", "401 Unauthorized");
  const { cause } = explainPod({ ...report, source: { kind: "file", path: "/manifests/web.yaml" }, status });
  expect(cause?.cure).toContain("write them into config.json in the agent's root directory");
  expect(cause?.commands).toEqual(["$EDITOR /manifests/web.yaml"]);
});

test("a pod whose host port is taken names the pod that has it", () => {
  const [main] = pod.spec.containers;
  const withPort = (name: string): Pod => ({
    metadata: { ...pod.metadata, name, uid: name },
    spec: { containers: [{ ...main!, ports: [{ containerPort: 80, hostPort: 18080 }] }] },
  });
  const message = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";
  const own = { ...report, pod: withPort("second"), status: rejected("NodePorts", message) };
  const { cause } = explainPod(own, { reports: [{ ...report, pod: withPort("first") }, own] });
  expect(cause?.message).toBe(message);
  expect(cause?.explanation).toBe("hostPort 18080/TCP is taken by shop/first");
});

test("the commands of crictl and ctr ask the runtime of this agent", () => {
  const commandsOn = (endpoint: string, status: ExplainedReport["status"], name = "containerd") =>
    explainPod({ ...report, status }, { runtime: { name, endpoint } }).cause?.commands;
  const never = ofContainer("ErrImageNeverPull", "");
  expect(commandsOn("unix:///run/containerd/containerd.sock", never)?.slice(0, 2)).toEqual([
    "crictl images",
    "ctr -n k8s.io images import FILE.tar",
  ]);
  expect(commandsOn("unix:///my state/c.sock", never)?.slice(0, 2)).toEqual([
    "crictl --runtime-endpoint 'unix:///my state/c.sock' images",
    "ctr --address '/my state/c.sock' -n k8s.io images import FILE.tar",
  ]);
  expect(commandsOn("/run/crio/crio.sock", ofContainer("ErrImagePull", "no space left on device"), "cri-o")).toEqual([
    "df -h",
    "crictl --runtime-endpoint unix:///run/crio/crio.sock rmi --prune",
  ]);
  // ctr speaks to containerd alone.
  expect(commandsOn("unix:///run/crio/crio.sock", never, "cri-o")).toEqual([
    "crictl --runtime-endpoint unix:///run/crio/crio.sock images",
    "kubectl -n shop edit pod web",
  ]);
});
