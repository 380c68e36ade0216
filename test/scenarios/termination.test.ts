import { expect, test } from "bun:test";
import { summarizePod } from "../../agent/serve/local/pod-list.ts";
import { CriError } from "../../cri/error.ts";
import { type AgentHarness, createHarness, makePod } from "./harness.ts";
import { filterLines, scenario } from "./scenario.ts";

scenario(
  "a pod whose manifest was removed is stopped within its grace period and leaves nothing",
  {
    before: (harness) => void harness.runtime.programs.set("b", { onTerm: "ignores" }),
    async run(harness) {
      await harness.setManifests(makePod("web", { terminationGracePeriodSeconds: 7 }, ["a", "b"]));
      await harness.setManifests();
      await harness.advance("10s");
    },
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
      0s report web Running, ready: a running, b running
      0s report web Running, ready, terminating: a running, b running
      0s web: stop container a within 7s: its manifest is gone
      0s report web Running, terminating: a terminated Error 143, b running
      7s web: stop container b within 7s: its manifest is gone
      7s report web Running, terminating: a terminated Error 143, b terminated Error 137
      7s web: stop sandbox: its manifest is gone
      7s web: remove sandbox: its manifest is gone
      7s web: remove the pod's logs: its manifest is gone
      7s web: remove the pod's files: its manifest is gone
      7s report web Running, finished: a terminated Error 143, b terminated Error 137"
    `);
  },
);

scenario(
  "a changed manifest stops the old pod before the new one starts",
  {
    before: (harness) => void harness.runtime.programs.set("a", { onTerm: "ignores" }),
    async run(harness) {
      await harness.setManifests(makePod("web", { terminationGracePeriodSeconds: 5 }));
      await harness.setManifests(makePod("web", { terminationGracePeriodSeconds: 5, hostname: "other" }));
      await harness.advance("10s");
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
      0s web: start container a (attempt 0)
      0s report web Running, ready: a running
      0s report web Pending: a waiting ContainerCreating
      0s report web Running, ready, terminating: a running
      5s web: stop container a within 5s: its manifest has changed
      5s report web Running, terminating: a terminated Error 137
      5s web: stop sandbox: its manifest has changed
      5s web: remove sandbox: its manifest has changed
      5s web: remove the pod's logs: its manifest has changed
      5s web: remove the pod's files: its manifest has changed
      5s report web Running, finished: a terminated Error 137
      5s web: create the pod's log directory
      5s web: run sandbox (attempt 0): the pod has none
      5s web: create the pod's directories
      5s web: create container a (attempt 0): it has not run yet
      5s web: start container a (attempt 0)
      5s report web Running, ready: a running"
    `);
  },
);

scenario(
  "a manifest that is restored while its pod terminates starts the pod again afterwards",
  {
    before: (harness) => void harness.runtime.programs.set("a", { onTerm: "ignores" }),
    async run(harness) {
      const pod = makePod("web", { terminationGracePeriodSeconds: 5 });
      await harness.setManifests(pod);
      await harness.setManifests();
      await harness.setManifests(pod);
      await harness.advance("10s");
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
      0s web: start container a (attempt 0)
      0s report web Running, ready: a running
      0s report web Running, ready, terminating: a running
      5s web: stop container a within 5s: its manifest is gone
      5s report web Running, terminating: a terminated Error 137
      5s web: stop sandbox: its manifest is gone
      5s web: remove sandbox: its manifest is gone
      5s web: remove the pod's logs: its manifest is gone
      5s web: remove the pod's files: its manifest is gone
      5s report web Running, finished: a terminated Error 137
      5s report web Pending: a waiting ContainerCreating
      5s web: create the pod's log directory
      5s web: run sandbox (attempt 0): the pod has none
      5s web: create the pod's directories
      5s web: create container a (attempt 0): it has not run yet
      5s web: start container a (attempt 0)
      5s report web Running, ready: a running"
    `);
  },
);

scenario(
  "pods, directories and logs that no source wants are removed",
  {
    async before(harness) {
      const pod = makePod("old");
      const metadata = { name: "old", namespace: "default", uid: pod.metadata.uid ?? "", attempt: 0 };
      const labels = {
        "io.kubernetes.pod.name": "old",
        "io.kubernetes.pod.namespace": "default",
        "io.kubernetes.pod.uid": metadata.uid,
      };
      const { PodSandboxConfig, ContainerConfig } = await import("../../proto/cri/gen/api.ts");
      const sandbox = harness.runtime.addForeignSandbox(PodSandboxConfig.fromPartial({ metadata, labels }));
      const config = ContainerConfig.fromPartial({
        metadata: { name: "a", attempt: 0 },
        labels: { ...labels, "io.kubernetes.container.name": "a" },
        image: { image: "busybox:1" },
      });
      harness.runtime.addForeignContainer(sandbox, config);
      await harness.disk.at("/root").makeFolder("pods/left-on-disk", 0o750);
      await harness.disk.at("/logs").makeFolder("shop_gone_only-logs-left/a", 0o755);
    },
    run: (harness) => harness.advance("5s"),
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s shop/gone: remove the pod's logs: no source asks for this pod
      0s remove the pod's files: no source asks for this pod
      0s default/old: stop container a within 2s: no source asks for this pod
      0s default/old: stop sandbox: no source asks for this pod
      0s default/old: remove sandbox: no source asks for this pod"
    `);
  },
);

scenario(
  "a container in the sandbox that is not in the pod's spec is removed, whatever its name",
  {
    async run(harness) {
      await harness.setManifests(makePod("web"));
      await harness.advance("1s");
      const [sandbox] = harness.runtime.sandboxes.values();
      if (sandbox === undefined) return;
      const { labels } = sandbox.config;
      const { ContainerConfig } = await import("../../proto/cri/gen/api.ts");
      for (const name of ["a/b", ".."])
        harness.runtime.addForeignContainer(
          sandbox.id,
          ContainerConfig.fromPartial({
            metadata: { name, attempt: 0 },
            labels: { ...labels, "io.kubernetes.container.name": name },
            image: { image: "busybox:1" },
          }),
        );
      await harness.advance("5s");
    },
  },
  (log) => {
    expect(filterLines(log, /stop|remove|failed/)).toMatchInlineSnapshot(`
      "4s web: stop container a/b within 30s: the pod has no such container
      4s web: stop container .. within 30s: the pod has no such container
      4s web: remove container a/b: the pod has no such container
      4s web: remove container ..: the pod has no such container"
    `);
  },
);

scenario(
  "starts are limited and ordered by priority; terminations do not wait for a start slot",
  {
    // Without a lag, so that the termination needs no time either.
    options: { startSlots: 1, exitLagMs: () => 0 },
    async run(harness) {
      const pods = [makePod("p1"), makePod("p2"), makePod("p3"), makePod("vip", { priority: 1000 })];
      const resume = harness.runtime.hang("runPodSandbox");
      await harness.setManifests(...pods);
      await harness.setManifests(...pods.slice(1));
      resume();
      await harness.advance("5s");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report p1 Pending: a waiting ContainerCreating
      0s report p2 Pending: a waiting ContainerCreating
      0s report p3 Pending: a waiting ContainerCreating
      0s report vip Pending: a waiting ContainerCreating
      0s p1: create the pod's log directory
      0s p1: create the pod's directories
      0s p1: run sandbox (attempt 0): the pod has none
      0s report p1 Pending, terminating: a terminated ContainerStatusUnknown 137
      0s p1: stop sandbox: its manifest is gone
      0s vip: create the pod's log directory
      0s vip: run sandbox (attempt 0): the pod has none
      0s vip: create the pod's directories
      0s p1: remove sandbox: its manifest is gone
      0s p1: remove the pod's logs: its manifest is gone
      0s p1: remove the pod's files: its manifest is gone
      0s vip: create container a (attempt 0): it has not run yet
      0s report p1 Pending, finished: a terminated ContainerStatusUnknown 137
      0s vip: start container a (attempt 0)
      0s report vip Running, ready: a running
      0s p2: create the pod's log directory
      0s p2: run sandbox (attempt 0): the pod has none
      0s p2: create the pod's directories
      0s p2: create container a (attempt 0): it has not run yet
      0s p2: start container a (attempt 0)
      0s report p2 Running, ready: a running
      0s p3: create the pod's log directory
      0s p3: run sandbox (attempt 0): the pod has none
      0s p3: create the pod's directories
      0s p3: create container a (attempt 0): it has not run yet
      0s p3: start container a (attempt 0)
      0s report p3 Running, ready: a running"
    `);
  },
);

scenario(
  "of many terminating pods those already being torn down are finished first",
  {
    options: { startSlots: 1 },
    async run(harness) {
      await harness.setManifests(makePod("p1"), makePod("p2"), makePod("p3"), makePod("p4"));
      harness.takeLog();
      const second = () =>
        new Promise<void>((resolve) => void harness.clock.wakeAt(harness.clock.now() + 1000, resolve));
      Object.assign(harness.runtime.before, { stopPodSandbox: second, removePodSandbox: second });
      await harness.setManifests();
      await harness.advance("20s");
    },
  },
  (log) => {
    expect(filterLines(log, /sandbox/)).toMatchInlineSnapshot(`
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

const emptyDirPaths = (harness: AgentHarness) =>
  harness.disk.paths().filter((path) => path.includes("kubernetes.io~empty-dir/"));

scenario(
  "the emptyDir volumes are removed when the pod has ended, its logs only with the pod",
  {
    before: ({ runtime }) => void runtime.programs.set("once", { exitsAfterMs: 1_000, exitCode: 0 }),
    async run(harness) {
      const volumes = [
        { name: "cache", emptyDir: {} },
        { name: "data", hostPath: { path: "/" } },
      ];
      await harness.setManifests(makePod("once", { restartPolicy: "OnFailure", volumes }, ["once"]));
      await harness.advance("5s");
      expect(emptyDirPaths(harness)).toEqual([]);
      expect(harness.disk.paths().filter((path) => path.endsWith("/once/0.log"))).toHaveLength(1);
      await harness.setManifests();
      await harness.advance("5s");
    },
  },
  (log) => {
    expect(filterLines(log, /[1-9]s /)).toMatchInlineSnapshot(`
      "1s report once Succeeded, terminating: once terminated Completed 0
      1s once: stop sandbox: all its containers are done
      1s once: remove volume cache: all its containers are done
      1s report once Succeeded, terminated: once terminated Completed 0
      5s report once Succeeded, terminating: once terminated Completed 0
      5s once: remove sandbox: its manifest is gone
      5s once: remove the pod's logs: its manifest is gone
      5s once: remove the pod's files: its manifest is gone
      5s report once Succeeded, finished: once terminated Completed 0"
    `);
  },
);

scenario(
  "a terminating pod that cannot be removed shows the reason",
  {
    before({ runtime }) {
      const error = (verb: string, message: string) => new CriError("UNKNOWN", verb, message);
      runtime.failures.stopContainer = [error("StopContainer", "the shim is gone")];
      runtime.failures.removePodSandbox = Array.from({ length: 8 }, () => error("RemovePodSandbox", "no such network"));
    },
    async run(harness) {
      const reasons = () =>
        harness
          .podReports()
          .map((report) => summarizePod(report))
          .map(({ name, reason, message }) => `${name} shows ${reason}: ${message}`);
      await harness.setManifests(makePod("web"));
      await harness.setManifests();
      harness.appendLog(reasons());
      await harness.advance("1s");
      harness.appendLog(reasons());
      await harness.advance("3m");
    },
  },
  (log) => {
    expect(filterLines(log, /shows|finished/)).toMatchInlineSnapshot(`
      "0s web-node shows KillContainerError: rpc error: code = Unknown desc = the shim is gone
      1s web-node shows KillPodSandboxError: rpc error: code = Unknown desc = no such network
      76s report web Running, finished: a terminated Error 143"
    `);
  },
);

test("a pod shows Terminating only after its source removed it, not when it completes", async () => {
  const harness = await createHarness();
  await harness.start();
  const shown: string[] = [];
  harness.agent.podReports.subscribe(() => {
    const [pod] = harness.podReports().map((report) => summarizePod(report));
    const text = `${pod?.phase} ${pod?.reason}`;
    if (pod !== undefined && shown.at(-1) !== text) shown.push(text);
  });
  await harness.setManifests(makePod("once", { restartPolicy: "Never" }));
  await harness.exit("a", 0);
  await harness.advance("1m");
  expect(shown.splice(0)).toEqual(["Pending ContainerCreating", "Running ", "Succeeded Completed"]);
  await harness.setManifests();
  await harness.advance("1m");
  expect(shown).toEqual(["Succeeded Terminating"]);
  await harness.stop();
});
