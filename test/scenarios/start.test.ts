import { expect } from "bun:test";
import { CriError } from "../../cri/error.ts";
import { makePod } from "./harness.ts";
import { scenario } from "./scenario.ts";

const away = (verb: string) => new CriError("UNKNOWN", verb, "the registry does not answer");

scenario(
  "a pod of two containers starts them one after the other",
  {
    run: (stage) => stage.offer(makePod("web", {}, ["a", "b"])),
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating, b waiting ContainerCreating
      0s web: prepare volumes
      0s web: run sandbox (attempt 0): the pod has none
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
  "an image that cannot be pulled is tried again after 10 and 20 seconds, and then runs",
  {
    before: (stage) => void stage.runtime.registry.set("app:1", away("PullImage")),
    async run(stage) {
      await stage.offer(makePod("web", { containers: [{ name: "a", image: "app:1" }] }));
      await stage.advance("25s");
      stage.runtime.registry.set("app:1", undefined);
      await stage.advance("60s");
    },
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s web: prepare volumes
      0s web: run sandbox (attempt 0): the pod has none
      0s web: failed to pull image app:1: it is not on this node: the registry does not answer
      0s report web Pending: a waiting ErrImagePull
      5s report web Pending: a waiting ImagePullBackOff
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
  "a container whose image is missing does not hold up the others",
  {
    before: (stage) => void stage.runtime.registry.set("app:1", away("PullImage")),
    async run(stage) {
      const spec = {
        containers: [
          { name: "a", image: "app:1" },
          { name: "b", image: "busybox:1" },
        ],
      };
      await stage.offer(makePod("web", spec));
      await stage.advance("1s");
    },
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating, b waiting ContainerCreating
      0s web: prepare volumes
      0s web: run sandbox (attempt 0): the pod has none
      0s web: failed to pull image app:1: it is not on this node: the registry does not answer
      0s report web Pending: a waiting ErrImagePull, b waiting ContainerCreating
      0s web: create container b (attempt 0): it has not run yet
      0s web: start container b (attempt 0)
      0s report web Pending: a waiting ErrImagePull, b running"
    `);
  },
);

scenario(
  "Never pulls nothing, and Always pulls for each instance",
  {
    before: (stage) => void stage.runtime.registry.set("busybox:1", undefined),
    async run(stage) {
      await stage.offer(
        makePod("web", {
          containers: [
            { name: "a", image: "app:1", imagePullPolicy: "Never" },
            { name: "b", image: "busybox:1", imagePullPolicy: "Always" },
          ],
        }),
      );
      await stage.exit("b", 1);
      await stage.advance("1s");
    },
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ErrImageNeverPull, b waiting ContainerCreating
      0s web: prepare volumes
      0s web: run sandbox (attempt 0): the pod has none
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
  "a sandbox that fails is tried again after 1, 2 and 4 seconds",
  {
    before: (stage) => {
      stage.runtime.failures.runPodSandbox = [1, 2, 3].map(() => new CriError("UNKNOWN", "RunPodSandbox", "no CNI"));
    },
    async run(stage) {
      await stage.offer(makePod("web"));
      await stage.advance("20s");
    },
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s web: prepare volumes
      0s web: failed to run sandbox (attempt 0): the pod has none: Failed to create pod sandbox: rpc error: code = Unknown desc = no CNI
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
  "a container that cannot be started is restarted with the delays of a crash",
  {
    before: (stage) => void stage.runtime.programs.set("a", { startError: "no such file" }),
    async run(stage) {
      await stage.offer(makePod("web"));
      await stage.advance("15s");
      stage.runtime.programs.delete("a");
      await stage.advance("60s");
    },
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s web: prepare volumes
      0s web: run sandbox (attempt 0): the pod has none
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
  "a pod that asks for what this node cannot do is rejected, and nothing of it runs",
  {
    async run(stage) {
      const probe = { tcpSocket: { port: 80 } };
      const containers = [{ name: "a", image: "busybox:1", livenessProbe: probe }];
      await stage.offer(makePod("web", { containers, resources: { limits: { cpu: "1" } } }));
      await stage.advance("1s");
    },
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Failed (PodFeatureUnsupported), terminated: no containers"
    `);
  },
);

scenario(
  "the node's address arrives after its pods: they show it at once, and who wants it for its environment starts",
  {
    before: (stage) => {
      stage.hostIPs = [];
    },
    async run(stage) {
      const env = [{ name: "HOST", valueFrom: { fieldRef: { fieldPath: "status.hostIP" } } }];
      await stage.offer(makePod("quiet"), makePod("asks", { containers: [{ name: "b", image: "busybox:1", env }] }));
      await stage.advance("2s");
      stage.hostIPs = ["192.0.2.9"];
      stage.agent.wakeAll();
      await stage.advance("0s");
      expect(stage.pods().map(({ status }) => status.hostIP)).toEqual(["192.0.2.9", "192.0.2.9"]);
      await stage.advance("15s");
    },
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report quiet Pending: a waiting ContainerCreating
      0s report asks Pending: b waiting ContainerCreating
      0s quiet: prepare volumes
      0s asks: prepare volumes
      0s quiet: run sandbox (attempt 0): the pod has none
      0s asks: run sandbox (attempt 0): the pod has none
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
