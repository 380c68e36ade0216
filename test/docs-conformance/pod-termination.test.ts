/*
 * https://kubernetes.io/docs/concepts/workloads/pods/pod-termination/
 *
 * What it says of others:
 *   (the beginning)                 that a deletion is recorded with its grace: the API server
 *   Stop Signals                    STOPSIGNAL of an image, and SIGTERM where it has none: the container runtime, which is asked for no other
 *   Defining custom stop signals    which signals there are, and that `os.name` is needed: the API server's validation. Windows: nobody here.
 *                                   What becomes of such a signal is tested with the container lifecycle hooks
 *   Pod Termination Flow            endpoints of pods that end, replicas that count no more, `kubectl describe`: controllers, kubectl
 *   Forced Pod termination          `--force`, StatefulSets, and that the API does not wait for the node: kubectl, the API server
 *   Garbage collection of Pods      PodGC: a controller
 * What is otherwise here on purpose: a restart in the midst grants no new grace (see "the grace is granted once"), and sidecars' preStop
 * hooks run when it is their turn.
 */
import { describe, expect, test } from "bun:test";
import type { PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { conditionOf, container, happenings, runPod, shownPod, sidecar, statusOf } from "./pod-case.ts";

const ignores = { onTerm: "ignores" } as const;
const stops = (calls: readonly string[]) => calls.filter((call) => call.startsWith("stopContainer"));
const both: Partial<PodSpec> = { containers: [container("a"), container("b")] };
const hooked = (name: string) => container(name, { lifecycle: { preStop: { exec: { command: ["drain"] } } } });

describe("Termination of Pods", () => {
  test("the main process of each container is asked to stop, with the grace as its time", async () => {
    const { stage } = await runPod({ spec: { ...both, terminationGracePeriodSeconds: 12 } });
    await stage.remove("web", 12);
    expect(stops(stage.runtime.calls).toSorted()).toEqual([
      "stopContainer default/web/a #0 within 12s",
      "stopContainer default/web/b #0 within 12s",
    ]);
  });

  test("none of them waits for another", async () => {
    const { stage } = await runPod({ spec: both, programs: { a: ignores, b: ignores } });
    await stage.remove("web");
    await stage.advance("2m");
    expect(happenings(stage, /[ab] stopped/)).toEqual(["30s a stopped", "30s b stopped"]);
  });

  test("when the grace is over they are killed, and then the pod is gone from the API", async () => {
    const { stage, told } = await runPod({ programs: { a: ignores } });
    await stage.remove("web");
    await stage.advance("29s");
    expect(await shownPod(stage)).toBeDefined();
    await stage.advance("2s");
    expect(await shownPod(stage)).toBeUndefined();
    expect(told.at(-1)?.containerStatuses?.[0]?.state?.terminated?.exitCode).toBe(137);
  });

  test("the grace is granted once: an agent that is restarted meanwhile goes on with what is left of it", async () => {
    const { stage } = await runPod({ programs: { a: ignores } });
    await stage.remove("web");
    await stage.advance("10s");
    stage.kill();
    await stage.advance("5s");
    await stage.start();
    await stage.advance("1m");
    expect(happenings(stage, /a stopped/)).toEqual(["30s a stopped"]);
    expect(await shownPod(stage)).toBeUndefined();
  });

  test("so does a runtime that is restarted", async () => {
    const { stage } = await runPod({ programs: { a: ignores } });
    await stage.remove("web");
    await stage.advance("10s");
    stage.runtime.restart();
    await stage.advance("1m");
    expect(happenings(stage, /a stopped/)).toEqual(["30s a stopped"]);
    expect(await shownPod(stage)).toBeUndefined();
  });
});

describe("Stop Signals", () => {
  test("the runtime is asked for no signal where the pod names none", async () => {
    const { stage } = await runPod();
    expect([...stage.runtime.containers.values()].map(({ config }) => config.stopSignal)).toEqual([0]);
  });
});

describe("Pod Termination Flow", () => {
  test("the node begins as soon as it sees the deletion", async () => {
    const { stage } = await runPod();
    await stage.advance("17s");
    await stage.remove("web");
    expect(happenings(stage, /a stopped/)).toEqual(["17s a stopped"]);
  });

  test("a preStop hook is run first", async () => {
    const { stage } = await runPod({ spec: { containers: [hooked("a")] } });
    await stage.remove("web");
    const calls = stage.runtime.calls.filter((call) => /^(execSync|stopContainer)/.test(call));
    expect(calls).toEqual(["execSync default/web/a #0: drain", expect.stringMatching("stopContainer default/web/a")]);
  });

  test("and not where the pod has no grace at all", async () => {
    const livenessProbe = { exec: { command: ["alive"] }, failureThreshold: 1 };
    const { stage } = await runPod({
      spec: { terminationGracePeriodSeconds: 0, containers: [{ ...hooked("a"), livenessProbe }] },
    });
    await stage.advance("1s");
    stage.runtime.commands.set("alive", { exitCode: 1 });
    await stage.advance("10s");
    expect(happenings(stage, /a stopped/)[0]).toBe("10s a stopped");
    expect(stage.runtime.calls.filter((call) => call.endsWith(": drain"))).toEqual([]);
  });

  test("a hook that runs when the grace is over gives its container two seconds more, once", async () => {
    const { stage } = await runPod({
      spec: { containers: [hooked("a")] },
      programs: { a: ignores },
      before: ({ runtime }) => void runtime.commands.set("drain", { lastsMs: 600_000 }),
    });
    await stage.remove("web");
    await stage.advance("5m");
    expect(happenings(stage, /a stopped/)).toEqual(["32s a stopped"]);
  });

  test("one that needs longer has it where the pod asks for it", async () => {
    const { stage } = await runPod({
      spec: { terminationGracePeriodSeconds: 60, containers: [hooked("a")] },
      before: ({ runtime }) => void runtime.commands.set("drain", { lastsMs: 45_000 }),
    });
    await stage.remove("web", 60);
    await stage.advance("5m");
    expect(happenings(stage, /a stopped/)).toEqual(["45s a stopped"]);
  });

  test("a preStop hook may bring an order into the ends of containers", async () => {
    const { stage } = await runPod({
      spec: { containers: [hooked("a"), container("b")] },
      before: ({ runtime }) => void runtime.commands.set("drain", { lastsMs: 3000 }),
    });
    await stage.remove("web");
    await stage.advance("1m");
    expect(happenings(stage, /[ab] stopped/)).toEqual(["0s b stopped", "3s a stopped"]);
  });

  test("whether a pod that ends can still serve is told", async () => {
    const readinessProbe = { exec: { command: ["ready"] }, failureThreshold: 1, periodSeconds: 5 };
    const { stage } = await runPod({
      spec: { containers: [container("a", { readinessProbe })] },
      programs: { a: ignores },
    });
    await stage.remove("web");
    await stage.advance("8s");
    expect(await conditionOf(stage, "Ready")).toMatchObject({ status: "True" });
    stage.runtime.commands.set("ready", { exitCode: 1 });
    await stage.advance("5s");
    expect(await conditionOf(stage, "Ready")).toMatchObject({ status: "False" });
  });

  test("when the grace is over what still runs in any container is killed, and the sandbox goes too", async () => {
    const { stage } = await runPod({ spec: both, programs: { b: ignores } });
    await stage.remove("web");
    await stage.advance("2m");
    expect(happenings(stage, /stopped|sandbox deleted/)).toEqual([
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
    "a pod whose container ends with %d has the phase %s, and then is taken out of the API for good",
    async (exitCode, phase) => {
      const { stage, told } = await runPod({ programs: { a: ignores } });
      const before: (string | undefined)[] = [];
      stage.kube.before.delete = async () => void before.push((await statusOf(stage)).phase);
      await stage.remove("web");
      await stage.exit("a", exitCode);
      await stage.advance("1s");
      expect([told.at(-1)?.phase, before]).toEqual([phase, [phase]]);
      expect([await shownPod(stage), stage.scene()]).toEqual([undefined, []]);
    },
  );
});

describe("Forced Pod termination", () => {
  test.each([
    [undefined, "30s"],
    [7, "7s"],
    [45, "45s"],
  ])("a deletion with a grace of %p gives %s", async (grace, stopped) => {
    const { stage } = await runPod({ programs: { a: ignores } });
    await stage.remove("web", grace);
    await stage.advance("2m");
    expect(happenings(stage, /a stopped/)).toEqual([`${stopped} a stopped`]);
  });

  test("a later deletion may shorten the grace, and not lengthen it", async () => {
    const { stage } = await runPod({ programs: { a: ignores } });
    await stage.remove("web", 30);
    await stage.advance("5s");
    await stage.remove("web", 10);
    await stage.advance("2s");
    await stage.remove("web", 60);
    await stage.advance("2m");
    expect(happenings(stage, /a stopped/)).toEqual(["15s a stopped"]);
  });

  test("a deletion without grace is heard of by the node, which begins at once", async () => {
    const { stage } = await runPod();
    await stage.advance("5s");
    await stage.remove("web", 0);
    expect(await shownPod(stage)).toBeUndefined();
    expect(happenings(stage, /a stopped/)).toEqual(["5s a stopped"]);
    await stage.advance("1s");
    expect(stage.scene()).toEqual([]);
  });

  test("a new pod of that name begins while the old one ends", async () => {
    const { stage } = await runPod({ programs: { a: ignores } });
    await stage.remove("web", 0);
    await stage.apply("web", { containers: [container("b")] });
    await stage.advance("1s");
    expect(await stage.shown()).toEqual(["web Running, ready: b running"]);
    expect(happenings(stage, /a stopped/)).toEqual([]);
  });

  test("what runs is still given a small grace", async () => {
    const { stage } = await runPod({ spec: both, programs: { a: ignores } });
    const codes: (readonly [string | undefined, number])[] = [];
    stage.runtime.before.removePodSandbox = () => {
      for (const { config, exitCode } of stage.runtime.containers.values())
        codes.push([config.metadata?.name, exitCode]);
    };
    await stage.remove("web", 0);
    await stage.advance("2m");
    expect(happenings(stage, /[ab] stopped/)).toEqual(["0s b stopped", "2s a stopped"]);
    expect(Object.fromEntries(codes)).toEqual({ a: 137, b: 143 });
  });
});

describe("Pod shutdown and sidecar containers", () => {
  const spec: Partial<PodSpec> = {
    initContainers: [sidecar("early"), sidecar("late")],
    containers: [container("a"), container("b")],
  };
  const allAtOnce = ["30s a stopped", "32s early stopped", "32s late stopped"];

  test("sidecars are stopped when the last main container has ended, in the reverse order", async () => {
    const { stage } = await runPod({ spec });
    await stage.remove("web");
    await stage.advance("1m");
    const names = happenings(stage, /stopped/).map((line) => line.split(" ")[1]);
    expect(names.slice(0, 2).toSorted()).toEqual(["a", "b"]);
    expect(names.slice(2)).toEqual(["late", "early", "sandbox"]);
  });

  test("a main container that is slow to end delays them", async () => {
    const lifecycle = { preStop: { sleep: { seconds: 11 } } };
    const { stage } = await runPod({ spec: { ...spec, containers: [container("a", { lifecycle })] } });
    await stage.remove("web");
    await stage.advance("1m");
    expect(happenings(stage, /(a|early|late) stopped/)).toEqual([
      "11s a stopped",
      "11s late stopped",
      "11s early stopped",
    ]);
  });

  test("when the grace is over before, all that are left are ended at once, with a short grace", async () => {
    const { stage } = await runPod({ spec, programs: { a: ignores, early: ignores, late: ignores } });
    await stage.remove("web");
    await stage.advance("2m");
    expect(happenings(stage, /(a|early|late) stopped/)).toEqual(allAtOnce);
  });

  test("also where a preStop hook takes all of it", async () => {
    const { stage } = await runPod({
      spec: { ...spec, containers: [hooked("a")] },
      programs: { early: ignores, late: ignores },
      before: ({ runtime }) => void runtime.commands.set("drain", { lastsMs: 600_000 }),
    });
    await stage.remove("web");
    await stage.advance("2m");
    expect(happenings(stage, /(a|early|late) stopped/)).toEqual(allAtOnce);
  });
});

describe("Garbage collection of Pods", () => {
  test("a pod that has failed stays in the API until somebody removes it", async () => {
    const { stage } = await runPod({
      spec: { restartPolicy: "Never" },
      programs: { a: { exitsAfterMs: 0, exitCode: 1 } },
    });
    await stage.advance("60m");
    expect(await stage.shown()).toEqual(["web Failed: a terminated Error 1"]);
    await stage.remove("web");
    await stage.advance("1s");
    expect([await stage.shown(), stage.scene()]).toEqual([[], []]);
  });
});
