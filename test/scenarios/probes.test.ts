import { expect, test } from "bun:test";
import type { Container, Probe } from "../../proto/kubernetes/gen/types.ts";
import { createStage, makePod, type Stage } from "./harness.ts";
import { linesOf, scenario } from "./scenario.ts";

const asking = (command: string, more: Probe = {}): Probe => ({
  exec: { command: [command] },
  periodSeconds: 10,
  ...more,
});
const probed = (more: Partial<Container>) => ({ containers: [{ name: "a", image: "busybox:1", ...more }] });
/** What the command answers from now on. */
const answers = (stage: Stage, command: string, exitCode: number) =>
  stage.runtime.commands.set(command, { exitCode, stderr: exitCode === 0 ? "" : "not well" });
const told = /: (create|start|stop|remove)|report|probe/;

scenario(
  "a pod is ready when its readiness probe says so, and unready after three failures in a row",
  {
    before: (stage) => void answers(stage, "ready", 1),
    async run(stage) {
      await stage.offer(makePod("web", probed({ readinessProbe: asking("ready") })));
      await stage.advance("15s");
      answers(stage, "ready", 0);
      await stage.advance("10s");
      answers(stage, "ready", 1);
      await stage.advance("60s");
    },
  },
  (story) => {
    expect(linesOf(story, told)).toMatchInlineSnapshot(`
      "0s report web Pending: a waiting ContainerCreating
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s report web Running: a running
      20s web: the readiness probe of container a says success
      20s report web Running, ready: a running
      50s web: the readiness probe of container a says failure
      50s report web Running: a running"
    `);
  },
);

scenario(
  "a container that fails its liveness probe is restarted, with the grace of the probe and the delays of a crash loop",
  {
    before(stage) {
      answers(stage, "alive", 1);
      stage.runtime.programs.set("a", { onTerm: "ignores" });
    },
    async run(stage) {
      const livenessProbe = asking("alive", { failureThreshold: 2, terminationGracePeriodSeconds: 3 });
      await stage.offer(makePod("web", probed({ livenessProbe })));
      await stage.advance("45s");
      answers(stage, "alive", 0);
      await stage.advance("60s");
    },
  },
  (story) => {
    expect(linesOf(story, told)).toMatchInlineSnapshot(`
      "0s report web Pending: a waiting ContainerCreating
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s report web Running, ready: a running
      10s web: the liveness probe of container a says failure
      13s web: stop container a within 3s: Container a failed liveness probe, will be restarted
      13s report web Running: a terminated Error 137
      13s web: create container a (attempt 1): it exited with code 137
      13s report web Running: a waiting ContainerCreating (restarts: 1)
      13s web: start container a (attempt 1)
      13s report web Running, ready: a running (restarts: 1)
      23s web: the liveness probe of container a says failure
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
  "until its startup probe succeeds a container is asked nothing else",
  {
    before(stage) {
      answers(stage, "up", 1);
      answers(stage, "alive", 1);
    },
    async run(stage) {
      const startupProbe = asking("up", { periodSeconds: 5, failureThreshold: 30 });
      await stage.offer(
        makePod("web", probed({ startupProbe, livenessProbe: asking("alive"), readinessProbe: asking("ready") })),
      );
      await stage.advance("31s");
      answers(stage, "alive", 0);
      answers(stage, "up", 0);
      await stage.advance("60s");
    },
  },
  (story) => {
    expect(linesOf(story, told)).toMatchInlineSnapshot(`
      "0s report web Pending: a waiting ContainerCreating
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s report web Running: a running
      35s web: the startup probe of container a says success
      35s web: the readiness probe of container a says success
      35s report web Running, ready: a running"
    `);
  },
);

scenario(
  "a container that does not start up in time is restarted, and with restartPolicy Never it has failed",
  {
    before: (stage) => void answers(stage, "up", 1),
    async run(stage) {
      const startupProbe = asking("up", { failureThreshold: 2 });
      await stage.offer(makePod("web", { restartPolicy: "Never", ...probed({ startupProbe }) }));
      await stage.advance("20s");
    },
  },
  (story) => {
    expect(linesOf(story, told)).toMatchInlineSnapshot(`
      "0s report web Pending: a waiting ContainerCreating
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s report web Running: a running
      10s web: the startup probe of container a says failure
      10s web: stop container a within 30s: Container a failed startup probe
      10s report web Failed, terminating: a terminated Error 143
      10s web: stop sandbox: all its containers are done
      10s report web Failed, terminated: a terminated Error 143"
    `);
  },
);

scenario(
  "a sidecar holds up those behind it until its startup probe succeeds",
  {
    before: (stage) => void answers(stage, "up", 1),
    async run(stage) {
      const proxy: Container = {
        name: "proxy",
        image: "busybox:1",
        restartPolicy: "Always",
        startupProbe: asking("up"),
      };
      await stage.offer(makePod("web", { initContainers: [proxy] }));
      await stage.advance("15s");
      answers(stage, "up", 0);
      await stage.advance("10s");
    },
  },
  (story) => {
    expect(linesOf(story, told)).toMatchInlineSnapshot(`
      "0s report web Pending: init proxy waiting PodInitializing, a waiting PodInitializing
      0s web: create container proxy (attempt 0): it has not run yet
      0s web: start container proxy (attempt 0)
      0s report web Pending: init proxy running, a waiting PodInitializing
      20s web: the startup probe of container proxy says success
      20s web: create container a (attempt 0): it has not run yet
      20s web: start container a (attempt 0)
      20s report web Running, ready: init proxy running, a running"
    `);
  },
);

test("a new agent takes a ready pod for ready, asks within a period, and tells what it hears", async () => {
  const stage = await createStage({ isInCluster: true });
  await stage.start();
  await stage.apply("web", probed({ readinessProbe: asking("ready") }));
  await stage.advance("30s");
  expect(await stage.shown()).toEqual(["web Running, ready: a running"]);
  stage.kill();
  stage.told();
  await stage.start();
  await stage.advance("1s");
  answers(stage, "ready", 1);
  await stage.advance("31s");
  expect(linesOf(stage.told(), /report/)).toMatchInlineSnapshot(`"60s report web Running: a running"`);
  expect((await stage.events("web")).filter((line) => line.includes("Unhealthy"))).toEqual([
    "3x Warning Unhealthy: Readiness probe failed: not well",
  ]);
});

test("a pod that has to end is asked whether it is ready, and nothing else, and not at all when it is gone", async () => {
  const stage = await createStage();
  stage.runtime.programs.set("a", { onTerm: "ignores" });
  await stage.start();
  const probes = { livenessProbe: asking("alive", { failureThreshold: 1 }), readinessProbe: asking("ready") };
  await stage.offer(makePod("web", { terminationGracePeriodSeconds: 25, ...probed(probes) }));
  await stage.advance("1s");
  answers(stage, "alive", 1);
  await stage.offer();
  stage.runtime.calls.length = 0;
  await stage.advance("60s");
  const asked = stage.runtime.calls.filter((call) => call.startsWith("execSync"));
  expect(asked).toEqual(["execSync default/web-node/a #0: ready", "execSync default/web-node/a #0: ready"]);
});

test("so is a pod that ends by itself", async () => {
  const stage = await createStage();
  stage.runtime.programs.set("a", { onTerm: "ignores" });
  await stage.start();
  const probes = { livenessProbe: asking("alive", { failureThreshold: 1 }), readinessProbe: asking("ready") };
  const spec = { activeDeadlineSeconds: 5, terminationGracePeriodSeconds: 25, ...probed(probes) };
  await stage.offer(makePod("web", spec));
  await stage.advance("6s");
  answers(stage, "alive", 1);
  stage.runtime.calls.length = 0;
  await stage.advance("60s");
  const asked = stage.runtime.calls.filter((call) => call.startsWith("execSync"));
  expect(asked).toEqual(["execSync default/web-node/a #0: ready", "execSync default/web-node/a #0: ready"]);
});

test("a probe whose command is never answered, since its child holds its output open, has failed", async () => {
  const stage = await createStage({ isInCluster: true });
  await stage.start();
  stage.runtime.hang("execSync");
  await stage.apply("web", probed({ livenessProbe: asking("alive", { failureThreshold: 1 }) }));
  await stage.advance("7s");
  expect((await stage.events("web")).filter((line) => line.includes("Unhealthy"))).toEqual([
    '1x Warning Unhealthy: Liveness probe failed: command timed out: "alive" timed out after 1s',
  ]);
});
