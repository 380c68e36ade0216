/*
 * https://kubernetes.io/docs/concepts/workloads/pods/container-restarts/
 *
 * Not tested here, since it concerns others:
 *   How Pods handle problems with containers   what to investigate: the application's authors
 *   Container restarts and resilience          how to design applications: their authors
 *   Restart behavior comparison                the policies that a Deployment and a Job use: their controllers
 *   Individual container restart policy        no rules without a policy: the API server's validation. Containers that
 *   and rules                                  run again after a loss of state: the application's authors
 *   Reduced container restart delay            an alpha gate, off, which this agent does not implement and warns about
 * "Restart All Containers" is tested in restart-all-containers.test.ts.
 */
import { expect, test } from "bun:test";
import type { Container, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import {
  container,
  containerOf,
  describeSection,
  formatTimeline,
  runPod,
  runTimedPod,
  shortExitLag,
  sidecar,
} from "./pod-case.ts";

const crashing = { exitsAfterMs: 0, exitCode: 1 };
const startTimes = (lines: readonly string[]) => lines.map((line) => Number.parseFloat(line));
/** The seconds between consecutive starts. */
const gaps = (starts: readonly number[]) => starts.slice(1).map((start, index) => start - (starts[index] ?? 0));

describeSection("How Pods handle problems with containers", () => {
  test("a container is restarted at once after its first crash", async () => {
    const { harness, expectTimeline } = await runTimedPod();
    await harness.advance("10s");
    await harness.exit("a", 1);
    await expectTimeline(/ a (started|stopped)/, ["0s a started", "10s a stopped", "10s a started"]);
  });

  test("a container is restarted with growing delays after repeated crashes", async () => {
    const { harness } = await runPod({ programs: { a: crashing }, options: shortExitLag });
    await harness.advance("60m");
    expect(gaps(startTimes(formatTimeline(harness, /a started/))).slice(0, 5)).toEqual([0, 10, 20, 40, 80]);
    expect(formatTimeline(harness, /a started/).length).toBeLessThan(20);
  });

  test("CrashLoopBackOff shows the back-off and its duration", async () => {
    const { harness } = await runPod({ programs: { a: crashing } });
    await harness.advance("11s");
    const { waiting } = (await containerOf(harness, "a")).state ?? {};
    expect(waiting?.reason).toBe("CrashLoopBackOff");
    expect(waiting?.message).toMatch(/^back-off 20s restarting failed container=a pod=web_default\(/);
  });

  test("a crash after ten minutes of running counts as the first one", async () => {
    const { harness, expectTimeline } = await runTimedPod({ programs: { a: crashing }, options: shortExitLag });
    await harness.advance("60m");
    harness.runtime.programs.delete("a");
    await harness.advance("20m");
    await harness.exit("a", 1);
    await expectTimeline(/ a (started|stopped)/, ["4800s a stopped", "4800s a started"], { from: -2 });
    await harness.advance("1s");
    await harness.exit("a", 1);
    await harness.advance("1m");
    await expectTimeline(/ a (started|stopped)/, ["4801s a stopped", "4811s a started"], { from: -2 });
  });

  test("an application that exits with 0 can cause a crash loop", async () => {
    const { harness } = await runPod({ programs: { a: { exitsAfterMs: 1000, exitCode: 0 } } });
    await harness.advance("5s");
    expect(await harness.apiPods()).toEqual(["web Running: a waiting CrashLoopBackOff (restarts: 1)"]);
  });

  test("a container that cannot start causes a crash loop", async () => {
    const { harness } = await runPod({ programs: { a: { startError: 'exec: "sh": not found' } } });
    await harness.advance("5s");
    expect(await harness.apiPods()).toEqual(["web Running: a waiting CrashLoopBackOff (restarts: 1)"]);
    expect((await containerOf(harness, "a")).lastState?.terminated).toMatchObject({
      exitCode: 128,
      reason: "StartError",
    });
  });

  test("a container that is OOM-killed causes a crash loop", async () => {
    const { harness } = await runPod();
    for (let crash = 0; crash < 2; crash++) {
      harness.runtime.exit(harness.containerIdOf("a"), 137, "OOMKilled");
      await harness.advance("1s");
    }
    expect(await harness.apiPods()).toEqual(["web Running: a waiting CrashLoopBackOff (restarts: 1)"]);
    expect((await containerOf(harness, "a")).lastState?.terminated).toMatchObject({ reason: "OOMKilled" });
  });

  test.each(["livenessProbe", "startupProbe"] as const)("a failing %s causes a crash loop", async (kind) => {
    const probe = { exec: { command: ["check"] }, failureThreshold: 1, periodSeconds: 5 };
    const { harness } = await runPod({
      spec: { containers: [container("a", { [kind]: probe })] },
      before: ({ runtime }) => void runtime.commands.set("check", { exitCode: 1 }),
    });
    // The second instance fails five seconds after its start, too.
    await harness.advance("11s");
    expect(await harness.apiPods()).toEqual(["web Running: a waiting CrashLoopBackOff (restarts: 1)"]);
  });

  test("the previous log is kept and an event reports the back-off", async () => {
    const { harness } = await runPod({ programs: { a: crashing } });
    await harness.advance("5s");
    expect(harness.nodeSnapshot()).toContain("/logs/default_web_UID/a/1.log");
    expect((await harness.events("web")).at(-1)).toMatch(
      /Warning BackOff: Back-off restarting failed container a in pod web_default/,
    );
  });
});

describeSection("Container restarts", () => {
  test("a container that exits is restarted", async () => {
    const { harness } = await runPod();
    await harness.exit("a", 0);
    await harness.advance("1s");
    expect(await harness.apiPods()).toEqual(["web Running, ready: a running (restarts: 1)"]);
  });

  test("an init container that has succeeded is not restarted with the containers", async () => {
    const { harness, expectTimeline } = await runTimedPod({
      spec: { initContainers: [container("i")] },
      programs: { i: { exitsAfterMs: 1000 } },
    });
    await harness.advance("2s");
    await harness.exit("a", 1);
    await harness.advance("60m");
    await expectTimeline(/ i started/, ["0s i started"]);
  });
});

type Policy = NonNullable<PodSpec["restartPolicy"]>;
const policies: readonly Policy[] = ["Always", "OnFailure", "Never"];
const isRestarted = (policy: Policy, exitCode: number) =>
  policy === "Always" || (policy === "OnFailure" && exitCode !== 0);
const cases = policies.flatMap((policy) => [0, 1].map((code) => [policy, code, isRestarted(policy, code)] as const));

describeSection("Pod-level container restart policy", () => {
  test("a pod without a restartPolicy always restarts its containers", async () => {
    const { harness } = await runPod();
    await harness.exit("a", 0);
    await harness.showExits();
    await harness.exit("a", 1);
    await harness.advance("1m");
    expect(await harness.apiPods()).toEqual(["web Running, ready: a running (restarts: 2)"]);
  });

  test.each(policies)(
    "with %s a failed init container is restarted, or with Never fails the pod",
    async (restartPolicy) => {
      const { harness } = await runPod({ spec: { restartPolicy, initContainers: [container("i")] } });
      await harness.exit("i", 1);
      await harness.advance("1m");
      const end =
        restartPolicy === "Never" ? "web Failed: init i terminated Error 1, a waiting PodInitializing" : undefined;
      expect(await harness.apiPods()).toEqual([
        end ?? "web Pending: init i running (restarts: 1), a waiting PodInitializing",
      ]);
    },
  );

  test("with Always an init container that has succeeded is not restarted", async () => {
    const { harness } = await runPod({ spec: { restartPolicy: "Always", initContainers: [container("i")] } });
    await harness.exit("i", 0);
    await harness.advance("1m");
    expect(await harness.apiPods()).toEqual(["web Running, ready: init i terminated Completed 0, a running"]);
  });

  test("a container is restarted in the same pod, on the same node", async () => {
    const { harness, expectTimeline } = await runTimedPod();
    await harness.exit("a", 1);
    await harness.advance("1m");
    const roles = harness.runtime.timeline.map(({ role }) => role.split("/")[0]);
    expect(new Set(roles).size).toBe(1);
    await expectTimeline(/sandbox/, ["0s sandbox created", "0s sandbox started"]);
  });

  test("the restart delay grows from 10 seconds to five minutes", async () => {
    const { harness } = await runPod({ programs: { a: crashing }, options: shortExitLag });
    await harness.advance("60m");
    const delays = gaps(startTimes(formatTimeline(harness, /a started/)));
    expect(delays.slice(0, 9)).toEqual([0, 10, 20, 40, 80, 160, 300, 300, 300]);
  });

  test("ten minutes of running reset the restart delay", async () => {
    const { harness } = await runPod({
      programs: { a: { exitsAfterMs: 601_000, exitCode: 1 } },
      options: shortExitLag,
    });
    await harness.advance("60m");
    expect(new Set(gaps(startTimes(formatTimeline(harness, /a started/))))).toEqual(new Set([601]));
  });
});

describeSection("Restart behavior comparison", () => {
  test.each(cases)(
    "with %s a container that exits with %d is restarted: %p",
    async (restartPolicy, exitCode, restarts) => {
      const { harness } = await runPod({ spec: { restartPolicy, containers: [container("a"), container("b")] } });
      await harness.exit("a", exitCode);
      await harness.advance("1m");
      expect(formatTimeline(harness, / a started/)).toHaveLength(restarts ? 2 : 1);
    },
  );

  test.each(policies.flatMap((policy) => [0, 1].map((code) => [policy, code] as const)))(
    "with %s a sidecar that exits with %d is restarted",
    async (restartPolicy, exitCode) => {
      const { harness } = await runPod({ spec: { restartPolicy, initContainers: [sidecar("s")] } });
      await harness.exit("s", exitCode);
      await harness.advance("1m");
      expect(await harness.apiPods()).toEqual(["web Running, ready: init s running (restarts: 1), a running"]);
    },
  );
});

describeSection("Example scenarios", () => {
  test.each([0, 1])("a web server with Always is restarted after exit code %d", async (exitCode) => {
    const { harness } = await runPod({ spec: { restartPolicy: "Always" } });
    await harness.exit("a", exitCode);
    await harness.advance("1m");
    expect(await harness.apiPods()).toEqual(["web Running, ready: a running (restarts: 1)"]);
  });

  test("a job with OnFailure is restarted after a failure and completes after a success", async () => {
    const { harness } = await runPod({ spec: { restartPolicy: "OnFailure" } });
    await harness.exit("a", 1);
    await harness.advance("1m");
    expect(await harness.apiPods()).toEqual(["web Running, ready: a running (restarts: 1)"]);
    await harness.exit("a", 0);
    await harness.advance("60m");
    expect(await harness.apiPods()).toEqual(["web Succeeded: a terminated Completed 0 (restarts: 1)"]);
  });

  test("a one-time task with Never stays Failed", async () => {
    const { harness } = await runPod({ spec: { restartPolicy: "Never" } });
    await harness.exit("a", 1);
    await harness.advance("60m");
    expect(await harness.apiPods()).toEqual(["web Failed: a terminated Error 1"]);
  });
});

describeSection("Sidecar containers and restart policies", () => {
  test("a sidecar is restarted without the application and runs as long as the pod", async () => {
    const { harness, expectTimeline } = await runTimedPod({ spec: { initContainers: [sidecar("s")] } });
    await harness.exit("s", 1);
    await harness.advance("1m");
    await harness.deletePod("web");
    await expectTimeline(/ [as] (started|stopped)/, [
      "0s s started",
      "0s a started",
      "0s s stopped",
      "0s s started",
      "60s a stopped",
      "60s s stopped",
    ]);
  });

  test("with the pod's policy OnFailure a sidecar that succeeds is still restarted", async () => {
    const { harness } = await runPod({ spec: { restartPolicy: "OnFailure", initContainers: [sidecar("s")] } });
    await harness.exit("s", 0);
    await harness.advance("1m");
    expect(await harness.apiPods()).toEqual(["web Running, ready: init s running (restarts: 1), a running"]);
    await harness.exit("a", 0);
    await harness.advance("1m");
    expect(await harness.apiPods()).toEqual([
      "web Succeeded: init s terminated Error 143 (restarts: 1), a terminated Completed 0",
    ]);
  });
});

const neverRestarted = (name: string) => container(name, { restartPolicy: "Never" });
const rule = (operator: "In" | "NotIn", ...values: readonly number[]) =>
  ({ action: "Restart", exitCodes: { operator, values } }) as const;
const withRules = (restartPolicy: Policy, ...restartPolicyRules: NonNullable<Container["restartPolicyRules"]>) =>
  container("a", { restartPolicy, restartPolicyRules });

describeSection("Individual container restart policy and rules", () => {
  test.each(cases)(
    "with its own policy %s a container that exits with %d is restarted: %p, with any policy of the pod",
    async (restartPolicy, exitCode, restarts) => {
      for (const ofPod of policies) {
        const containers = [container("a", { restartPolicy }), container("b")];
        const { harness } = await runPod({ spec: { restartPolicy: ofPod, containers } });
        await harness.exit("a", exitCode);
        await harness.advance("1m");
        expect({ ofPod, starts: formatTimeline(harness, / a started/).length }).toEqual({
          ofPod,
          starts: restarts ? 2 : 1,
        });
      }
    },
  );

  test("an init container can have its own restartPolicy", async () => {
    const { harness } = await runPod({
      spec: { restartPolicy: "Never", initContainers: [container("i", { restartPolicy: "OnFailure" })] },
    });
    await harness.exit("i", 1);
    await harness.advance("1s");
    await harness.exit("i", 0);
    await harness.advance("1s");
    expect(await harness.apiPods()).toEqual([
      "web Running, ready: init i terminated Completed 0 (restarts: 1), a running",
    ]);
  });

  test("restarts by a rule use the same back-off as those by the pod's policy", async () => {
    const spec = { restartPolicy: "Never" as const, containers: [withRules("Never", rule("In", 1)), container("b")] };
    const { harness } = await runPod({ spec, programs: { a: crashing }, options: shortExitLag });
    await harness.advance("60m");
    expect(gaps(startTimes(formatTimeline(harness, /a started/))).slice(0, 8)).toEqual([
      0, 10, 20, 40, 80, 160, 300, 300,
    ]);
  });

  test.each([
    ["In", 42, true],
    ["In", 1, false],
    ["NotIn", 42, false],
    ["NotIn", 1, true],
  ] as const)(
    "with a rule for exit codes %s 42 a container that exits with %d is restarted: %p",
    async (operator, exitCode, restarts) => {
      const { harness } = await runPod({
        spec: { containers: [withRules("Never", rule(operator, 42)), container("b")] },
      });
      await harness.exit("a", exitCode);
      await harness.advance("1m");
      expect(formatTimeline(harness, / a started/)).toHaveLength(restarts ? 2 : 1);
    },
  );

  test("one matching rule of several restarts the container", async () => {
    const { harness } = await runPod({
      spec: { containers: [withRules("Never", rule("In", 7), rule("In", 42)), container("b")] },
    });
    await harness.exit("a", 42);
    await harness.advance("1m");
    expect(formatTimeline(harness, / a started/)).toHaveLength(2);
  });

  test("the container's policy decides if no rule matches", async () => {
    const { harness } = await runPod({
      spec: { restartPolicy: "Never", containers: [withRules("OnFailure", rule("In", 42)), container("b")] },
    });
    await harness.exit("a", 1);
    await harness.advance("1m");
    expect(formatTimeline(harness, / a started/)).toHaveLength(2);
    await harness.exit("a", 0);
    await harness.advance("30m");
    expect(formatTimeline(harness, / a started/)).toHaveLength(2);
  });

  test("a pod with OnFailure can have a container with Never", async () => {
    const { harness } = await runPod({
      spec: { restartPolicy: "OnFailure", containers: [neverRestarted("try-once"), container("work")] },
    });
    await harness.exit("try-once", 1);
    await harness.exit("work", 1);
    await harness.advance("1m");
    expect(await harness.apiPods()).toEqual(["web Running: try-once terminated Error 1, work running (restarts: 1)"]);
  });

  test("a pod with Always fails when its init container with Never fails", async () => {
    const { harness } = await runPod({
      spec: { restartPolicy: "Always", initContainers: [neverRestarted("init-once")] },
    });
    await harness.exit("init-once", 1);
    await harness.advance("1m");
    expect(await harness.apiPods()).toEqual([
      "web Failed: init init-once terminated Error 1, a waiting PodInitializing",
    ]);
  });

  test("a pod with Always keeps running after its init container with Never succeeded", async () => {
    const { harness } = await runPod({
      spec: { restartPolicy: "Always", initContainers: [neverRestarted("init-once")] },
    });
    await harness.exit("init-once", 0);
    await harness.advance("1m");
    await harness.exit("a", 0);
    await harness.advance("1m");
    expect(await harness.apiPods()).toEqual([
      "web Running, ready: init init-once terminated Completed 0, a running (restarts: 1)",
    ]);
  });

  test.each([
    [42, "web Running, ready: a running (restarts: 1)"],
    [1, "web Failed: a terminated Error 1"],
    [0, "web Succeeded: a terminated Completed 0"],
  ])("a pod with Never and a rule for exit code 42 ends correctly after exit code %d", async (exitCode, end) => {
    const { harness } = await runPod({
      spec: { restartPolicy: "Never", containers: [withRules("Never", rule("In", 42))] },
    });
    await harness.exit("a", exitCode);
    await harness.advance("1m");
    expect(await harness.apiPods()).toEqual([end]);
  });
});

describeSection("Configurable container restart delay", () => {
  test.each([
    [100, [0, 10, 20, 40, 80, 100, 100]],
    [2, [0, 2, 2, 2, 2, 2, 2]],
  ])("the restart delay grows up to maxContainerRestartPeriod of %d seconds", async (seconds, delays) => {
    const { harness } = await runPod({
      programs: { a: crashing },
      options: { maxContainerRestartPeriodMs: seconds * 1000, ...shortExitLag },
    });
    await harness.advance("10m");
    expect(gaps(startTimes(formatTimeline(harness, /a started/))).slice(0, 7)).toEqual(delays);
  });
});
