/*
 * https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/
 *
 * What it says of others:
 *   Hook handler implementations   that a command counts against its container: the runtime, which runs it there
 *   Hook handler execution         that handlers should be light: whoever writes them
 *   Hook delivery guarantees       that a handler should bear to be called twice: whoever writes it
 * That a startup probe's failure, a preemption, and a lack of resources run a preStop hook follows from one road for all: nobody kills.
 */
import { describe, expect, test } from "bun:test";
import type { Lifecycle, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import type { Stage } from "../scenarios/harness.ts";
import { container, containerOf, happenings, runPod } from "./pod-case.ts";

const exec = (command: string) => ({ exec: { command: [command] } });
const hooked = (lifecycle: Lifecycle, more: Partial<PodSpec> = {}): Partial<PodSpec> => ({
  containers: [container("a", { lifecycle })],
  ...more,
});
const lasting = (command: string, lastsMs: number) => (stage: Stage) =>
  void stage.runtime.commands.set(command, { lastsMs });
const failing = (command: string) => (stage: Stage) =>
  void stage.runtime.commands.set(command, { exitCode: 1, stderr: "a secret word" });
/** What was asked of the runtime for container `a`: `start`, `exec warm-up`, `stop within 30s`. */
const asked = ({ runtime }: Stage) =>
  runtime.calls
    .filter((call) => /^(startContainer|execSync|stopContainer) .*\/a #/.test(call))
    .map((call) => call.replace(/^(start|exec|stop)(?:Container|Sync) .*\/a #\d+:?/, "$1").trim());

describe("Container hooks", () => {
  test("PostStart is run as soon as the container was made, and nothing is handed to it", async () => {
    const { stage } = await runPod({ spec: hooked({ postStart: exec("warm-up") }) });
    expect(asked(stage)).toEqual(["start", "exec: warm-up".replace(":", "")]);
  });

  test("the container does not wait for it: its process runs meanwhile", async () => {
    const { stage } = await runPod({ spec: hooked({ postStart: exec("warm-up") }), before: lasting("warm-up", 5000) });
    expect(happenings(stage, / a started/)).toEqual(["0s a started"]);
  });

  test("PreStop is run before a container is ended by a request to the API", async () => {
    const { stage } = await runPod({ spec: hooked({ preStop: exec("drain") }) });
    await stage.remove("web");
    await stage.advance("1m");
    expect(asked(stage)).toEqual(["start", "exec drain", "stop within 30s"]);
  });

  test.each(["livenessProbe", "startupProbe"] as const)(
    "and before it is ended for the failure of its %s",
    async (kind) => {
      const probe = { ...exec("alive"), periodSeconds: 1, failureThreshold: 1 };
      const containers = [container("a", { lifecycle: { preStop: exec("drain") }, [kind]: probe })];
      const { stage } = await runPod({ spec: { containers, restartPolicy: "Never" }, before: failing("alive") });
      await stage.advance("5s");
      expect(asked(stage).filter((call) => call !== "exec alive")).toEqual(["start", "exec drain", "stop within 30s"]);
    },
  );

  test("and before it is ended because the pod has run for longer than it may", async () => {
    const { stage } = await runPod({ spec: hooked({ preStop: exec("drain") }, { activeDeadlineSeconds: 10 }) });
    await stage.advance("1m");
    expect(asked(stage)).toEqual(["start", "exec drain", "stop within 30s"]);
  });

  test("of a container that has ended by itself no hook is run", async () => {
    const { stage } = await runPod({ spec: hooked({ preStop: exec("drain") }, { restartPolicy: "Never" }) });
    await stage.exit("a", 0);
    await stage.remove("web");
    await stage.advance("1m");
    expect(asked(stage)).toEqual(["start"]);
  });

  test("the hook has completed before the signal to stop is sent", async () => {
    const { stage } = await runPod({ spec: hooked({ preStop: exec("drain") }), before: lasting("drain", 7000) });
    await stage.remove("web");
    await stage.advance("6s");
    expect(asked(stage)).toEqual(["start", "exec drain"]);
    await stage.advance("1s");
    expect(happenings(stage, / a stopped/)).toEqual(["7s a stopped"]);
  });

  test("the grace is counted from before the hook: whatever becomes of it, the container ends within the grace", async () => {
    const { stage } = await runPod({
      spec: hooked({ preStop: exec("drain") }),
      programs: { a: { onTerm: "ignores" } },
      before: lasting("drain", 10_000),
    });
    await stage.remove("web", 30);
    await stage.advance("2m");
    expect(asked(stage).at(-1)).toBe("stop within 20s");
    expect(happenings(stage, / a stopped/)).toEqual(["30s a stopped"]);
  });
});

describe("Hook handler implementations", () => {
  test("Exec runs a command in the container", async () => {
    const { stage } = await runPod({ spec: hooked({ postStart: exec("warm-up") }) });
    expect(stage.runtime.calls.filter((call) => call.startsWith("execSync"))).toEqual([
      "execSync default/web/a #0: warm-up",
    ]);
  });

  test("HTTP sends a request to the container", async () => {
    // A real server is asked in its own time: it says itself when, and if it never is, the test's own limit ends the wait.
    const { promise: asked, resolve } = Promise.withResolvers<string>();
    using server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch({ method, url, headers }) {
        resolve(`${method} ${new URL(url).pathname} ${headers.get("user-agent")?.split("/")[0]}`);
        return new Response("ok");
      },
    });
    const httpGet = { host: "127.0.0.1", port: server.port ?? 0, path: "/begin" };
    await runPod({ spec: hooked({ postStart: { httpGet } }) });
    expect(await asked).toBe("GET /begin kube-lifecycle");
  });

  test("Sleep pauses for as long as it says", async () => {
    const { stage } = await runPod({ spec: hooked({ preStop: { sleep: { seconds: 8 } } }) });
    await stage.remove("web");
    await stage.advance("1m");
    expect(happenings(stage, / a stopped/)).toEqual(["8s a stopped"]);
  });
});

describe("Hook handler execution", () => {
  test("a PostStart hook that takes long keeps the container from running", async () => {
    const { stage } = await runPod({
      spec: hooked({ postStart: exec("warm-up") }),
      before: lasting("warm-up", 60_000),
    });
    await stage.advance("59s");
    expect((await containerOf(stage, "a")).state).toEqual({
      waiting: { reason: "ContainerCreating", message: "its postStart hook has not succeeded yet" },
    });
    await stage.advance("1s");
    expect((await containerOf(stage, "a")).state?.running).toBeDefined();
  });

  test("one that hangs does too, until it counts as failed", async () => {
    const { stage } = await runPod({
      spec: hooked({ postStart: exec("warm-up") }),
      before: lasting("warm-up", 3_600_000),
    });
    await stage.advance("9m");
    expect(await stage.shown()).toEqual(["web Pending: a waiting ContainerCreating"]);
    await stage.advance("2m");
    expect(await stage.events("web")).toContain("1x Warning FailedPostStartHook: PostStartHook failed");
  });

  test("a PreStop hook that hangs keeps the pod terminating, until it is killed when its grace is over", async () => {
    const { stage } = await runPod({ spec: hooked({ preStop: exec("drain") }), before: lasting("drain", 3_600_000) });
    await stage.remove("web");
    await stage.advance("29s");
    expect(await stage.shown()).toEqual(["web Running, ready: a running"]);
    await stage.advance("3s");
    expect(await stage.shown()).toEqual([]);
  });

  test("the grace is for the hook and the end together: of 60 seconds a hook of 55 leaves 5", async () => {
    const { stage } = await runPod({
      spec: hooked({ preStop: exec("drain") }, { terminationGracePeriodSeconds: 60 }),
      programs: { a: { onTerm: "ignores" } },
      before: lasting("drain", 55_000),
    });
    await stage.remove("web", 60);
    await stage.advance("3m");
    expect(asked(stage).at(-1)).toBe("stop within 5s");
    expect(happenings(stage, / a stopped/)).toEqual(["60s a stopped"]);
  });

  test("a PostStart hook that fails ends the container", async () => {
    const { stage } = await runPod({
      spec: hooked({ postStart: exec("warm-up") }, { restartPolicy: "Never" }),
      before: failing("warm-up"),
    });
    await stage.advance("5s");
    expect(happenings(stage, / a (started|stopped)/)).toEqual(["0s a started", "0s a stopped"]);
  });

  test("so does a PreStop hook, as one that succeeds", async () => {
    const { stage } = await runPod({ spec: hooked({ preStop: exec("drain") }), before: failing("drain") });
    await stage.remove("web");
    await stage.advance("1m");
    expect(asked(stage)).toEqual(["start", "exec drain", "stop within 30s"]);
  });
});

describe("Hook delivery guarantees", () => {
  test("a hook is called once", async () => {
    const { stage } = await runPod({ spec: hooked({ postStart: exec("warm-up"), preStop: exec("drain") }) });
    await stage.advance("60m");
    await stage.remove("web");
    await stage.advance("1m");
    expect(asked(stage)).toEqual(["start", "exec warm-up", "exec drain", "stop within 30s"]);
  });

  test("one that could not be delivered is not sent again", async () => {
    const { stage } = await runPod({
      spec: hooked({ preStop: exec("drain") }),
      programs: { a: { onTerm: "ignores" } },
      before: failing("drain"),
    });
    await stage.remove("web");
    await stage.advance("1m");
    expect(asked(stage).filter((call) => call === "exec drain")).toHaveLength(1);
  });

  test("it is called at least once: an agent that is restarted in its midst calls it again", async () => {
    const { stage } = await runPod({ spec: hooked({ postStart: exec("warm-up") }), before: lasting("warm-up", 5000) });
    await stage.advance("2s");
    stage.kill();
    await stage.start();
    await stage.advance("10s");
    expect(asked(stage)).toEqual(["start", "exec warm-up", "exec warm-up"]);
    expect((await containerOf(stage, "a")).restartCount).toBe(0);
  });
});

describe("Debugging Hook handlers", () => {
  test("what a hook has said is in no event", async () => {
    const { stage } = await runPod({ spec: hooked({ postStart: exec("warm-up") }), before: failing("warm-up") });
    await stage.advance("1m");
    expect((await stage.events("web")).filter((line) => line.includes("a secret word"))).toEqual([]);
  });

  test("the failure of PostStart is an event", async () => {
    const { stage } = await runPod({
      spec: hooked({ postStart: exec("warm-up") }, { restartPolicy: "Never" }),
      before: failing("warm-up"),
    });
    await stage.advance("5s");
    expect(await stage.events("web")).toContain("1x Warning FailedPostStartHook: PostStartHook failed");
  });

  test("so is that of PreStop", async () => {
    const { stage } = await runPod({ spec: hooked({ preStop: exec("drain") }), before: failing("drain") });
    await stage.remove("web");
    await stage.advance("1m");
    expect(await stage.events("web")).toContain("1x Warning FailedPreStopHook: PreStopHook failed");
  });
});
