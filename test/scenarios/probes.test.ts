import { expect, test } from "bun:test";
import type { Container, Probe } from "../../proto/kubernetes/gen/types.ts";
import { type AgentHarness, createHarness, makePod } from "./harness.ts";
import { filterLines, scenario } from "./scenario.ts";

const execProbe = (command: string, more: Probe = {}): Probe => ({
  exec: { command: [command] },
  periodSeconds: 10,
  ...more,
});
const withProbes = (more: Partial<Container>) => ({ containers: [{ name: "a", image: "busybox:1", ...more }] });
/** Sets the exit code of a probe's command from now on. */
const setExitCode = (harness: AgentHarness, command: string, exitCode: number) =>
  harness.runtime.commands.set(command, { exitCode, stderr: exitCode === 0 ? "" : "unhealthy" });
const relevantLines = /: (create container|start|stop|remove)|report|probe/;

scenario(
  "a pod is ready when its readiness probe succeeds, and unready after three failures in a row",
  {
    before: (harness) => void setExitCode(harness, "ready", 1),
    async run(harness) {
      await harness.setManifests(makePod("web", withProbes({ readinessProbe: execProbe("ready") })));
      await harness.advance("15s");
      setExitCode(harness, "ready", 0);
      await harness.advance("10s");
      setExitCode(harness, "ready", 1);
      await harness.advance("60s");
    },
  },
  (log) => {
    expect(filterLines(log, relevantLines)).toMatchInlineSnapshot(`
      "0s report web Pending: a waiting ContainerCreating
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s report web Running: a running
      20s web: the readiness probe of container a now returns success
      20s report web Running, ready: a running
      50s web: the readiness probe of container a now returns failure
      50s report web Running: a running"
    `);
  },
);

scenario(
  "a container that fails its liveness probe is restarted, with the probe's grace period and crash loop back-off",
  {
    before(harness) {
      setExitCode(harness, "alive", 1);
      harness.runtime.programs.set("a", { onTerm: "ignores" });
    },
    async run(harness) {
      const livenessProbe = execProbe("alive", { failureThreshold: 2, terminationGracePeriodSeconds: 3 });
      await harness.setManifests(makePod("web", withProbes({ livenessProbe })));
      await harness.advance("45s");
      setExitCode(harness, "alive", 0);
      await harness.advance("60s");
    },
  },
  (log) => {
    expect(filterLines(log, relevantLines)).toMatchInlineSnapshot(`
      "0s report web Pending: a waiting ContainerCreating
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s report web Running, ready: a running
      10s web: the liveness probe of container a now returns failure
      13s web: stop container a within 3s: Container a failed liveness probe, will be restarted
      13s report web Running: a terminated Error 137
      13s web: create container a (attempt 1): it exited with code 137
      13s report web Running: a waiting ContainerCreating (restarts: 1)
      13s web: start container a (attempt 1)
      13s report web Running, ready: a running (restarts: 1)
      23s web: the liveness probe of container a now returns failure
      26s web: stop container a within 3s: Container a failed liveness probe, will be restarted
      26s report web Running: a waiting CrashLoopBackOff (restarts: 1)
      26s web: remove container a: a newer instance has ended too
      36s web: create container a (attempt 2): it exited with code 137
      36s report web Running: a waiting ContainerCreating (restarts: 2)
      36s web: start container a (attempt 2)
      36s report web Running, ready: a running (restarts: 2)"
    `);
  },
);

scenario(
  "liveness and readiness probes of a container start only after its startup probe succeeded",
  {
    before(harness) {
      setExitCode(harness, "up", 1);
      setExitCode(harness, "alive", 1);
    },
    async run(harness) {
      const startupProbe = execProbe("up", { periodSeconds: 5, failureThreshold: 30 });
      await harness.setManifests(
        makePod(
          "web",
          withProbes({ startupProbe, livenessProbe: execProbe("alive"), readinessProbe: execProbe("ready") }),
        ),
      );
      await harness.advance("31s");
      setExitCode(harness, "alive", 0);
      setExitCode(harness, "up", 0);
      await harness.advance("60s");
    },
  },
  (log) => {
    expect(filterLines(log, relevantLines)).toMatchInlineSnapshot(`
      "0s report web Pending: a waiting ContainerCreating
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s report web Running: a running
      35s web: the startup probe of container a now returns success
      35s web: the readiness probe of container a now returns success
      35s report web Running, ready: a running"
    `);
  },
);

scenario(
  "a container with restartPolicy Never that fails its startup probe fails the pod",
  {
    before: (harness) => void setExitCode(harness, "up", 1),
    async run(harness) {
      const startupProbe = execProbe("up", { failureThreshold: 2 });
      await harness.setManifests(makePod("web", { restartPolicy: "Never", ...withProbes({ startupProbe }) }));
      await harness.advance("20s");
    },
  },
  (log) => {
    expect(filterLines(log, relevantLines)).toMatchInlineSnapshot(`
      "0s report web Pending: a waiting ContainerCreating
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s report web Running: a running
      10s web: the startup probe of container a now returns failure
      10s web: stop container a within 30s: Container a failed startup probe
      10s report web Failed, terminating: a terminated Error 143
      10s web: stop sandbox: all its containers are done
      10s report web Failed, terminated: a terminated Error 143"
    `);
  },
);

scenario(
  "a sidecar delays the next container until its startup probe succeeds",
  {
    before: (harness) => void setExitCode(harness, "up", 1),
    async run(harness) {
      const proxy: Container = {
        name: "proxy",
        image: "busybox:1",
        restartPolicy: "Always",
        startupProbe: execProbe("up"),
      };
      await harness.setManifests(makePod("web", { initContainers: [proxy] }));
      await harness.advance("15s");
      setExitCode(harness, "up", 0);
      await harness.advance("10s");
    },
  },
  (log) => {
    expect(filterLines(log, relevantLines)).toMatchInlineSnapshot(`
      "0s report web Pending: init proxy waiting PodInitializing, a waiting PodInitializing
      0s web: create container proxy (attempt 0): it has not run yet
      0s web: start container proxy (attempt 0)
      0s report web Pending: init proxy running, a waiting PodInitializing
      20s web: the startup probe of container proxy now returns success
      20s web: create container a (attempt 0): it has not run yet
      20s web: start container a (attempt 0)
      20s report web Running, ready: init proxy running, a running"
    `);
  },
);

test("a new agent keeps a ready pod ready, probes it within a period, and reports the result", async () => {
  const harness = await createHarness({ isInCluster: true });
  await harness.start();
  await harness.apply("web", withProbes({ readinessProbe: execProbe("ready") }));
  await harness.advance("30s");
  expect(await harness.apiPods()).toEqual(["web Running, ready: a running"]);
  harness.kill();
  harness.takeLog();
  await harness.start();
  await harness.advance("1s");
  setExitCode(harness, "ready", 1);
  await harness.advance("31s");
  expect(filterLines(harness.takeLog(), /report/)).toMatchInlineSnapshot(`"60s report web Running: a running"`);
  expect((await harness.events("web")).filter((line) => line.includes("Unhealthy"))).toEqual([
    "3x Warning Unhealthy: Readiness probe failed: unhealthy",
  ]);
});

test("a terminating pod gets readiness probes but no liveness probes, and none when it is gone", async () => {
  const harness = await createHarness();
  harness.runtime.programs.set("a", { onTerm: "ignores" });
  await harness.start();
  const probes = { livenessProbe: execProbe("alive", { failureThreshold: 1 }), readinessProbe: execProbe("ready") };
  await harness.setManifests(makePod("web", { terminationGracePeriodSeconds: 25, ...withProbes(probes) }));
  await harness.advance("1s");
  setExitCode(harness, "alive", 1);
  await harness.setManifests();
  harness.runtime.calls.length = 0;
  await harness.advance("60s");
  const probeCalls = harness.runtime.calls.filter((call) => call.startsWith("execSync"));
  expect(probeCalls).toEqual(["execSync default/web-node/a #0: ready", "execSync default/web-node/a #0: ready"]);
});

test("a pod that exceeds its deadline gets readiness probes but no liveness probes while it stops", async () => {
  const harness = await createHarness();
  harness.runtime.programs.set("a", { onTerm: "ignores" });
  await harness.start();
  const probes = { livenessProbe: execProbe("alive", { failureThreshold: 1 }), readinessProbe: execProbe("ready") };
  const spec = { activeDeadlineSeconds: 5, terminationGracePeriodSeconds: 25, ...withProbes(probes) };
  await harness.setManifests(makePod("web", spec));
  await harness.advance("6s");
  setExitCode(harness, "alive", 1);
  harness.runtime.calls.length = 0;
  await harness.advance("60s");
  const probeCalls = harness.runtime.calls.filter((call) => call.startsWith("execSync"));
  expect(probeCalls).toEqual(["execSync default/web-node/a #0: ready", "execSync default/web-node/a #0: ready"]);
});

test("a probe whose ExecSync call never returns, since a child holds its output open, fails after its timeout", async () => {
  const harness = await createHarness({ isInCluster: true });
  await harness.start();
  harness.runtime.hang("execSync");
  await harness.apply("web", withProbes({ livenessProbe: execProbe("alive", { failureThreshold: 1 }) }));
  await harness.advance("7s");
  expect((await harness.events("web")).filter((line) => line.includes("Unhealthy"))).toEqual([
    '1x Warning Unhealthy: Liveness probe failed: command timed out: "alive" timed out after 1s',
  ]);
});
