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
      harness.runtime.before.execSync = async (about) =>
        void setExitCode(harness, "alive", about.includes("#2") ? 0 : 1);
      harness.runtime.programs.set("a", { onTerm: "ignores" });
    },
    async run(harness) {
      const livenessProbe = execProbe("alive", { failureThreshold: 2, terminationGracePeriodSeconds: 3 });
      await harness.setManifests(makePod("web", withProbes({ livenessProbe })));
      await harness.advance("120s");
    },
  },
  (log) => {
    expect(filterLines(log, relevantLines)).toMatchInlineSnapshot(`
      "0s report web Pending: a waiting ContainerCreating
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s report web Running, ready: a running
      20s web: the liveness probe of container a now returns failure
      23s web: stop container a within 3s: Container a failed liveness probe, will be restarted
      23s report web Running: a terminated Error 137
      23s web: create container a (attempt 1): it exited with code 137
      23s report web Running: a waiting ContainerCreating (restarts: 1)
      23s web: start container a (attempt 1)
      23s report web Running, ready: a running (restarts: 1)
      43s web: the liveness probe of container a now returns failure
      46s web: stop container a within 3s: Container a failed liveness probe, will be restarted
      46s report web Running: a waiting CrashLoopBackOff (restarts: 1)
      46s web: remove container a: a newer instance has ended too
      56s web: create container a (attempt 2): it exited with code 137
      56s report web Running: a waiting ContainerCreating (restarts: 2)
      56s web: start container a (attempt 2)
      56s report web Running, ready: a running (restarts: 2)"
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
      await harness.advance("40s");
    },
  },
  (log) => {
    expect(filterLines(log, relevantLines)).toMatchInlineSnapshot(`
      "0s report web Pending: a waiting ContainerCreating
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s report web Running: a running
      20s web: the startup probe of container a now returns failure
      20s web: stop container a within 30s: Container a failed startup probe
      20s report web Failed, terminating: a terminated Error 143
      20s web: stop sandbox: all its containers are done
      20s report web Failed, terminated: a terminated Error 143"
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
      await harness.advance("20s");
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
  const why = "The readiness probe fails three times.";
  const regressions = [{ pod: "web", label: "a", rule: "readiness", why }];
  const harness = await createHarness({ isInCluster: true, regressions });
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

/** A container whose startup and readiness probes take their time. */
const withSlowProbes = withProbes({
  startupProbe: execProbe("up", { timeoutSeconds: 10 }),
  readinessProbe: execProbe("ready", { timeoutSeconds: 10 }),
});

/** Runs the pod for a minute, restarts the agent, and lets it run for thirty seconds: its probes only readiness. */
async function restartWithSlowProbes(
  harness: AgentHarness,
  startPod: () => Promise<void>,
  beforeRestart = () => {},
): Promise<void> {
  harness.runtime.commands.set("up", { lastsMs: 2_000 });
  harness.runtime.commands.set("ready", { lastsMs: 3_000 });
  await harness.start();
  await startPod();
  await harness.advance("60s");
  harness.kill();
  beforeRestart();
  harness.takeLog();
  harness.runtime.calls.length = 0;
  await harness.start();
  await harness.advance("30s");
  const commands = harness.runtime.calls.filter((call) => call.startsWith("execSync"));
  expect(commands.map((call) => call.replace(/^.*: /, ""))).toEqual(["ready", "ready", "ready"]);
}

/** As a kubelet leaves the node. */
function removeProbeMarks({ disk }: AgentHarness): void {
  const marks = disk.paths().filter((path) => /\/(started|ready)-\d+$/.test(path));
  expect(marks).toHaveLength(2);
  for (const mark of marks) disk.nodes.delete(mark);
}

test("a restart of the agent leaves a pod of the API ready, although its probes are slow", async () => {
  const harness = await createHarness({ isInCluster: true });
  await restartWithSlowProbes(harness, () => harness.apply("web", withSlowProbes));
  expect(filterLines(harness.takeLog(), /report|probe/)).toMatchInlineSnapshot(`""`);
});

test("a pod that another agent has reported as ready, without marks on the node, stays ready", async () => {
  const harness = await createHarness({ isInCluster: true });
  await restartWithSlowProbes(
    harness,
    () => harness.apply("web", withSlowProbes),
    () => removeProbeMarks(harness),
  );
  expect(filterLines(harness.takeLog(), /report|probe/)).toMatchInlineSnapshot(`""`);
});

test("a restart of the agent leaves a static pod ready, although its probes are slow and no API server knows it", async () => {
  const harness = await createHarness();
  await restartWithSlowProbes(harness, () => harness.setManifests(makePod("web", withSlowProbes)));
  expect(filterLines(harness.takeLog(), /report|probe/)).toMatchInlineSnapshot(`""`);
});

test("a restart of the agent leaves a pod ready while the API server does not answer, and when it does", async () => {
  const harness = await createHarness({ isInCluster: true });
  await restartWithSlowProbes(
    harness,
    () => harness.apply("web", withSlowProbes),
    () => {
      const resume = harness.kube.hang("watch");
      harness.clock.wakeAt(harness.clock.now() + 5_000, resume);
    },
  );
  expect(filterLines(harness.takeLog(), /report|probe/)).toMatchInlineSnapshot(`""`);
});

test("a container that is ready at a restart of the agent is unready after failureThreshold failures", async () => {
  const harness = await createHarness();
  await harness.start();
  await harness.setManifests(makePod("web", withProbes({ readinessProbe: execProbe("ready") })));
  await harness.advance("61s");
  harness.kill();
  harness.takeLog();
  setExitCode(harness, "ready", 1);
  await harness.start();
  await harness.advance("40s");
  expect(filterLines(harness.takeLog(), /report|probe/)).toMatchInlineSnapshot(`
    "90s web: the readiness probe of container a now returns failure
    90s report web Running: a running"
  `);
});

test("a container that became unready before a restart of the agent stays unready", async () => {
  const harness = await createHarness();
  await harness.start();
  await harness.setManifests(makePod("web", withProbes({ readinessProbe: execProbe("ready") })));
  await harness.advance("15s");
  setExitCode(harness, "ready", 1);
  await harness.advance("46s");
  harness.kill();
  harness.takeLog();
  await harness.start();
  await harness.advance("40s");
  expect(filterLines(harness.takeLog(), /report|probe/)).toMatchInlineSnapshot(`""`);
});

test("a new instance of a container does not inherit the readiness of the one before", async () => {
  const harness = await createHarness();
  await harness.start();
  await harness.setManifests(makePod("web", withProbes({ readinessProbe: execProbe("ready") })));
  await harness.advance("15s");
  setExitCode(harness, "ready", 1);
  await harness.exit("a", 1);
  await harness.advance("5s");
  harness.kill();
  harness.takeLog();
  await harness.start();
  await harness.advance("40s");
  expect(filterLines(harness.takeLog(), /report|probe/)).toMatchInlineSnapshot(`""`);
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
  // A short lag, since the probes are counted until the agent sees the end.
  const harness = await createHarness({ hasShortLag: true });
  harness.runtime.programs.set("a", { onTerm: "ignores" });
  await harness.start();
  const probes = { livenessProbe: execProbe("alive", { failureThreshold: 1 }), readinessProbe: execProbe("ready") };
  const spec = { activeDeadlineSeconds: 4, terminationGracePeriodSeconds: 25, ...withProbes(probes) };
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
  await harness.advance("17s");
  expect((await harness.events("web")).filter((line) => line.includes("Unhealthy"))).toEqual([
    '1x Warning Unhealthy: Liveness probe failed: command timed out: "alive" timed out after 1s',
  ]);
});
