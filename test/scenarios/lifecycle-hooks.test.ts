import { expect, test } from "bun:test";
import { pods } from "../../kube/resource.ts";
import type { Lifecycle, LifecycleHandler } from "../../proto/kubernetes/gen/types.ts";
import { createHarness, makePod } from "./harness.ts";
import { filterLines, scenario } from "./scenario.ts";

const execHook = (command: string) => ({ exec: { command: [command] } });
const withHooks = (lifecycle: Lifecycle) => ({
  containers: [
    { name: "a", image: "busybox:1", lifecycle },
    { name: "b", image: "busybox:1" },
  ],
});
const relevantLines = /: (create container|start|stop|run the|remove|failed)|report/;

scenario(
  "the next container waits for the postStart hook of the one before",
  {
    before: (harness) => void harness.runtime.commands.set("warm-up", { lastsMs: 5000 }),
    async run(harness) {
      await harness.setManifests(makePod("web", withHooks({ postStart: execHook("warm-up") })));
      await harness.advance("10s");
    },
  },
  (log) => {
    expect(filterLines(log, relevantLines)).toMatchInlineSnapshot(`
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
  "a container whose postStart hook fails is stopped and restarted with back-off",
  {
    before: (harness) => void harness.runtime.commands.set("warm-up", { exitCode: 1, stderr: "too cold" }),
    async run(harness) {
      await harness.setManifests(makePod("web", withHooks({ postStart: execHook("warm-up") })));
      await harness.advance("5s");
      harness.runtime.commands.set("warm-up", {});
      await harness.advance("20s");
    },
  },
  (log) => {
    expect(filterLines(log, relevantLines)).toMatchInlineSnapshot(`
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
      0s web: create container b (attempt 0): it has not run yet
      0s web: remove container a: a newer instance has ended too
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

test("the error of a postStart hook is shown for the first half of the following back-off", async () => {
  // A short lag, since the error is shown for five seconds.
  const harness = await createHarness({ isInCluster: true, hasShortLag: true });
  harness.runtime.commands.set("warm up", { exitCode: 1, stdout: "trying\n", stderr: "too cold\n" });
  await harness.start();
  const lifecycle = { postStart: { exec: { command: ["warm", "up"] } } };
  await harness.apply("web", {
    containers: [{ name: "a", image: "busybox:1", imagePullPolicy: "IfNotPresent", lifecycle }],
  });
  await harness.advance("4s");
  const shown = async () => (await harness.kube.user.get(pods("default"), "web")).status?.containerStatuses?.[0];
  const { uid } = (await harness.kube.user.get(pods("default"), "web")).metadata;
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
  await harness.advance("2s");
  expect(await shown()).toMatchObject({ state: { waiting: { reason: "CrashLoopBackOff" } } });
  await harness.advance("5s");
  expect(await shown()).toMatchObject({ state: { waiting: { reason: "PostStartHookError" } }, restartCount: 2 });
});

scenario(
  "a preStop hook and the following stop share one grace period",
  {
    before(harness) {
      harness.runtime.commands.set("drain", { lastsMs: 4000 });
      harness.runtime.programs.set("a", { onTerm: "ignores" });
    },
    async run(harness) {
      const spec = { terminationGracePeriodSeconds: 10, ...withHooks({ preStop: execHook("drain") }) };
      await harness.setManifests(makePod("web", spec));
      await harness.setManifests();
      await harness.advance("20s");
    },
  },
  (log) => {
    expect(filterLines(log, /stop|terminating|finished/)).toMatchInlineSnapshot(`
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

/** Restarts the agent `atSeconds` after the start of a hook of four seconds, and returns how often the hook has run. */
async function hookRunsWithRestart(atSeconds: number, preStop: LifecycleHandler): Promise<number> {
  // A short lag, since the agent dies at an exact time of the hook.
  const harness = await createHarness({ hasShortLag: true });
  harness.runtime.commands.set("drain", { lastsMs: 4000 });
  harness.runtime.programs.set("a", { onTerm: "ignores" });
  await harness.start();
  await harness.setManifests(makePod("web", { terminationGracePeriodSeconds: 10, ...withHooks({ preStop }) }));
  await harness.setManifests();
  await harness.advance(`${atSeconds}s`);
  harness.kill();
  await harness.start();
  await harness.advance("20s");
  expect(harness.podReports()).toEqual([]);
  return harness.runtime.calls.filter((call) => call.startsWith("execSync")).length;
}

test("a preStop hook that has ended does not run again after a restart of the agent", async () => {
  expect(await hookRunsWithRestart(6, execHook("drain"))).toBe(1);
});

test("a preStop hook whose command the runtime has killed with the agent runs again", async () => {
  expect(await hookRunsWithRestart(2, execHook("drain"))).toBe(2);
});

test("a preStop hook that starts while the termination is still being written to disk runs once", async () => {
  const harness = await createHarness();
  harness.runtime.commands.set("drain", { lastsMs: 4000 });
  await harness.start();
  await harness.setManifests(makePod("web", withHooks({ preStop: execHook("drain") })));
  const written = Promise.withResolvers<void>();
  harness.disk.after = (verb, path) =>
    verb === "write" && path.startsWith("/root/berth") ? written.promise : undefined;
  await harness.setManifests();
  await harness.exit("b", 0);
  written.resolve();
  await harness.advance("20s");
  expect(harness.runtime.calls.filter((call) => call.startsWith("execSync"))).toHaveLength(1);
  expect(harness.runtime.cancelledCalls).toEqual([]);
  expect(harness.podReports()).toEqual([]);
});

scenario(
  "a preStop hook that hangs is abandoned at the end of the grace period",
  {
    before: (harness) => void harness.runtime.commands.set("drain", { lastsMs: 1_000_000 }),
    async run(harness) {
      const spec = { terminationGracePeriodSeconds: 5, ...withHooks({ preStop: execHook("drain") }) };
      await harness.setManifests(makePod("web", spec));
      await harness.setManifests();
      await harness.advance("20s");
    },
  },
  (log) => {
    expect(filterLines(log, /stop|terminating|finished/)).toMatchInlineSnapshot(`
      "0s report web Running, ready, terminating: a running, b running
      0s web: stop container b within 5s: its manifest is gone
      0s report web Running, terminating: a running, b terminated Error 143
      5s report web Running, terminating: a terminated Error 143, b terminated Error 143
      5s web: stop container a, its preStop hook first, within 5s: its manifest is gone
      5s web: stop sandbox: its manifest is gone
      5s report web Running, finished: a terminated Error 143, b terminated Error 143"
    `);
  },
);

scenario(
  "a preStop hook whose ExecSync call never returns is abandoned at the end of the grace period",
  {
    before: (harness) => void harness.runtime.hang("execSync"),
    async run(harness) {
      const spec = { terminationGracePeriodSeconds: 5, ...withHooks({ preStop: execHook("drain") }) };
      await harness.setManifests(makePod("web", spec));
      await harness.setManifests();
      await harness.advance("20s");
    },
  },
  (log) => {
    expect(filterLines(log, /stop|terminating|finished/)).toMatchInlineSnapshot(`
      "0s report web Running, ready, terminating: a running, b running
      0s web: stop container b within 5s: its manifest is gone
      0s report web Running, terminating: a running, b terminated Error 143
      5s report web Running, terminating: a terminated Error 143, b terminated Error 143
      5s web: stop container a, its preStop hook first, within 5s: its manifest is gone
      5s web: stop sandbox: its manifest is gone
      5s report web Running, finished: a terminated Error 143, b terminated Error 143"
    `);
  },
);

scenario(
  "a preStop sleep hook delays the stop",
  {
    async run(harness) {
      await harness.setManifests(makePod("web", withHooks({ preStop: { sleep: { seconds: 3 } } })));
      await harness.setManifests();
      await harness.advance("20s");
    },
  },
  (log) => {
    expect(filterLines(log, /stop|terminating|finished/)).toMatchInlineSnapshot(`
      "0s report web Running, ready, terminating: a running, b running
      0s web: stop container b within 30s: its manifest is gone
      0s report web Running, terminating: a running, b terminated Error 143
      3s report web Running, terminating: a terminated Error 143, b terminated Error 143
      3s web: stop container a, its preStop hook first, within 30s: its manifest is gone
      3s web: stop sandbox: its manifest is gone
      3s report web Running, finished: a terminated Error 143, b terminated Error 143"
    `);
  },
);

scenario(
  "exits of other containers are reported while a preStop hook runs",
  {
    before(harness) {
      harness.runtime.commands.set("drain", { lastsMs: 8000 });
      harness.runtime.programs.set("b", { onTerm: "ignores" });
    },
    async run(harness) {
      await harness.setManifests(
        makePod("web", { terminationGracePeriodSeconds: 30, ...withHooks({ preStop: execHook("drain") }) }),
      );
      await harness.setManifests();
      await harness.advance("3s");
      await harness.exit("b", 7);
      await harness.advance("20s");
    },
  },
  (log) => {
    expect(filterLines(log, /stop|terminating|finished/)).toMatchInlineSnapshot(`
      "0s report web Running, ready, terminating: a running, b running
      3s web: stop container b within 30s: its manifest is gone
      3s report web Running, terminating: a running, b terminated Error 7
      8s report web Running, terminating: a terminated Error 143, b terminated Error 7
      8s web: stop container a, its preStop hook first, within 30s: its manifest is gone
      8s web: stop sandbox: its manifest is gone
      8s report web Running, finished: a terminated Error 143, b terminated Error 7"
    `);
  },
);

scenario(
  "a change of the pod's labels does not interrupt a preStop hook",
  {
    options: { isInCluster: true },
    before: (harness) => void harness.runtime.commands.set("drain", { lastsMs: 8000 }),
    async run(harness) {
      await harness.apply("web", { ...withHooks({ preStop: execHook("drain") }), terminationGracePeriodSeconds: 30 });
      await harness.advance("1s");
      await harness.deletePod("web");
      await harness.advance("3s");
      await harness.kube.user.patch(pods("default"), "web", {
        type: "merge",
        body: { metadata: { labels: { tier: "front" } } },
      });
      await harness.advance("20s");
    },
  },
  (log) => {
    expect(filterLines(log, /stop container/)).toMatchInlineSnapshot(`
      "1s default/web: stop container b within 30s: it was deleted
      9s default/web: stop container a, its preStop hook first, within 30s: it was deleted"
    `);
  },
);

scenario(
  "the termination of a pod does not wait for a postStart hook that hangs",
  {
    before: (harness) => void harness.runtime.commands.set("warm-up", { lastsMs: 1_000_000 }),
    async run(harness) {
      await harness.setManifests(makePod("web", withHooks({ postStart: execHook("warm-up") })));
      await harness.advance("5s");
      await harness.setManifests();
      await harness.advance("60s");
    },
  },
  (log) => {
    expect(filterLines(log, relevantLines)).toMatchInlineSnapshot(`
      "0s report web Pending: a waiting ContainerCreating, b waiting ContainerCreating
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      5s report web Pending, terminating: a waiting ContainerCreating, b waiting ContainerCreating
      5s web: stop container a within 30s: its manifest is gone
      5s report web Pending, terminating: a terminated Error 143, b terminated ContainerStatusUnknown 137
      5s web: stop sandbox: its manifest is gone
      5s web: remove sandbox: its manifest is gone
      5s web: remove the pod's logs: its manifest is gone
      5s web: remove the pod's files: its manifest is gone
      5s report web Pending, finished: a terminated Error 143, b terminated ContainerStatusUnknown 137"
    `);
  },
);

scenario(
  "the preStop hook of a sidecar starts with those of the containers, and its stop waits for them",
  {
    before(harness) {
      harness.runtime.commands.set("drain", { lastsMs: 4000 });
      harness.runtime.programs.set("b", { onTerm: "ignores" });
    },
    async run(harness) {
      const lifecycle = { preStop: execHook("drain") };
      const initContainers = [{ name: "proxy", image: "busybox:1", restartPolicy: "Always" as const, lifecycle }];
      await harness.setManifests(
        makePod("web", { terminationGracePeriodSeconds: 10, initContainers, ...withHooks(lifecycle) }),
      );
      await harness.setManifests();
      await harness.advance("20s");
    },
  },
  (log) => {
    expect(filterLines(log, /stop|terminating|finished/i)).toMatchInlineSnapshot(`
      "0s report web Running, ready, terminating: init proxy running, a running, b running
      4s web: run the preStop hook of container proxy within 10s: its manifest is gone
      4s report web Running, terminating: init proxy running, a terminated Error 143, b running
      4s web: stop container a, its preStop hook first, within 10s: its manifest is gone
      10s web: stop container b within 10s: its manifest is gone
      10s report web Running, terminating: init proxy terminated Error 143, a terminated Error 143, b terminated Error 137
      10s web: stop container proxy within 2s: its manifest is gone
      10s web: stop sandbox: its manifest is gone
      10s report web Running, finished: init proxy terminated Error 143, a terminated Error 143, b terminated Error 137"
    `);
  },
);

test("failed hooks cause events, and the output of their commands does not appear in the log", async () => {
  const harness = await createHarness({ isInCluster: true });
  harness.runtime.commands.set("warm-up", { exitCode: 1, stderr: "password=hunter2" });
  harness.runtime.commands.set("drain", { exitCode: 3, stderr: "password=hunter2" });
  await harness.start();
  await harness.apply("web", withHooks({ postStart: execHook("warm-up"), preStop: execHook("drain") }));
  await harness.advance("1s");
  const lines = await harness.events("web");
  expect(lines.filter((line) => /Hook|Killing/.test(line)).slice(0, 3)).toEqual([
    "2x Warning FailedPostStartHook: PostStartHook failed",
    "2x Normal Killing: FailedPostStartHook",
    "2x Warning FailedPreStopHook: PreStopHook failed",
  ]);
  const logText = harness.log.join("\n");
  expect(logText).toContain(
    "failed to run the postStart hook of container a (attempt 0): its command exited with code 1\n",
  );
  expect(logText).toContain("the preStop hook has failed: its command exited with code 3\n");
  expect(logText).not.toContain("hunter2");
});
