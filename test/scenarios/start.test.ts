import { expect } from "bun:test";
import { CriError } from "../../cri/error.ts";
import { makePod } from "./harness.ts";
import { scenario } from "./scenario.ts";

const registryError = (verb: string) => new CriError("UNKNOWN", verb, "the registry does not answer");

scenario(
  "a pod of two containers starts them one after the other",
  {
    run: (harness) => harness.setManifests(makePod("web", {}, ["a", "b"])),
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating, b waiting ContainerCreating
      0s web: create the pod's log directory
      0s web: run sandbox (attempt 0): the pod has none
      0s web: create the pod's directories
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s report web Pending: a running, b waiting ContainerCreating
      0s web: create container b (attempt 0): it has not run yet
      0s web: start container b (attempt 0)
      0s report web Running, ready: a running, b running"
    `);
  },
);

scenario(
  "the volumes of a pod are set up one by one, and the failure of one does not delay or hide the others",
  {
    before: ({ disk }) => void disk.at("/").makeFolder("srv", 0o755),
    async run(harness) {
      const hostPath = (name: string, path: string) => ({ name, hostPath: { path, type: "Directory" as const } });
      const volumes = [
        hostPath("one", "/none"),
        { name: "cache", emptyDir: {} },
        hostPath("two", "/nor"),
        hostPath("srv", "/srv"),
      ];
      await harness.setManifests(makePod("web", { hostUsers: false, volumes }));
      harness.appendLog(
        harness.podReports().map(({ status }) => `message ${status.containerStatuses?.[0]?.state?.waiting?.message}`),
      );
      await harness.disk.at("/").makeFolder("none", 0o755);
      await harness.advance("1s");
      await harness.disk.at("/").makeFolder("nor", 0o755);
      await harness.advance("5s");
      await harness.setManifests();
      await harness.advance("1s");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s web: create the pod's log directory
      0s web: create the pod's directories
      0s web: allocate the pod's user ids
      0s web: failed to set up volume one: MountVolume.SetUp failed for volume "one" : hostPath type check failed: /none is not a directory: it does not exist
      0s web: failed to set up volume two: MountVolume.SetUp failed for volume "two" : hostPath type check failed: /nor is not a directory: it does not exist
      0s web: set up volume srv
      0s web: set up volume cache
      0s message MountVolume.SetUp failed for volume "one" : hostPath type check failed: /none is not a directory: it does not exist; MountVolume.SetUp failed for volume "two" : hostPath type check failed: /nor is not a directory: it does not exist
      1s web: set up volume one
      1s web: failed to set up volume two: MountVolume.SetUp failed for volume "two" : hostPath type check failed: /nor is not a directory: it does not exist
      3s web: set up volume two
      3s web: run sandbox (attempt 0): the pod has none
      3s web: create container a (attempt 0): it has not run yet
      3s web: start container a (attempt 0)
      3s report web Running, ready: a running
      6s report web Running, ready, terminating: a running
      6s web: stop container a within 30s: its manifest is gone
      6s report web Running, terminating: a terminated Error 143
      6s web: stop sandbox: its manifest is gone
      6s web: remove sandbox: its manifest is gone
      6s web: remove the pod's logs: its manifest is gone
      6s web: remove volume cache: its manifest is gone
      6s web: release the pod's user ids: its manifest is gone
      6s web: remove the pod's files: its manifest is gone
      6s report web Running, finished: a terminated Error 143"
    `);
  },
);

scenario(
  "a failed pull is retried after 10 and 20 seconds until the container runs",
  {
    before: (harness) => void harness.runtime.registry.set("app:1", registryError("PullImage")),
    async run(harness) {
      await harness.setManifests(makePod("web", { containers: [{ name: "a", image: "app:1" }] }));
      await harness.advance("25s");
      harness.runtime.registry.set("app:1", undefined);
      await harness.advance("60s");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s web: create the pod's log directory
      0s web: run sandbox (attempt 0): the pod has none
      0s web: create the pod's directories
      0s web: failed to pull image app:1: it is not on this node: the registry does not answer
      0s report web Pending: a waiting ErrImagePull
      1s report web Pending: a waiting ImagePullBackOff
      10s web: failed to pull image app:1: it is not on this node: the registry does not answer
      10s report web Pending: a waiting ErrImagePull
      20s report web Pending: a waiting ImagePullBackOff
      30s web: pull image app:1: it is not on this node
      30s report web Pending: a waiting ContainerCreating
      30s web: create container a (attempt 0): it has not run yet
      30s web: start container a (attempt 0)
      30s report web Running, ready: a running"
    `);
  },
);

scenario(
  "a container whose image cannot be pulled does not delay the others",
  {
    before: (harness) => void harness.runtime.registry.set("app:1", registryError("PullImage")),
    async run(harness) {
      const spec = {
        containers: [
          { name: "a", image: "app:1" },
          { name: "b", image: "busybox:1" },
        ],
      };
      await harness.setManifests(makePod("web", spec));
      await harness.advance("2s");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating, b waiting ContainerCreating
      0s web: create the pod's log directory
      0s web: run sandbox (attempt 0): the pod has none
      0s web: create the pod's directories
      0s web: failed to pull image app:1: it is not on this node: the registry does not answer
      0s report web Pending: a waiting ErrImagePull, b waiting ContainerCreating
      0s web: create container b (attempt 0): it has not run yet
      0s web: start container b (attempt 0)
      0s report web Pending: a waiting ErrImagePull, b running
      1s report web Pending: a waiting ImagePullBackOff, b running"
    `);
  },
);

scenario(
  "imagePullPolicy Never pulls nothing, and Always pulls for each instance",
  {
    before: (harness) => void harness.runtime.registry.set("busybox:1", undefined),
    async run(harness) {
      await harness.setManifests(
        makePod("web", {
          containers: [
            { name: "a", image: "app:1", imagePullPolicy: "Never" },
            { name: "b", image: "busybox:1", imagePullPolicy: "Always" },
          ],
        }),
      );
      await harness.exit("b", 1);
      await harness.advance("10s");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ErrImageNeverPull, b waiting ContainerCreating
      0s web: create the pod's log directory
      0s web: run sandbox (attempt 0): the pod has none
      0s web: create the pod's directories
      0s web: pull image busybox:1: its pull policy is Always
      0s web: create container b (attempt 0): it has not run yet
      0s web: start container b (attempt 0)
      0s report web Pending: a waiting ErrImageNeverPull, b running
      0s report web Pending: a waiting ErrImageNeverPull, b terminated Error 1
      0s web: pull image busybox:1: its pull policy is Always
      0s web: create container b (attempt 1): it exited with code 1
      0s report web Pending: a waiting ErrImageNeverPull, b waiting ContainerCreating (restarts: 1)
      0s web: start container b (attempt 1)
      0s report web Pending: a waiting ErrImageNeverPull, b running (restarts: 1)"
    `);
  },
);

scenario(
  "a sandbox that fails is retried after 1, 2 and 4 seconds",
  {
    before: (harness) => {
      harness.runtime.failures.runPodSandbox = [1, 2, 3].map(() => new CriError("UNKNOWN", "RunPodSandbox", "no CNI"));
    },
    async run(harness) {
      await harness.setManifests(makePod("web"));
      await harness.advance("20s");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s web: create the pod's log directory
      0s web: failed to run sandbox (attempt 0): the pod has none: Failed to create pod sandbox: rpc error: code = Unknown desc = no CNI
      0s web: create the pod's directories
      1s web: failed to run sandbox (attempt 0): the pod has none: Failed to create pod sandbox: rpc error: code = Unknown desc = no CNI
      3s web: failed to run sandbox (attempt 0): the pod has none: Failed to create pod sandbox: rpc error: code = Unknown desc = no CNI
      7s web: run sandbox (attempt 0): the pod has none
      7s web: create container a (attempt 0): it has not run yet
      7s web: start container a (attempt 0)
      7s report web Running, ready: a running"
    `);
  },
);

scenario(
  "a container that cannot be started is retried with crash loop back-off",
  {
    before: (harness) => void harness.runtime.programs.set("a", { startError: "no such file" }),
    async run(harness) {
      await harness.setManifests(makePod("web"));
      await harness.advance("15s");
      harness.runtime.programs.delete("a");
      await harness.advance("60s");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s web: create the pod's log directory
      0s web: run sandbox (attempt 0): the pod has none
      0s web: create the pod's directories
      0s web: create container a (attempt 0): it has not run yet
      0s web: failed to start container a (attempt 0): failed to create containerd task: no such file
      0s report web Running: a waiting RunContainerError
      1s web: create container a (attempt 1): it exited with code 128
      1s report web Running: a waiting RunContainerError (restarts: 1)
      1s web: failed to start container a (attempt 1): failed to create containerd task: no such file
      1s report web Running: a waiting CrashLoopBackOff (restarts: 1)
      1s web: remove container a: a newer instance has ended too
      11s web: create container a (attempt 2): it exited with code 128
      11s report web Running: a waiting RunContainerError (restarts: 2)
      11s web: failed to start container a (attempt 2): failed to create containerd task: no such file
      11s report web Running: a waiting CrashLoopBackOff (restarts: 2)
      11s web: remove container a: a newer instance has ended too
      31s web: create container a (attempt 3): it exited with code 128
      31s report web Running: a waiting RunContainerError (restarts: 3)
      31s web: start container a (attempt 3)
      31s report web Running, ready: a running (restarts: 3)"
    `);
  },
);

scenario(
  "a static pod that needs an unsupported feature is rejected and never started",
  {
    async run(harness) {
      const probe = { tcpSocket: { port: 80 } };
      const containers = [{ name: "a", image: "busybox:1", livenessProbe: probe }];
      await harness.setManifests(makePod("web", { containers, resourceClaims: [{ name: "gpu" }] }));
      await harness.advance("1s");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Failed (PodFeatureUnsupported), terminated: no containers"
    `);
  },
);

scenario(
  "pods report the node's address as soon as it is known, and a container that needs it in its environment starts",
  {
    before: (harness) => {
      harness.hostIPs = [];
    },
    async run(harness) {
      const env = [{ name: "HOST", valueFrom: { fieldRef: { fieldPath: "status.hostIP" } } }];
      await harness.setManifests(
        makePod("quiet"),
        makePod("asks", { containers: [{ name: "b", image: "busybox:1", env }] }),
      );
      await harness.advance("2s");
      harness.hostIPs = ["192.0.2.9"];
      harness.agent.wakeAll();
      await harness.advance("0s");
      expect(harness.podReports().map(({ status }) => status.hostIP)).toEqual(["192.0.2.9", "192.0.2.9"]);
      await harness.advance("15s");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report quiet Pending: a waiting ContainerCreating
      0s report asks Pending: b waiting ContainerCreating
      0s quiet: create the pod's log directory
      0s asks: create the pod's log directory
      0s quiet: run sandbox (attempt 0): the pod has none
      0s asks: run sandbox (attempt 0): the pod has none
      0s quiet: create the pod's directories
      0s asks: create the pod's directories
      0s asks: failed to create container b (attempt 0): it has not run yet: status.hostIP: this node has no address yet
      0s quiet: create container a (attempt 0): it has not run yet
      0s quiet: start container a (attempt 0)
      0s report asks Pending: b waiting CreateContainerConfigError
      0s report quiet Running, ready: a running
      1s asks: failed to create container b (attempt 0): it has not run yet: status.hostIP: this node has no address yet
      3s asks: create container b (attempt 0): it has not run yet
      3s asks: start container b (attempt 0)
      3s report asks Running, ready: b running"
    `);
  },
);

scenario(
  "pods wait on a standalone node while the runtime has no network, those of the host network do not",
  {
    async before({ disk, runtime }) {
      await disk.at("/").makeFolder("etc", 0o755);
      await disk.at("/").write("etc/hosts", "127.0.0.1 localhost\n", 0o644);
      runtime.conditions.NetworkReady = false;
    },
    async run(harness) {
      await harness.setManifests(makePod("web"), makePod("host", { hostNetwork: true }));
      await harness.advance("60s");
      harness.appendLog(
        harness.podReports().map(({ status }) => status.containerStatuses?.[0]?.state?.waiting?.message ?? "-"),
      );
      harness.runtime.conditions.NetworkReady = true;
      await harness.advance("30s");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s report host Pending: a waiting ContainerCreating
      0s web: create the pod's log directory
      0s host: create the pod's log directory
      0s host: run sandbox (attempt 0): the pod has none
      0s web: create the pod's directories
      0s host: create the pod's directories
      0s host: create container a (attempt 0): it has not run yet
      0s host: start container a (attempt 0)
      0s report host Running, ready: a running
      60s -
      60s network is not ready: container runtime network not ready: NetworkReady=false reason: message:
      61s web: run sandbox (attempt 0): the pod has none
      61s web: create container a (attempt 0): it has not run yet
      61s web: start container a (attempt 0)
      61s report web Running, ready: a running"
    `);
  },
);
