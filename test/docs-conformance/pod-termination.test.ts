/*
 * https://kubernetes.io/docs/concepts/workloads/pods/pod-termination/
 *
 * Not tested, since it concerns others:
 *   (introduction)                  a deletion is recorded with its grace period: the API server
 *   Stop Signals                    the image's STOPSIGNAL, or SIGTERM without one: the container runtime, which gets
 *                                   no other signal
 *   Defining custom stop signals    the valid signals, and that they need `os.name`: the API server's validation.
 *                                   Windows is not supported. The use of such a signal is tested with the container
 *                                   lifecycle hooks
 *   Pod Termination Flow            endpoints of terminating pods, replica counts, `kubectl describe`: controllers,
 *                                   kubectl
 *   Forced Pod termination          `--force`, StatefulSets, and that the API does not wait for the node: kubectl, the
 *                                   API server
 *   Garbage collection of Pods      PodGC: a controller
 * Deliberate difference: a restart of the agent during a termination grants no new grace period (see "the grace period
 * is granted once").
 */
import { expect, test } from "bun:test";
import type { PodSpec } from "../../proto/kubernetes/gen/types.ts";
import {
  apiPod,
  conditionOf,
  container,
  describeSection,
  formatTimeline,
  runPod,
  runTimedPod,
  sidecar,
  statusOf,
} from "./pod-case.ts";

const ignores = { onTerm: "ignores" } as const;
const stops = (calls: readonly string[]) => calls.filter((call) => call.startsWith("stopContainer"));
const both: Partial<PodSpec> = { containers: [container("a"), container("b")] };
const withPreStop = (name: string) => container(name, { lifecycle: { preStop: { exec: { command: ["drain"] } } } });

describeSection("Termination of Pods", () => {
  test("each container is stopped with the grace period as its timeout", async () => {
    const { harness } = await runPod({ spec: { ...both, terminationGracePeriodSeconds: 12 } });
    await harness.deletePod("web", 12);
    expect(stops(harness.runtime.calls).toSorted()).toEqual([
      "stopContainer default/web/a #0 within 12s",
      "stopContainer default/web/b #0 within 12s",
    ]);
  });

  test("containers are stopped at the same time", async () => {
    const { harness, expectTimeline } = await runTimedPod({ spec: both, programs: { a: ignores, b: ignores } });
    await harness.deletePod("web");
    await harness.advance("2m");
    await expectTimeline(/[ab] stopped/, ["30s a stopped", "30s b stopped"]);
  });

  test("after the grace period the containers are killed and the pod is removed from the API", async () => {
    const { harness, statuses } = await runPod({ programs: { a: ignores } });
    await harness.deletePod("web");
    await harness.advance("29s");
    expect(await apiPod(harness)).toBeDefined();
    await harness.advance("2s");
    expect(await apiPod(harness)).toBeUndefined();
    expect(statuses.at(-1)?.containerStatuses?.[0]?.state?.terminated?.exitCode).toBe(137);
  });

  test("the grace period is granted once: a restarted agent continues with the rest of it", async () => {
    const { harness, expectTimeline } = await runTimedPod({ programs: { a: ignores } });
    await harness.deletePod("web");
    await harness.advance("10s");
    harness.kill();
    await harness.advance("5s");
    await harness.start();
    await harness.advance("1m");
    await expectTimeline(/a stopped/, ["30s a stopped"]);
    expect(await apiPod(harness)).toBeUndefined();
  });

  test("a restart of the runtime does not extend the grace period", async () => {
    const { harness, expectTimeline } = await runTimedPod({ programs: { a: ignores } });
    await harness.deletePod("web");
    await harness.advance("10s");
    harness.runtime.restart();
    await harness.advance("1m");
    await expectTimeline(/a stopped/, ["30s a stopped"]);
    expect(await apiPod(harness)).toBeUndefined();
  });
});

describeSection("Stop Signals", () => {
  test("a pod without a stop signal passes none to the runtime", async () => {
    const { harness } = await runPod();
    expect([...harness.runtime.containers.values()].map(({ config }) => config.stopSignal)).toEqual([0]);
  });
});

describeSection("Pod Termination Flow", () => {
  test("the node starts the termination as soon as it observes the deletion", async () => {
    const { harness, expectTimeline } = await runTimedPod();
    await harness.advance("17s");
    await harness.deletePod("web");
    await expectTimeline(/a stopped/, ["17s a stopped"]);
  });

  test("a preStop hook runs before the stop", async () => {
    const { harness } = await runPod({ spec: { containers: [withPreStop("a")] } });
    await harness.deletePod("web");
    const calls = harness.runtime.calls.filter((call) => /^(execSync|stopContainer)/.test(call));
    expect(calls).toEqual(["execSync default/web/a #0: drain", expect.stringMatching("stopContainer default/web/a")]);
  });

  test("a preStop hook does not run with terminationGracePeriodSeconds 0", async () => {
    const livenessProbe = { exec: { command: ["alive"] }, failureThreshold: 1 };
    const { harness } = await runPod({
      spec: { terminationGracePeriodSeconds: 0, containers: [{ ...withPreStop("a"), livenessProbe }] },
    });
    await harness.advance("1s");
    harness.runtime.commands.set("alive", { exitCode: 1 });
    await harness.advance("10s");
    expect(formatTimeline(harness, /a stopped/)[0]).toBe("10s a stopped");
    expect(harness.runtime.calls.filter((call) => call.endsWith(": drain"))).toEqual([]);
  });

  test("a hook that still runs at the end of the grace period extends it once by two seconds", async () => {
    const { harness, expectTimeline } = await runTimedPod({
      spec: { containers: [withPreStop("a")] },
      programs: { a: ignores },
      before: ({ runtime }) => void runtime.commands.set("drain", { lastsMs: 600_000 }),
    });
    await harness.deletePod("web");
    await harness.advance("5m");
    await expectTimeline(/a stopped/, ["32s a stopped"]);
  });

  test("a longer terminationGracePeriodSeconds lets a long hook finish", async () => {
    const { harness, expectTimeline } = await runTimedPod({
      spec: { terminationGracePeriodSeconds: 60, containers: [withPreStop("a")] },
      before: ({ runtime }) => void runtime.commands.set("drain", { lastsMs: 45_000 }),
    });
    await harness.deletePod("web", 60);
    await harness.advance("5m");
    await expectTimeline(/a stopped/, ["45s a stopped"]);
  });

  test("a preStop hook can order the stops of containers", async () => {
    const { harness, expectTimeline } = await runTimedPod({
      spec: { containers: [withPreStop("a"), container("b")] },
      before: ({ runtime }) => void runtime.commands.set("drain", { lastsMs: 3000 }),
    });
    await harness.deletePod("web");
    await harness.advance("1m");
    await expectTimeline(/[ab] stopped/, ["0s b stopped", "3s a stopped"]);
  });

  test("the readiness of a terminating pod is still reported", async () => {
    const readinessProbe = { exec: { command: ["ready"] }, failureThreshold: 1, periodSeconds: 5 };
    const { harness } = await runPod({
      spec: { containers: [container("a", { readinessProbe })] },
      programs: { a: ignores },
    });
    await harness.deletePod("web");
    await harness.advance("8s");
    expect(await conditionOf(harness, "Ready")).toMatchObject({ status: "True" });
    harness.runtime.commands.set("ready", { exitCode: 1 });
    await harness.advance("5s");
    expect(await conditionOf(harness, "Ready")).toMatchObject({ status: "False" });
  });

  test("after the grace period the remaining containers are killed and the sandbox is removed", async () => {
    const { harness, expectTimeline } = await runTimedPod({ spec: both, programs: { b: ignores } });
    await harness.deletePod("web");
    await harness.advance("2m");
    await expectTimeline(/stopped|sandbox deleted/, [
      "0s a stopped",
      "30s b stopped",
      "30s sandbox stopped",
      "30s sandbox deleted",
    ]);
  });

  test.each([
    [0, "Succeeded"],
    [143, "Failed"],
  ] as const)(
    "a deleted pod whose container exits with %d gets the phase %s before it is removed from the API",
    async (exitCode, phase) => {
      const { harness, statuses } = await runPod({ programs: { a: ignores } });
      const before: (string | undefined)[] = [];
      harness.kube.before.delete = async () => void before.push((await statusOf(harness)).phase);
      await harness.deletePod("web");
      await harness.exit("a", exitCode);
      await harness.advance("1s");
      expect([statuses.at(-1)?.phase, before]).toEqual([phase, [phase]]);
      expect([await apiPod(harness), harness.nodeSnapshot()]).toEqual([undefined, []]);
    },
  );
});

describeSection("Forced Pod termination", () => {
  test.each([
    [undefined, "30s"],
    [7, "7s"],
    [45, "45s"],
  ])("a deletion with a grace period of %p kills after %s", async (grace, stopped) => {
    const { harness, expectTimeline } = await runTimedPod({ programs: { a: ignores } });
    await harness.deletePod("web", grace);
    await harness.advance("2m");
    await expectTimeline(/a stopped/, [`${stopped} a stopped`]);
  });

  test("a later deletion can shorten the grace period, not extend it", async () => {
    const { harness, expectTimeline } = await runTimedPod({ programs: { a: ignores } });
    await harness.deletePod("web", 30);
    await harness.advance("5s");
    await harness.deletePod("web", 10);
    await harness.advance("2s");
    await harness.deletePod("web", 60);
    await harness.advance("2m");
    await expectTimeline(/a stopped/, ["15s a stopped"]);
  });

  test("the node observes a deletion with a grace period of 0 and stops the pod at once", async () => {
    const { harness, expectTimeline } = await runTimedPod();
    await harness.advance("5s");
    await harness.deletePod("web", 0);
    expect(await apiPod(harness)).toBeUndefined();
    await expectTimeline(/a stopped/, ["5s a stopped"]);
    await harness.advance("1s");
    expect(harness.nodeSnapshot()).toEqual([]);
  });

  test("a new pod of the same name starts while the force-deleted one terminates", async () => {
    const { harness } = await runPod({ programs: { a: ignores } });
    await harness.deletePod("web", 0);
    await harness.apply("web", { containers: [container("b")] });
    await harness.advance("1s");
    expect(await harness.apiPods()).toEqual(["web Running, ready: b running"]);
    expect(formatTimeline(harness, /a stopped/)).toEqual([]);
  });

  test("the containers of a force-deleted pod still get a short grace period", async () => {
    const { harness, expectTimeline } = await runTimedPod({ spec: both, programs: { a: ignores } });
    const codes: (readonly [string | undefined, number])[] = [];
    harness.runtime.before.removePodSandbox = () => {
      for (const { config, exitCode } of harness.runtime.containers.values())
        codes.push([config.metadata?.name, exitCode]);
    };
    await harness.deletePod("web", 0);
    await harness.advance("2m");
    await expectTimeline(/[ab] stopped/, ["0s b stopped", "2s a stopped"]);
    expect(Object.fromEntries(codes)).toEqual({ a: 137, b: 143 });
  });
});

describeSection("Pod shutdown and sidecar containers", () => {
  const spec: Partial<PodSpec> = {
    initContainers: [sidecar("early"), sidecar("late")],
    containers: [container("a"), container("b")],
  };
  const allAtOnce = ["30s a stopped", "32s early stopped", "32s late stopped"];

  test("sidecars are stopped after the last main container, in reverse order", async () => {
    const { harness } = await runPod({ spec });
    await harness.deletePod("web");
    await harness.advance("1m");
    const names = formatTimeline(harness, /stopped/).map((line) => line.split(" ")[1]);
    expect(names.slice(0, 2).toSorted()).toEqual(["a", "b"]);
    expect(names.slice(2)).toEqual(["late", "early", "sandbox"]);
  });

  test("a slow main container delays the stop of the sidecars", async () => {
    const lifecycle = { preStop: { sleep: { seconds: 11 } } };
    const { harness, expectTimeline } = await runTimedPod({
      spec: { ...spec, containers: [container("a", { lifecycle })] },
    });
    await harness.deletePod("web");
    await harness.advance("1m");
    await expectTimeline(/(a|early|late) stopped/, ["11s a stopped", "11s late stopped", "11s early stopped"]);
  });

  test("after the grace period all remaining containers are stopped at once with a short grace period", async () => {
    const { harness, expectTimeline } = await runTimedPod({
      spec,
      programs: { a: ignores, early: ignores, late: ignores },
    });
    await harness.deletePod("web");
    await harness.advance("2m");
    await expectTimeline(/(a|early|late) stopped/, allAtOnce);
  });

  test("sidecars are stopped at once after a preStop hook has used the whole grace period", async () => {
    const { harness, expectTimeline } = await runTimedPod({
      spec: { ...spec, containers: [withPreStop("a")] },
      programs: { early: ignores, late: ignores },
      before: ({ runtime }) => void runtime.commands.set("drain", { lastsMs: 600_000 }),
    });
    await harness.deletePod("web");
    await harness.advance("2m");
    await expectTimeline(/(a|early|late) stopped/, allAtOnce);
  });
});

describeSection("Garbage collection of Pods", () => {
  test("a Failed pod stays in the API until a client deletes it", async () => {
    const { harness } = await runPod({
      spec: { restartPolicy: "Never" },
      programs: { a: { exitsAfterMs: 0, exitCode: 1 } },
    });
    await harness.advance("60m");
    expect(await harness.apiPods()).toEqual(["web Failed: a terminated Error 1"]);
    await harness.deletePod("web");
    await harness.advance("1s");
    expect([await harness.apiPods(), harness.nodeSnapshot()]).toEqual([[], []]);
  });
});
