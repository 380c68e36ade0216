/*
 * https://kubernetes.io/docs/concepts/workloads/pods/container-restarts/
 *
 * What it says of others:
 *   How Pods handle problems with containers   what to look into: whoever has written the application
 *   Container restarts and resilience          how to design applications: whoever writes them
 *   Restart behavior comparison                which policies a Deployment and a Job use: their controllers
 *   Individual container restart policy        no rules without a policy: the API server's validation. Containers that run again after
 *   and rules                                  the loss of state: whoever writes the application
 *   Reduced container restart delay            a gate in alpha, off, which this agent does not carry out, and warns of
 * Restart All Containers has a file of its own.
 */
import { describe, expect, test } from "bun:test";
import type { Container, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { container, containerOf, happenings, runPod, sidecar } from "./pod-case.ts";

const crashing = { exitsAfterMs: 0, exitCode: 1 };
const startsOf = (lines: readonly string[]) => lines.map((line) => Number.parseFloat(line));
/** The time between each start of the container and the next. */
const gaps = (starts: readonly number[]) => starts.slice(1).map((start, index) => start - (starts[index] ?? 0));

describe("How Pods handle problems with containers", () => {
  test("after its first crash a container is restarted at once", async () => {
    const { stage } = await runPod();
    await stage.advance("10s");
    await stage.exit("a", 1);
    expect(happenings(stage, / a (started|stopped)/)).toEqual(["0s a started", "10s a stopped", "10s a started"]);
  });

  test("after repeated ones with a delay that grows, which keeps the system from being overloaded", async () => {
    const { stage } = await runPod({ programs: { a: crashing } });
    await stage.advance("60m");
    expect(gaps(startsOf(happenings(stage, /a started/))).slice(0, 5)).toEqual([0, 10, 20, 40, 80]);
    expect(happenings(stage, /a started/).length).toBeLessThan(20);
  });

  test("CrashLoopBackOff says that such a delay lasts, and for how long", async () => {
    const { stage } = await runPod({ programs: { a: crashing } });
    await stage.advance("11s");
    const { waiting } = (await containerOf(stage, "a")).state ?? {};
    expect(waiting?.reason).toBe("CrashLoopBackOff");
    expect(waiting?.message).toMatch(/^back-off 20s restarting failed container=a pod=web_default\(/);
  });

  test("after ten minutes of life a crash counts as the first one", async () => {
    const { stage } = await runPod({ programs: { a: crashing } });
    await stage.advance("60m");
    stage.runtime.programs.delete("a");
    await stage.advance("20m");
    await stage.exit("a", 1);
    expect(happenings(stage, / a (started|stopped)/).slice(-2)).toEqual(["4800s a stopped", "4800s a started"]);
    await stage.advance("1s");
    await stage.exit("a", 1);
    await stage.advance("1m");
    expect(happenings(stage, / a (started|stopped)/).slice(-2)).toEqual(["4801s a stopped", "4811s a started"]);
  });

  test("a crash loop may come of an application that ends", async () => {
    const { stage } = await runPod({ programs: { a: { exitsAfterMs: 1000, exitCode: 0 } } });
    await stage.advance("5s");
    expect(await stage.shown()).toEqual(["web Running: a waiting CrashLoopBackOff (restarts: 1)"]);
  });

  test("of a configuration with which it cannot start", async () => {
    const { stage } = await runPod({ programs: { a: { startError: 'exec: "sh": not found' } } });
    await stage.advance("5s");
    expect(await stage.shown()).toEqual(["web Running: a waiting CrashLoopBackOff (restarts: 1)"]);
    expect((await containerOf(stage, "a")).lastState?.terminated).toMatchObject({
      exitCode: 128,
      reason: "StartError",
    });
  });

  test("of too little memory", async () => {
    const { stage } = await runPod();
    for (let crash = 0; crash < 2; crash++) {
      stage.runtime.exit(stage.idOf("a"), 137, "OOMKilled");
      await stage.advance("1s");
    }
    expect(await stage.shown()).toEqual(["web Running: a waiting CrashLoopBackOff (restarts: 1)"]);
    expect((await containerOf(stage, "a")).lastState?.terminated).toMatchObject({ reason: "OOMKilled" });
  });

  test.each(["livenessProbe", "startupProbe"] as const)("of a %s that fails", async (kind) => {
    const probe = { exec: { command: ["check"] }, failureThreshold: 1, periodSeconds: 5 };
    const { stage } = await runPod({
      spec: { containers: [container("a", { [kind]: probe })] },
      before: ({ runtime }) => void runtime.commands.set("check", { exitCode: 1 }),
    });
    await stage.advance("3s");
    expect(await stage.shown()).toEqual(["web Running: a waiting CrashLoopBackOff (restarts: 1)"]);
  });

  test("its logs and its events tell why", async () => {
    const { stage } = await runPod({ programs: { a: crashing } });
    await stage.advance("5s");
    expect(stage.scene()).toContain("/logs/default_web_UID/a/1.log");
    expect((await stage.events("web")).at(-1)).toMatch(
      /Warning BackOff: Back-off restarting failed container a in pod web_default/,
    );
  });
});

describe("Container restarts", () => {
  test("a container that stops is restarted", async () => {
    const { stage } = await runPod();
    await stage.exit("a", 0);
    await stage.advance("1s");
    expect(await stage.shown()).toEqual(["web Running, ready: a running (restarts: 1)"]);
  });

  test("an init container that has succeeded is not", async () => {
    const { stage } = await runPod({
      spec: { initContainers: [container("i")] },
      programs: { i: { exitsAfterMs: 1000 } },
    });
    await stage.advance("2s");
    await stage.exit("a", 1);
    await stage.advance("60m");
    expect(happenings(stage, / i started/)).toEqual(["0s i started"]);
  });
});

type Policy = NonNullable<PodSpec["restartPolicy"]>;
const policies: readonly Policy[] = ["Always", "OnFailure", "Never"];
const isRestarted = (policy: Policy, exitCode: number) =>
  policy === "Always" || (policy === "OnFailure" && exitCode !== 0);
const cases = policies.flatMap((policy) => [0, 1].map((code) => [policy, code, isRestarted(policy, code)] as const));

describe("Pod-level container restart policy", () => {
  test("a pod without one restarts its containers always", async () => {
    const { stage } = await runPod();
    await stage.exit("a", 0);
    await stage.exit("a", 1);
    await stage.advance("1m");
    expect(await stage.shown()).toEqual(["web Running, ready: a running (restarts: 2)"]);
  });

  test.each(policies)(
    "%s and an init container that fails: restarted unless it is Never, when the pod has failed",
    async (restartPolicy) => {
      const { stage } = await runPod({ spec: { restartPolicy, initContainers: [container("i")] } });
      await stage.exit("i", 1);
      await stage.advance("1m");
      const end =
        restartPolicy === "Never" ? "web Failed: init i terminated Error 1, a waiting PodInitializing" : undefined;
      expect(await stage.shown()).toEqual([
        end ?? "web Pending: init i running (restarts: 1), a waiting PodInitializing",
      ]);
    },
  );

  test("an init container that has succeeded is restarted by none of them", async () => {
    const { stage } = await runPod({ spec: { restartPolicy: "Always", initContainers: [container("i")] } });
    await stage.exit("i", 0);
    await stage.advance("1m");
    expect(await stage.shown()).toEqual(["web Running, ready: init i terminated Completed 0, a running"]);
  });

  test("a container is restarted in the same pod, on the same node", async () => {
    const { stage } = await runPod();
    await stage.exit("a", 1);
    await stage.advance("1m");
    const roles = stage.runtime.timeline.map(({ role }) => role.split("/")[0]);
    expect(new Set(roles).size).toBe(1);
    expect(happenings(stage, /sandbox/)).toEqual(["0s sandbox created", "0s sandbox started"]);
  });

  test("the delay grows from 10 seconds to five minutes", async () => {
    const { stage } = await runPod({ programs: { a: crashing } });
    await stage.advance("60m");
    const delays = gaps(startsOf(happenings(stage, /a started/)));
    expect(delays.slice(0, 9)).toEqual([0, 10, 20, 40, 80, 160, 300, 300, 300]);
  });

  test("a life of ten minutes sets it back", async () => {
    const { stage } = await runPod({ programs: { a: { exitsAfterMs: 601_000, exitCode: 1 } } });
    await stage.advance("60m");
    expect(new Set(gaps(startsOf(happenings(stage, /a started/))))).toEqual(new Set([601]));
  });
});

describe("Restart behavior comparison", () => {
  test.each(cases)(
    "%s and a container that exits with %d: restarted: %p",
    async (restartPolicy, exitCode, restarts) => {
      const { stage } = await runPod({ spec: { restartPolicy, containers: [container("a"), container("b")] } });
      await stage.exit("a", exitCode);
      await stage.advance("1m");
      expect(happenings(stage, / a started/)).toHaveLength(restarts ? 2 : 1);
    },
  );

  test.each(policies.flatMap((policy) => [0, 1].map((code) => [policy, code] as const)))(
    "%s and a sidecar that exits with %d: restarted",
    async (restartPolicy, exitCode) => {
      const { stage } = await runPod({ spec: { restartPolicy, initContainers: [sidecar("s")] } });
      await stage.exit("s", exitCode);
      await stage.advance("1m");
      expect(await stage.shown()).toEqual(["web Running, ready: init s running (restarts: 1), a running"]);
    },
  );
});

describe("Example scenarios", () => {
  test.each([0, 1])("a web server is restarted whatever its exit code: %d", async (exitCode) => {
    const { stage } = await runPod({ spec: { restartPolicy: "Always" } });
    await stage.exit("a", exitCode);
    await stage.advance("1m");
    expect(await stage.shown()).toEqual(["web Running, ready: a running (restarts: 1)"]);
  });

  test("a job that restarts on failure is tried again, and done when it has succeeded", async () => {
    const { stage } = await runPod({ spec: { restartPolicy: "OnFailure" } });
    await stage.exit("a", 1);
    await stage.advance("1m");
    expect(await stage.shown()).toEqual(["web Running, ready: a running (restarts: 1)"]);
    await stage.exit("a", 0);
    await stage.advance("60m");
    expect(await stage.shown()).toEqual(["web Succeeded: a terminated Completed 0 (restarts: 1)"]);
  });

  test("a task for one time that fails stays so", async () => {
    const { stage } = await runPod({ spec: { restartPolicy: "Never" } });
    await stage.exit("a", 1);
    await stage.advance("60m");
    expect(await stage.shown()).toEqual(["web Failed: a terminated Error 1"]);
  });
});

describe("Sidecar containers and restart policies", () => {
  test("a sidecar is restarted beside the application, which runs on, and lives as long as the pod", async () => {
    const { stage } = await runPod({ spec: { initContainers: [sidecar("s")] } });
    await stage.exit("s", 1);
    await stage.advance("1m");
    await stage.remove("web");
    expect(happenings(stage, / [as] (started|stopped)/)).toEqual([
      "0s s started",
      "0s a started",
      "0s s stopped",
      "0s s started",
      "60s a stopped",
      "60s s stopped",
    ]);
  });

  test("beside an application that restarts on failure alone, a sidecar that succeeds is restarted", async () => {
    const { stage } = await runPod({ spec: { restartPolicy: "OnFailure", initContainers: [sidecar("s")] } });
    await stage.exit("s", 0);
    await stage.advance("1m");
    expect(await stage.shown()).toEqual(["web Running, ready: init s running (restarts: 1), a running"]);
    await stage.exit("a", 0);
    await stage.advance("1m");
    expect(await stage.shown()).toEqual([
      "web Succeeded: init s terminated Error 143 (restarts: 1), a terminated Completed 0",
    ]);
  });
});

const once = (name: string) => container(name, { restartPolicy: "Never" });
const rule = (operator: "In" | "NotIn", ...values: readonly number[]) =>
  ({ action: "Restart", exitCodes: { operator, values } }) as const;
const ruled = (restartPolicy: Policy, ...restartPolicyRules: NonNullable<Container["restartPolicyRules"]>) =>
  container("a", { restartPolicy, restartPolicyRules });

describe("Individual container restart policy and rules", () => {
  test.each(cases)(
    "a container's own %s, when it exits with %d: restarted: %p, whatever the pod's",
    async (restartPolicy, exitCode, restarts) => {
      for (const ofPod of policies) {
        const containers = [container("a", { restartPolicy }), container("b")];
        const { stage } = await runPod({ spec: { restartPolicy: ofPod, containers } });
        await stage.exit("a", exitCode);
        await stage.advance("1m");
        expect({ ofPod, starts: happenings(stage, / a started/).length }).toEqual({ ofPod, starts: restarts ? 2 : 1 });
      }
    },
  );

  test("an init container may have its own too", async () => {
    const { stage } = await runPod({
      spec: { restartPolicy: "Never", initContainers: [container("i", { restartPolicy: "OnFailure" })] },
    });
    await stage.exit("i", 1);
    await stage.advance("1s");
    await stage.exit("i", 0);
    await stage.advance("1s");
    expect(await stage.shown()).toEqual(["web Running, ready: init i terminated Completed 0 (restarts: 1), a running"]);
  });

  test("the delays are those of the pod's policy", async () => {
    const spec = { restartPolicy: "Never" as const, containers: [ruled("Never", rule("In", 1)), container("b")] };
    const { stage } = await runPod({ spec, programs: { a: crashing } });
    await stage.advance("60m");
    expect(gaps(startsOf(happenings(stage, /a started/))).slice(0, 8)).toEqual([0, 10, 20, 40, 80, 160, 300, 300]);
  });

  test.each([
    ["In", 42, true],
    ["In", 1, false],
    ["NotIn", 42, false],
    ["NotIn", 1, true],
  ] as const)(
    "a rule for exit codes %s 42, and an exit with %d: restarted: %p",
    async (operator, exitCode, restarts) => {
      const { stage } = await runPod({ spec: { containers: [ruled("Never", rule(operator, 42)), container("b")] } });
      await stage.exit("a", exitCode);
      await stage.advance("1m");
      expect(happenings(stage, / a started/)).toHaveLength(restarts ? 2 : 1);
    },
  );

  test("any of several rules may fit", async () => {
    const { stage } = await runPod({
      spec: { containers: [ruled("Never", rule("In", 7), rule("In", 42)), container("b")] },
    });
    await stage.exit("a", 42);
    await stage.advance("1m");
    expect(happenings(stage, / a started/)).toHaveLength(2);
  });

  test("where none fits the container's policy decides", async () => {
    const { stage } = await runPod({
      spec: { restartPolicy: "Never", containers: [ruled("OnFailure", rule("In", 42)), container("b")] },
    });
    await stage.exit("a", 1);
    await stage.advance("1m");
    expect(happenings(stage, / a started/)).toHaveLength(2);
    await stage.exit("a", 0);
    await stage.advance("30m");
    expect(happenings(stage, / a started/)).toHaveLength(2);
  });

  test("a pod that restarts on failure may have a container that is tried once", async () => {
    const { stage } = await runPod({
      spec: { restartPolicy: "OnFailure", containers: [once("try-once"), container("work")] },
    });
    await stage.exit("try-once", 1);
    await stage.exit("work", 1);
    await stage.advance("1m");
    expect(await stage.shown()).toEqual(["web Running: try-once terminated Error 1, work running (restarts: 1)"]);
  });

  test("a pod that restarts always fails with an init container that is tried once", async () => {
    const { stage } = await runPod({ spec: { restartPolicy: "Always", initContainers: [once("init-once")] } });
    await stage.exit("init-once", 1);
    await stage.advance("1m");
    expect(await stage.shown()).toEqual(["web Failed: init init-once terminated Error 1, a waiting PodInitializing"]);
  });

  test("and is kept running when that has succeeded", async () => {
    const { stage } = await runPod({ spec: { restartPolicy: "Always", initContainers: [once("init-once")] } });
    await stage.exit("init-once", 0);
    await stage.advance("1m");
    await stage.exit("a", 0);
    await stage.advance("1m");
    expect(await stage.shown()).toEqual([
      "web Running, ready: init init-once terminated Completed 0, a running (restarts: 1)",
    ]);
  });

  test.each([
    [42, "web Running, ready: a running (restarts: 1)"],
    [1, "web Failed: a terminated Error 1"],
    [0, "web Succeeded: a terminated Completed 0"],
  ])("a pod that never restarts may do so for one exit code: %d", async (exitCode, end) => {
    const { stage } = await runPod({ spec: { restartPolicy: "Never", containers: [ruled("Never", rule("In", 42))] } });
    await stage.exit("a", exitCode);
    await stage.advance("1m");
    expect(await stage.shown()).toEqual([end]);
  });
});

describe("Configurable container restart delay", () => {
  test.each([
    [100, [0, 10, 20, 40, 80, 100, 100]],
    [2, [0, 2, 2, 2, 2, 2, 2]],
  ])("with a longest delay of %d seconds", async (seconds, delays) => {
    const { stage } = await runPod({
      programs: { a: crashing },
      options: { maxContainerRestartPeriodMs: seconds * 1000 },
    });
    await stage.advance("10m");
    expect(gaps(startsOf(happenings(stage, /a started/))).slice(0, 7)).toEqual(delays);
  });
});
