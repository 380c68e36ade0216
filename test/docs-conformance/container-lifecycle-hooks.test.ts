/*
 * https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/
 *
 * Not tested here, since it concerns others:
 *   Hook handler implementations   a command's resources count against its container: the runtime
 *   Hook handler execution         handlers should be light: their authors
 *   Hook delivery guarantees       handlers should tolerate a second call: their authors
 * Every termination takes the same code path, so a preStop hook also runs after preemption and eviction.
 */
import { expect, test } from "bun:test";
import type { Lifecycle, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import type { AgentHarness } from "../scenarios/harness.ts";
import { container, containerOf, describeSection, runPod, runTimedPod, unreadyAtDeadline } from "./pod-case.ts";

const exec = (command: string) => ({ exec: { command: [command] } });
const withHooks = (lifecycle: Lifecycle, more: Partial<PodSpec> = {}): Partial<PodSpec> => ({
  containers: [container("a", { lifecycle })],
  ...more,
});
const commandLasting = (command: string, lastsMs: number) => (harness: AgentHarness) =>
  void harness.runtime.commands.set(command, { lastsMs });
const commandFailing = (command: string) => (harness: AgentHarness) =>
  void harness.runtime.commands.set(command, { exitCode: 1, stderr: "a secret value" });
/** The runtime calls for container `a`: `start`, `exec warm-up`, `stop within 30s`. */
const runtimeCalls = ({ runtime }: AgentHarness) =>
  runtime.calls
    .filter((call) => /^(startContainer|execSync|stopContainer) .*\/a #/.test(call))
    .map((call) => call.replace(/^(start|exec|stop)(?:Container|Sync) .*\/a #\d+:?/, "$1").trim());

describeSection("Container hooks", () => {
  test("PostStart runs right after the start of the container, without parameters", async () => {
    const { harness } = await runPod({ spec: withHooks({ postStart: exec("warm-up") }) });
    expect(runtimeCalls(harness)).toEqual(["start", "exec: warm-up".replace(":", "")]);
  });

  test("the container's process runs while its PostStart hook runs", async () => {
    const { expectTimeline } = await runTimedPod({
      spec: withHooks({ postStart: exec("warm-up") }),
      before: commandLasting("warm-up", 5000),
    });
    await expectTimeline(/ a started/, ["0s a started"]);
  });

  test("PreStop runs before a container is stopped because of a deletion in the API", async () => {
    const { harness } = await runPod({ spec: withHooks({ preStop: exec("drain") }) });
    await harness.deletePod("web");
    await harness.advance("1m");
    expect(runtimeCalls(harness)).toEqual(["start", "exec drain", "stop within 30s"]);
  });

  test.each(["livenessProbe", "startupProbe"] as const)(
    "PreStop runs before a container is stopped because its %s failed",
    async (kind) => {
      const probe = { ...exec("alive"), periodSeconds: 1, failureThreshold: 1 };
      const containers = [container("a", { lifecycle: { preStop: exec("drain") }, [kind]: probe })];
      const { harness } = await runPod({
        spec: { containers, restartPolicy: "Never" },
        before: commandFailing("alive"),
      });
      await harness.advance("5s");
      expect(runtimeCalls(harness).filter((call) => call !== "exec alive")).toEqual([
        "start",
        "exec drain",
        "stop within 30s",
      ]);
    },
  );

  test("PreStop runs before a container is stopped because of activeDeadlineSeconds", async () => {
    const spec = withHooks({ preStop: exec("drain") }, { activeDeadlineSeconds: 10 });
    const { harness } = await runPod({ spec, options: { regressions: unreadyAtDeadline } });
    await harness.advance("1m");
    expect(runtimeCalls(harness)).toEqual(["start", "exec drain", "stop within 30s"]);
  });

  test("PreStop does not run for a container that has already exited", async () => {
    const { harness } = await runPod({ spec: withHooks({ preStop: exec("drain") }, { restartPolicy: "Never" }) });
    await harness.exit("a", 0);
    await harness.deletePod("web");
    await harness.advance("1m");
    expect(runtimeCalls(harness)).toEqual(["start"]);
  });

  test("the PreStop hook completes before the stop signal is sent", async () => {
    const { harness, expectTimeline } = await runTimedPod({
      spec: withHooks({ preStop: exec("drain") }),
      before: commandLasting("drain", 7000),
    });
    await harness.deletePod("web");
    await harness.advance("6s");
    expect(runtimeCalls(harness)).toEqual(["start", "exec drain"]);
    await harness.advance("1s");
    await expectTimeline(/ a stopped/, ["7s a stopped"]);
  });

  test("the grace period starts before the PreStop hook, so the container stops within it", async () => {
    const { harness, expectTimeline } = await runTimedPod({
      spec: withHooks({ preStop: exec("drain") }),
      programs: { a: { onTerm: "ignores" } },
      before: commandLasting("drain", 10_000),
    });
    await harness.deletePod("web", 30);
    await harness.advance("2m");
    expect(runtimeCalls(harness).at(-1)).toBe("stop within 20s");
    await expectTimeline(/ a stopped/, ["30s a stopped"]);
  });
});

describeSection("Hook handler implementations", () => {
  test("Exec runs a command in the container", async () => {
    const { harness } = await runPod({ spec: withHooks({ postStart: exec("warm-up") }) });
    expect(harness.runtime.calls.filter((call) => call.startsWith("execSync"))).toEqual([
      "execSync default/web/a #0: warm-up",
    ]);
  });

  test("HTTP sends a request to the container", async () => {
    // A real server receives the request in real time; without one the test's own timeout ends the wait.
    const { promise: request, resolve } = Promise.withResolvers<string>();
    using server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch({ method, url, headers }) {
        resolve(`${method} ${new URL(url).pathname} ${headers.get("user-agent")?.split("/")[0]}`);
        return new Response("ok");
      },
    });
    const httpGet = { host: "127.0.0.1", port: server.port ?? 0, path: "/begin" };
    await runPod({ spec: withHooks({ postStart: { httpGet } }) });
    expect(await request).toBe("GET /begin kube-lifecycle");
  });

  test("Sleep pauses for its number of seconds", async () => {
    const { harness, expectTimeline } = await runTimedPod({ spec: withHooks({ preStop: { sleep: { seconds: 8 } } }) });
    await harness.deletePod("web");
    await harness.advance("1m");
    await expectTimeline(/ a stopped/, ["8s a stopped"]);
  });
});

describeSection("Hook handler execution", () => {
  test("a container is not Running while its PostStart hook takes long", async () => {
    const { harness } = await runPod({
      spec: withHooks({ postStart: exec("warm-up") }),
      before: commandLasting("warm-up", 60_000),
    });
    await harness.advance("59s");
    expect((await containerOf(harness, "a")).state).toEqual({
      waiting: { reason: "ContainerCreating", message: "its postStart hook has not succeeded yet" },
    });
    await harness.advance("1s");
    expect((await containerOf(harness, "a")).state?.running).toBeDefined();
  });

  test("a container is not Running while its PostStart hook hangs, until the hook fails", async () => {
    const { harness } = await runPod({
      spec: withHooks({ postStart: exec("warm-up") }),
      before: commandLasting("warm-up", 3_600_000),
    });
    await harness.advance("9m");
    expect(await harness.apiPods()).toEqual(["web Pending: a waiting ContainerCreating"]);
    await harness.advance("2m");
    expect(await harness.events("web")).toContain("1x Warning FailedPostStartHook: PostStartHook failed");
  });

  test("a PreStop hook that hangs keeps the pod terminating until the end of its grace period", async () => {
    const { harness } = await runPod({
      spec: withHooks({ preStop: exec("drain") }),
      before: commandLasting("drain", 3_600_000),
    });
    await harness.deletePod("web");
    await harness.advance("29s");
    expect(await harness.apiPods()).toEqual(["web Running, ready: a running"]);
    await harness.advance("3s");
    expect(await harness.apiPods()).toEqual([]);
  });

  test("hook and stop share the grace period: after a hook of 55 of 60 seconds 5 are left for the stop", async () => {
    const { harness, expectTimeline } = await runTimedPod({
      spec: withHooks({ preStop: exec("drain") }, { terminationGracePeriodSeconds: 60 }),
      programs: { a: { onTerm: "ignores" } },
      before: commandLasting("drain", 55_000),
    });
    await harness.deletePod("web", 60);
    await harness.advance("3m");
    expect(runtimeCalls(harness).at(-1)).toBe("stop within 5s");
    await expectTimeline(/ a stopped/, ["60s a stopped"]);
  });

  test("a PostStart hook that fails stops the container", async () => {
    const { harness, expectTimeline } = await runTimedPod({
      spec: withHooks({ postStart: exec("warm-up") }, { restartPolicy: "Never" }),
      before: commandFailing("warm-up"),
    });
    await harness.advance("5s");
    await expectTimeline(/ a (started|stopped)/, ["0s a started", "0s a stopped"]);
  });

  test("a container is stopped also after a PreStop hook that fails", async () => {
    const { harness } = await runPod({ spec: withHooks({ preStop: exec("drain") }), before: commandFailing("drain") });
    await harness.deletePod("web");
    await harness.advance("1m");
    expect(runtimeCalls(harness)).toEqual(["start", "exec drain", "stop within 30s"]);
  });
});

describeSection("Hook delivery guarantees", () => {
  test("a hook is called once", async () => {
    const { harness } = await runPod({ spec: withHooks({ postStart: exec("warm-up"), preStop: exec("drain") }) });
    await harness.advance("60m");
    await harness.deletePod("web");
    await harness.advance("1m");
    expect(runtimeCalls(harness)).toEqual(["start", "exec warm-up", "exec drain", "stop within 30s"]);
  });

  test("a hook that fails is not called again", async () => {
    const { harness } = await runPod({
      spec: withHooks({ preStop: exec("drain") }),
      programs: { a: { onTerm: "ignores" } },
      before: commandFailing("drain"),
    });
    await harness.deletePod("web");
    await harness.advance("1m");
    expect(runtimeCalls(harness).filter((call) => call === "exec drain")).toHaveLength(1);
  });

  test("a hook is called at least once: an agent that restarts during the hook calls it again", async () => {
    const { harness } = await runPod({
      spec: withHooks({ postStart: exec("warm-up") }),
      before: commandLasting("warm-up", 5000),
    });
    await harness.advance("2s");
    harness.kill();
    await harness.start();
    await harness.advance("10s");
    expect(runtimeCalls(harness)).toEqual(["start", "exec warm-up", "exec warm-up"]);
    expect((await containerOf(harness, "a")).restartCount).toBe(0);
  });
});

describeSection("Debugging Hook handlers", () => {
  test("the output of a hook appears in no event", async () => {
    const { harness } = await runPod({
      spec: withHooks({ postStart: exec("warm-up") }),
      before: commandFailing("warm-up"),
    });
    await harness.advance("1m");
    expect((await harness.events("web")).filter((line) => line.includes("a secret value"))).toEqual([]);
  });

  test("a failed PostStart hook causes the event FailedPostStartHook", async () => {
    const { harness } = await runPod({
      spec: withHooks({ postStart: exec("warm-up") }, { restartPolicy: "Never" }),
      before: commandFailing("warm-up"),
    });
    await harness.advance("5s");
    expect(await harness.events("web")).toContain("1x Warning FailedPostStartHook: PostStartHook failed");
  });

  test("a failed PreStop hook causes the event FailedPreStopHook", async () => {
    const { harness } = await runPod({ spec: withHooks({ preStop: exec("drain") }), before: commandFailing("drain") });
    await harness.deletePod("web");
    await harness.advance("1m");
    expect(await harness.events("web")).toContain("1x Warning FailedPreStopHook: PreStopHook failed");
  });
});
