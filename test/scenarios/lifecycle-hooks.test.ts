import { expect, test } from "bun:test";
import { pods } from "../../kube/resource.ts";
import type { Lifecycle } from "../../proto/kubernetes/gen/types.ts";
import { createStage, makePod } from "./harness.ts";
import { linesOf, scenario } from "./scenario.ts";

const running = (command: string) => ({ exec: { command: [command] } });
const hooked = (lifecycle: Lifecycle) => ({
  containers: [
    { name: "a", image: "busybox:1", lifecycle },
    { name: "b", image: "busybox:1" },
  ],
});
const told = /: (create|start|stop|run the|remove|failed)|report/;

scenario(
  "what comes behind a container waits for its postStart hook",
  {
    before: (stage) => void stage.runtime.commands.set("warm-up", { lastsMs: 5000 }),
    async run(stage) {
      await stage.offer(makePod("web", hooked({ postStart: running("warm-up") })));
      await stage.advance("10s");
    },
  },
  (story) => {
    expect(linesOf(story, told)).toMatchInlineSnapshot(`
      "0s report web Pending: a waiting ContainerCreating, b waiting ContainerCreating
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      5s web: run the postStart hook of container a (attempt 0)
      5s report web Pending: a running, b waiting ContainerCreating
      5s web: create container b (attempt 0): it has not run yet
      5s web: start container b (attempt 0)
      5s report web Running, ready: a running, b running"
    `);
  },
);

scenario(
  "a container whose postStart hook fails is stopped and tried again",
  {
    before: (stage) => void stage.runtime.commands.set("warm-up", { exitCode: 1, stderr: "too cold" }),
    async run(stage) {
      await stage.offer(makePod("web", hooked({ postStart: running("warm-up") })));
      await stage.advance("5s");
      stage.runtime.commands.set("warm-up", {});
      await stage.advance("20s");
    },
  },
  (story) => {
    expect(linesOf(story, told)).toMatchInlineSnapshot(`
      "0s report web Pending: a waiting ContainerCreating, b waiting ContainerCreating
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s web: failed to run the postStart hook of container a (attempt 0): its command exited with code 1
      0s web: stop container a within 30s: its postStart hook has failed
      0s report web Pending: a waiting PostStartHookError, b waiting ContainerCreating
      0s web: create container a (attempt 1): it exited with code 143
      0s report web Pending: a waiting ContainerCreating (restarts: 1), b waiting ContainerCreating
      0s web: start container a (attempt 1)
      0s web: failed to run the postStart hook of container a (attempt 1): its command exited with code 1
      0s web: stop container a within 30s: its postStart hook has failed
      0s report web Pending: a waiting PostStartHookError (restarts: 1), b waiting ContainerCreating
      0s web: remove container a: a newer instance has ended too
      0s web: create container b (attempt 0): it has not run yet
      0s web: start container b (attempt 0)
      0s report web Running: a waiting PostStartHookError (restarts: 1), b running
      5s report web Running: a waiting CrashLoopBackOff (restarts: 1), b running
      10s web: create container a (attempt 2): it exited with code 143
      10s report web Running: a waiting ContainerCreating (restarts: 2), b running
      10s web: start container a (attempt 2)
      10s web: run the postStart hook of container a (attempt 2)
      10s report web Running, ready: a running (restarts: 2), b running"
    `);
  },
);

test("what a postStart hook has failed of is told for the first half of the wait that follows", async () => {
  const stage = await createStage({ isInCluster: true });
  stage.runtime.commands.set("warm up", { exitCode: 1, stdout: "trying\n", stderr: "too cold\n" });
  await stage.start();
  const lifecycle = { postStart: { exec: { command: ["warm", "up"] } } };
  await stage.apply("web", {
    containers: [{ name: "a", image: "busybox:1", imagePullPolicy: "IfNotPresent", lifecycle }],
  });
  await stage.advance("4s");
  const shown = async () => (await stage.kube.user.get(pods("default"), "web")).status?.containerStatuses?.[0];
  const { uid } = (await stage.kube.user.get(pods("default"), "web")).metadata;
  const what = `Exec lifecycle hook ([warm up]) for Container "a" in Pod "web_default(${uid})" failed`;
  expect(await shown()).toMatchObject({
    state: {
      waiting: {
        reason: "PostStartHookError",
        message: `${what} - error: command 'warm up' exited with 1: too cold\n, message: "trying\\ntoo cold\\n"`,
      },
    },
    lastState: { terminated: { exitCode: 143 } },
    restartCount: 1,
  });
  await stage.advance("2s");
  expect(await shown()).toMatchObject({ state: { waiting: { reason: "CrashLoopBackOff" } } });
  await stage.advance("5s");
  expect(await shown()).toMatchObject({ state: { waiting: { reason: "PostStartHookError" } }, restartCount: 2 });
});

scenario(
  "a preStop hook and the stop behind it share one grace",
  {
    before(stage) {
      stage.runtime.commands.set("drain", { lastsMs: 4000 });
      stage.runtime.programs.set("a", { onTerm: "ignores" });
    },
    async run(stage) {
      const spec = { terminationGracePeriodSeconds: 10, ...hooked({ preStop: running("drain") }) };
      await stage.offer(makePod("web", spec));
      await stage.offer();
      await stage.advance("20s");
    },
  },
  (story) => {
    expect(linesOf(story, /stop|terminating|finished/)).toMatchInlineSnapshot(`
      "0s report web Running, ready, terminating: a running, b running
      0s web: stop container b within 10s: its manifest is gone
      0s report web Running, terminating: a running, b terminated Error 143
      10s web: stop container a, its preStop hook first, within 10s: its manifest is gone
      10s report web Running, terminating: a terminated Error 137, b terminated Error 143
      10s web: stop sandbox: its manifest is gone
      10s report web Running, finished: a terminated Error 137, b terminated Error 143"
    `);
  },
);

test("a hook that is begun while the disk still takes the word that its pod has to end is begun once", async () => {
  const stage = await createStage();
  stage.runtime.commands.set("drain", { lastsMs: 4000 });
  await stage.start();
  await stage.offer(makePod("web", hooked({ preStop: running("drain") })));
  const written = Promise.withResolvers<void>();
  stage.disk.after = (verb, path) => (verb === "write" && path.startsWith("/root/berth") ? written.promise : undefined);
  await stage.offer();
  await stage.exit("b", 0);
  written.resolve();
  await stage.advance("20s");
  expect(stage.runtime.calls.filter((call) => call.startsWith("execSync"))).toHaveLength(1);
  expect(stage.runtime.givenUp).toEqual([]);
  expect(stage.pods()).toEqual([]);
});

scenario(
  "a preStop hook that hangs is left when the grace is over",
  {
    before: (stage) => void stage.runtime.commands.set("drain", { lastsMs: 1_000_000 }),
    async run(stage) {
      const spec = { terminationGracePeriodSeconds: 5, ...hooked({ preStop: running("drain") }) };
      await stage.offer(makePod("web", spec));
      await stage.offer();
      await stage.advance("20s");
    },
  },
  (story) => {
    expect(linesOf(story, /stop|terminating|finished/)).toMatchInlineSnapshot(`
      "0s report web Running, ready, terminating: a running, b running
      0s web: stop container b within 5s: its manifest is gone
      0s report web Running, terminating: a running, b terminated Error 143
      5s web: stop container a, its preStop hook first, within 5s: its manifest is gone
      5s report web Running, terminating: a terminated Error 143, b terminated Error 143
      5s web: stop sandbox: its manifest is gone
      5s report web Running, finished: a terminated Error 143, b terminated Error 143"
    `);
  },
);

scenario(
  "so is one whose child holds its output open, for which the runtime waits whatever its own limit",
  {
    before: (stage) => void stage.runtime.hang("execSync"),
    async run(stage) {
      const spec = { terminationGracePeriodSeconds: 5, ...hooked({ preStop: running("drain") }) };
      await stage.offer(makePod("web", spec));
      await stage.offer();
      await stage.advance("20s");
    },
  },
  (story) => {
    expect(linesOf(story, /stop|terminating|finished/)).toMatchInlineSnapshot(`
      "0s report web Running, ready, terminating: a running, b running
      0s web: stop container b within 5s: its manifest is gone
      0s report web Running, terminating: a running, b terminated Error 143
      5s web: stop container a, its preStop hook first, within 5s: its manifest is gone
      5s report web Running, terminating: a terminated Error 143, b terminated Error 143
      5s web: stop sandbox: its manifest is gone
      5s report web Running, finished: a terminated Error 143, b terminated Error 143"
    `);
  },
);

scenario(
  "a hook may simply wait",
  {
    async run(stage) {
      await stage.offer(makePod("web", hooked({ preStop: { sleep: { seconds: 3 } } })));
      await stage.offer();
      await stage.advance("20s");
    },
  },
  (story) => {
    expect(linesOf(story, /stop|terminating|finished/)).toMatchInlineSnapshot(`
      "0s report web Running, ready, terminating: a running, b running
      0s web: stop container b within 30s: its manifest is gone
      0s report web Running, terminating: a running, b terminated Error 143
      3s web: stop container a, its preStop hook first, within 30s: its manifest is gone
      3s report web Running, terminating: a terminated Error 143, b terminated Error 143
      3s web: stop sandbox: its manifest is gone
      3s report web Running, finished: a terminated Error 143, b terminated Error 143"
    `);
  },
);

scenario(
  "while a container is being stopped, what becomes of the others is told",
  {
    before(stage) {
      stage.runtime.commands.set("drain", { lastsMs: 8000 });
      stage.runtime.programs.set("b", { onTerm: "ignores" });
    },
    async run(stage) {
      await stage.offer(
        makePod("web", { terminationGracePeriodSeconds: 30, ...hooked({ preStop: running("drain") }) }),
      );
      await stage.offer();
      await stage.advance("3s");
      await stage.exit("b", 7);
      await stage.advance("20s");
    },
  },
  (story) => {
    expect(linesOf(story, /stop|terminating|finished/)).toMatchInlineSnapshot(`
      "0s report web Running, ready, terminating: a running, b running
      3s web: stop container b within 30s: its manifest is gone
      3s report web Running, terminating: a running, b terminated Error 7
      8s web: stop container a, its preStop hook first, within 30s: its manifest is gone
      8s report web Running, terminating: a terminated Error 143, b terminated Error 7
      8s web: stop sandbox: its manifest is gone
      8s report web Running, finished: a terminated Error 143, b terminated Error 7"
    `);
  },
);

scenario(
  "a preStop hook goes on while somebody labels the pod",
  {
    options: { isInCluster: true },
    before: (stage) => void stage.runtime.commands.set("drain", { lastsMs: 8000 }),
    async run(stage) {
      await stage.apply("web", { ...hooked({ preStop: running("drain") }), terminationGracePeriodSeconds: 30 });
      await stage.advance("1s");
      await stage.remove("web");
      await stage.advance("3s");
      await stage.kube.user.patch(pods("default"), "web", {
        type: "merge",
        body: { metadata: { labels: { tier: "front" } } },
      });
      await stage.advance("20s");
    },
  },
  (story) => {
    expect(linesOf(story, /stop container/)).toMatchInlineSnapshot(`
      "1s default/web: stop container b within 30s: it was deleted
      9s default/web: stop container a, its preStop hook first, within 30s: it was deleted"
    `);
  },
);

scenario(
  "a pod that has to end does not wait for a postStart hook that hangs",
  {
    before: (stage) => void stage.runtime.commands.set("warm-up", { lastsMs: 1_000_000 }),
    async run(stage) {
      await stage.offer(makePod("web", hooked({ postStart: running("warm-up") })));
      await stage.advance("5s");
      await stage.offer();
      await stage.advance("60s");
    },
  },
  (story) => {
    expect(linesOf(story, told)).toMatchInlineSnapshot(`
      "0s report web Pending: a waiting ContainerCreating, b waiting ContainerCreating
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      5s report web Pending, terminating: a waiting ContainerCreating, b waiting ContainerCreating
      5s web: stop container a within 30s: its manifest is gone
      5s report web Pending, terminating: a terminated Error 143, b terminated ContainerStatusUnknown 137
      5s web: stop sandbox: its manifest is gone
      5s web: remove sandbox: its manifest is gone
      5s web: remove the pod's files: its manifest is gone
      5s report web Pending, finished: a terminated Error 143, b terminated ContainerStatusUnknown 137"
    `);
  },
);

scenario(
  "the preStop hook of a sidecar begins with the others', and its stop waits for its turn",
  {
    before(stage) {
      stage.runtime.commands.set("drain", { lastsMs: 4000 });
      stage.runtime.programs.set("b", { onTerm: "ignores" });
    },
    async run(stage) {
      const lifecycle = { preStop: running("drain") };
      const initContainers = [{ name: "proxy", image: "busybox:1", restartPolicy: "Always" as const, lifecycle }];
      await stage.offer(makePod("web", { terminationGracePeriodSeconds: 10, initContainers, ...hooked(lifecycle) }));
      await stage.offer();
      await stage.advance("20s");
    },
  },
  (story) => {
    expect(linesOf(story, /stop|terminating|finished/i)).toMatchInlineSnapshot(`
      "0s report web Running, ready, terminating: init proxy running, a running, b running
      4s web: run the preStop hook of container proxy within 10s: its manifest is gone
      4s web: stop container a, its preStop hook first, within 10s: its manifest is gone
      4s report web Running, terminating: init proxy running, a terminated Error 143, b running
      10s web: stop container b within 10s: its manifest is gone
      10s report web Running, terminating: init proxy running, a terminated Error 143, b terminated Error 137
      10s web: stop container proxy within 2s: its manifest is gone
      10s report web Running, terminating: init proxy terminated Error 143, a terminated Error 143, b terminated Error 137
      10s web: stop sandbox: its manifest is gone
      10s report web Running, finished: init proxy terminated Error 143, a terminated Error 143, b terminated Error 137"
    `);
  },
);

test("users hear of hooks that fail, and what their commands have printed stays out of the log", async () => {
  const stage = await createStage({ isInCluster: true });
  stage.runtime.commands.set("warm-up", { exitCode: 1, stderr: "password=hunter2" });
  stage.runtime.commands.set("drain", { exitCode: 3, stderr: "password=hunter2" });
  await stage.start();
  await stage.apply("web", hooked({ postStart: running("warm-up"), preStop: running("drain") }));
  await stage.advance("1s");
  const lines = await stage.events("web");
  expect(lines.filter((line) => /Hook|Killing/.test(line)).slice(0, 3)).toEqual([
    "2x Warning FailedPostStartHook: PostStartHook failed",
    "2x Normal Killing: FailedPostStartHook",
    "2x Warning FailedPreStopHook: PreStopHook failed",
  ]);
  const said = stage.story.join("\n");
  expect(said).toContain(
    "failed to run the postStart hook of container a (attempt 0): its command exited with code 1\n",
  );
  expect(said).toContain("the preStop hook has failed: its command exited with code 3\n");
  expect(said).not.toContain("hunter2");
});
