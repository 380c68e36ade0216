import { expect, test } from "bun:test";
import { summarize } from "../../agent/serve/local/pod-list.ts";
import { CriError } from "../../cri/error.ts";
import { createStage, makePod, type Stage } from "./harness.ts";
import { linesOf, scenario } from "./scenario.ts";

scenario(
  "a pod whose manifest is gone gets its grace period and leaves nothing",
  {
    before: (stage) => void stage.runtime.programs.set("b", { onTerm: "ignores" }),
    async run(stage) {
      await stage.offer(makePod("web", { terminationGracePeriodSeconds: 7 }, ["a", "b"]));
      await stage.offer();
      await stage.advance("10s");
    },
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
      0s report web Running, ready: a running, b running
      0s report web Running, ready, terminating: a running, b running
      0s web: stop container a within 7s: its manifest is gone
      0s report web Running, terminating: a terminated Error 143, b running
      7s web: stop container b within 7s: its manifest is gone
      7s report web Running, terminating: a terminated Error 143, b terminated Error 137
      7s web: stop sandbox: its manifest is gone
      7s web: remove sandbox: its manifest is gone
      7s web: remove the pod's files: its manifest is gone
      7s report web Running, finished: a terminated Error 143, b terminated Error 137"
    `);
  },
);

scenario(
  "a changed manifest ends the old pod before the new one begins",
  {
    before: (stage) => void stage.runtime.programs.set("a", { onTerm: "ignores" }),
    async run(stage) {
      await stage.offer(makePod("web", { terminationGracePeriodSeconds: 5 }));
      await stage.offer(makePod("web", { terminationGracePeriodSeconds: 5, hostname: "other" }));
      await stage.advance("10s");
    },
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s web: prepare volumes
      0s web: run sandbox (attempt 0): the pod has none
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s report web Running, ready: a running
      0s report web Running, ready, terminating: a running
      0s report web Pending: a waiting ContainerCreating
      5s web: stop container a within 5s: its manifest has changed
      5s report web Running, terminating: a terminated Error 137
      5s web: stop sandbox: its manifest has changed
      5s web: remove sandbox: its manifest has changed
      5s web: remove the pod's files: its manifest has changed
      5s report web Running, finished: a terminated Error 137
      5s web: prepare volumes
      5s web: run sandbox (attempt 0): the pod has none
      5s web: create container a (attempt 0): it has not run yet
      5s web: start container a (attempt 0)
      5s report web Running, ready: a running"
    `);
  },
);

scenario(
  "a manifest that is gone and back while its pod ends begins it anew",
  {
    before: (stage) => void stage.runtime.programs.set("a", { onTerm: "ignores" }),
    async run(stage) {
      const pod = makePod("web", { terminationGracePeriodSeconds: 5 });
      await stage.offer(pod);
      await stage.offer();
      await stage.offer(pod);
      await stage.advance("10s");
    },
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s web: prepare volumes
      0s web: run sandbox (attempt 0): the pod has none
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s report web Running, ready: a running
      0s report web Running, ready, terminating: a running
      5s web: stop container a within 5s: its manifest is gone
      5s report web Running, terminating: a terminated Error 137
      5s web: stop sandbox: its manifest is gone
      5s web: remove sandbox: its manifest is gone
      5s web: remove the pod's files: its manifest is gone
      5s report web Running, finished: a terminated Error 137
      5s report web Pending: a waiting ContainerCreating
      5s web: prepare volumes
      5s web: run sandbox (attempt 0): the pod has none
      5s web: create container a (attempt 0): it has not run yet
      5s web: start container a (attempt 0)
      5s report web Running, ready: a running"
    `);
  },
);

scenario(
  "pods that nobody asks for are ended and removed",
  {
    async before(stage) {
      const pod = makePod("old");
      const metadata = { name: "old", namespace: "default", uid: pod.metadata.uid ?? "", attempt: 0 };
      const labels = {
        "io.kubernetes.pod.name": "old",
        "io.kubernetes.pod.namespace": "default",
        "io.kubernetes.pod.uid": metadata.uid,
      };
      const { PodSandboxConfig, ContainerConfig } = await import("../../proto/cri/gen/api.ts");
      const sandbox = stage.runtime.addForeignSandbox(PodSandboxConfig.fromPartial({ metadata, labels }));
      const config = ContainerConfig.fromPartial({
        metadata: { name: "a", attempt: 0 },
        labels: { ...labels, "io.kubernetes.container.name": "a" },
        image: { image: "busybox:1" },
      });
      stage.runtime.addForeignContainer(sandbox, config);
      await stage.disk.at("/root").makeFolder("pods/left-on-disk", 0o750);
      await stage.disk.at("/logs").makeFolder("shop_gone_only-logs-left/a", 0o755);
    },
    run: (stage) => stage.advance("5s"),
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s remove the pod's files: no source asks for this pod
      0s shop/gone: remove the pod's files: no source asks for this pod
      0s default/old: stop container a within 2s: no source asks for this pod
      0s default/old: stop sandbox: no source asks for this pod
      0s default/old: remove sandbox: no source asks for this pod"
    `);
  },
);

scenario(
  "a container that is none of the pod's is removed, whatever it calls itself",
  {
    async run(stage) {
      await stage.offer(makePod("web"));
      await stage.advance("1s");
      const [sandbox] = stage.runtime.sandboxes.values();
      if (sandbox === undefined) return;
      const { labels } = sandbox.config;
      const { ContainerConfig } = await import("../../proto/cri/gen/api.ts");
      for (const name of ["a/b", ".."])
        stage.runtime.addForeignContainer(
          sandbox.id,
          ContainerConfig.fromPartial({
            metadata: { name, attempt: 0 },
            labels: { ...labels, "io.kubernetes.container.name": name },
            image: { image: "busybox:1" },
          }),
        );
      await stage.advance("5s");
    },
  },
  (story) => {
    expect(linesOf(story, /stop|remove|failed/)).toMatchInlineSnapshot(`
      "1s web: stop container a/b within 30s: the pod has no such container
      1s web: stop container .. within 30s: the pod has no such container
      1s web: remove container a/b: the pod has no such container
      1s web: remove container ..: the pod has no such container"
    `);
  },
);

scenario(
  "starts are bounded, the more important pods first, and endings wait for no start",
  {
    options: { startPlaces: 1 },
    async run(stage) {
      const pods = [makePod("p1"), makePod("p2"), makePod("p3"), makePod("vip", { priority: 1000 })];
      const resume = stage.runtime.hang("runPodSandbox");
      await stage.offer(...pods);
      await stage.offer(...pods.slice(1));
      resume();
      await stage.advance("5s");
    },
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report p1 Pending: a waiting ContainerCreating
      0s report p2 Pending: a waiting ContainerCreating
      0s report p3 Pending: a waiting ContainerCreating
      0s report vip Pending: a waiting ContainerCreating
      0s p1: prepare volumes
      0s report p1 Pending, terminating: a terminated ContainerStatusUnknown 137
      0s p1: remove the pod's files: its manifest is gone
      0s report p1 Pending, finished: a terminated ContainerStatusUnknown 137
      0s vip: prepare volumes
      0s vip: run sandbox (attempt 0): the pod has none
      0s vip: create container a (attempt 0): it has not run yet
      0s vip: start container a (attempt 0)
      0s report vip Running, ready: a running
      0s p2: prepare volumes
      0s p2: run sandbox (attempt 0): the pod has none
      0s p2: create container a (attempt 0): it has not run yet
      0s p2: start container a (attempt 0)
      0s report p2 Running, ready: a running
      0s p3: prepare volumes
      0s p3: run sandbox (attempt 0): the pod has none
      0s p3: create container a (attempt 0): it has not run yet
      0s p3: start container a (attempt 0)
      0s report p3 Running, ready: a running"
    `);
  },
);

scenario(
  "of many pods that end, those whose end has begun go first",
  {
    options: { startPlaces: 1 },
    async run(stage) {
      await stage.offer(makePod("p1"), makePod("p2"), makePod("p3"), makePod("p4"));
      stage.told();
      const second = () => new Promise<void>((resolve) => void stage.clock.wakeAt(stage.clock.now() + 1000, resolve));
      Object.assign(stage.runtime.before, { stopPodSandbox: second, removePodSandbox: second });
      await stage.offer();
      await stage.advance("20s");
    },
  },
  (story) => {
    expect(linesOf(story, /sandbox/)).toMatchInlineSnapshot(`
      "1s p1: stop sandbox: its manifest is gone
      2s p2: stop sandbox: its manifest is gone
      3s p1: remove sandbox: its manifest is gone
      4s p2: remove sandbox: its manifest is gone
      5s p3: stop sandbox: its manifest is gone
      6s p4: stop sandbox: its manifest is gone
      7s p3: remove sandbox: its manifest is gone
      8s p4: remove sandbox: its manifest is gone"
    `);
  },
);

const ofVolumes = (stage: Stage) => stage.disk.paths().filter((path) => path.includes("kubernetes.io~empty-dir"));

scenario(
  "what a pod has in emptyDirs goes with its end, not first with its removal; its logs stay until then",
  {
    before: ({ runtime }) => void runtime.programs.set("once", { exitsAfterMs: 1_000, exitCode: 0 }),
    async run(stage) {
      const volumes = [
        { name: "cache", emptyDir: {} },
        { name: "data", hostPath: { path: "/" } },
      ];
      await stage.offer(makePod("once", { restartPolicy: "OnFailure", volumes }, ["once"]));
      await stage.advance("5s");
      expect(ofVolumes(stage)).toEqual([]);
      expect(stage.disk.paths().filter((path) => path.endsWith("/once/0.log"))).toHaveLength(1);
      await stage.offer();
      await stage.advance("5s");
    },
  },
  (story) => {
    expect(linesOf(story, /[1-9]s /)).toMatchInlineSnapshot(`
      "1s report once Succeeded, terminating: once terminated Completed 0
      1s once: stop sandbox: all its containers are done
      1s once: remove the pod's volumes: all its containers are done
      1s report once Succeeded, terminated: once terminated Completed 0
      5s report once Succeeded, terminating: once terminated Completed 0
      5s once: remove sandbox: its manifest is gone
      5s once: remove the pod's files: its manifest is gone
      5s report once Succeeded, finished: once terminated Completed 0"
    `);
  },
);

scenario(
  "a pod that cannot be removed says why while it ends",
  {
    before({ runtime }) {
      const error = (verb: string, message: string) => new CriError("UNKNOWN", verb, message);
      runtime.failures.stopContainer = [error("StopContainer", "the shim is gone")];
      runtime.failures.removePodSandbox = Array.from({ length: 8 }, () => error("RemovePodSandbox", "no such network"));
    },
    async run(stage) {
      const why = () =>
        stage
          .pods()
          .map((report) => summarize(report))
          .map(({ name, reason, message }) => `${name} shows ${reason}: ${message}`);
      await stage.offer(makePod("web"));
      await stage.offer();
      stage.tell(why());
      await stage.advance("1s");
      stage.tell(why());
      await stage.advance("3m");
    },
  },
  (story) => {
    expect(linesOf(story, /shows|finished/)).toMatchInlineSnapshot(`
      "0s web-node shows KillContainerError: rpc error: code = Unknown desc = the shim is gone
      1s web-node shows KillPodSandboxError: rpc error: code = Unknown desc = no such network
      76s report web Running, finished: a terminated Error 143"
    `);
  },
);

test("only a pod that somebody took away is ever shown as Terminating", async () => {
  const stage = await createStage();
  await stage.start();
  const shown: string[] = [];
  stage.agent.stories.subscribe(() => {
    const [pod] = stage.pods().map((report) => summarize(report));
    const text = `${pod?.phase} ${pod?.reason}`;
    if (pod !== undefined && shown.at(-1) !== text) shown.push(text);
  });
  await stage.offer(makePod("once", { restartPolicy: "Never" }));
  await stage.exit("a", 0);
  await stage.advance("1m");
  expect(shown.splice(0)).toEqual(["Pending ContainerCreating", "Running ", "Succeeded Completed"]);
  await stage.offer();
  await stage.advance("1m");
  expect(shown).toEqual(["Succeeded Terminating"]);
  await stage.stop();
});
