import { expect, test } from "bun:test";
import { sleepUnlessAborted } from "../../../host/clock.ts";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import type { Container, Probe } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock } from "../../../test/fakes/clock.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { emptyObservedPod } from "../../../test/fakes/observed-pod.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import type { ObservedPod } from "../../decide/pod/observed.ts";
import { createProber } from "./prober.ts";
import type { ProberOptions, ProbeTarget } from "./prober-state.ts";

const uid = "u" as PodUid;
const probe: Probe = { tcpSocket: { port: 80 }, periodSeconds: 10 };

interface Earlier {
  readonly ageMs?: number;
  /** What an earlier agent has noted. */
  readonly probeMarks?: ObservedPod["probeMarks"];
}

/**
 * A prober with one pod whose container has been running for `ageMs`; `asked` are the kinds of the probes, each with its
 * second.
 */
function startProber({ ageMs = 0, probeMarks, ...more }: Partial<ProberOptions> & Earlier = {}) {
  const clock = new FakeClock();
  const log = new FakeLog();
  const asked: string[] = [];
  const startedAt = clock.now() - ageMs;
  const settings: ProberOptions = {
    clock,
    log,
    runProbe: async ({ kind }: ProbeTarget) => {
      asked.push(`${clock.elapsedMs / 1000}s ${kind}`);
      return { result: "success", message: "" };
    },
    onResult: () => {},
    onEarlyFailure: () => {},
    wake: () => {},
    hostIPs: () => [],
    earlyProbes: true,
    ...more,
  };
  const probes = createProber(settings);
  return {
    clock,
    log,
    asked,
    probes,
    look(container: Partial<Container>): ObservedPod {
      const observed = { ...observedSince(startedAt), ...(probeMarks && { probeMarks }) };
      const desired = desiredWith(container);
      probes.onObserved(observed, desired);
      return probes.withHealth(observed, desired);
    },
  };
}

function observedSince(startedAt: number): ObservedPod {
  const [id, sandboxId] = ["c" as ContainerId, "s" as SandboxId];
  const exit = { finishedAt: 0, exitCode: 0, reason: "", message: "" };
  const image = { image: "busybox:1", imageRef: "", hash: undefined };
  return {
    ...emptyObservedPod(uid, "default", "web"),
    containers: [
      {
        id,
        name: "a",
        attempt: 0,
        sandboxId,
        state: "running",
        createdAt: startedAt,
        startedAt,
        ...exit,
        ...image,
        crashes: 0,
      },
    ],
  };
}

function desiredWith(container: Partial<Container>): DesiredPod {
  return {
    uid,
    pod: {
      metadata: { namespace: "default", name: "web", uid },
      spec: { containers: [{ name: "a", image: "busybox:1", ...container }] },
    },
    source: { kind: "file", path: "/manifests/web" },
    acceptedAt: 0,
    revision: 0,
  };
}

test("a probe that throws does not affect the container, and runs again", async () => {
  let tries = 0;
  const { clock, log, look, probes } = startProber({
    runProbe: async () => {
      tries++;
      throw new Error("who would have thought");
    },
  });
  look({ livenessProbe: { ...probe, failureThreshold: 1 } });
  await clock.advance(20_000);
  expect(log.takeLines()).toEqual(Array(2).fill("error: cannot run the liveness probe of container a"));
  expect([tries, look({ livenessProbe: probe }).health.get("c" as ContainerId)]).toEqual([
    2,
    { isStarted: true, isReady: true },
  ]);
  await probes.stop();
});

test("a probe that is removed from the pod stops, and one that is added starts", async () => {
  const { clock, asked, look, probes } = startProber();
  look({ livenessProbe: probe, readinessProbe: probe });
  await clock.advance(5_000);
  look({ readinessProbe: probe });
  await clock.advance(10_000);
  look({ readinessProbe: probe, livenessProbe: probe });
  await clock.advance(1_000);
  expect(asked).toEqual(["0.1s readiness", "10s readiness"]);
  await clock.advance(10_000);
  expect(asked.slice(2)).toEqual(["20s readiness", "20s liveness"]);
  await probes.stop();
});

for (const [sentence, backMs] of [
  ["while the node is idle", 3_600_000],
  ["by less than a period", 3_000],
] as const)
  test(`a clock that is set back ${sentence} does not stop the probes`, async () => {
    const { clock, asked, look, probes } = startProber();
    look({ livenessProbe: probe });
    await clock.advance(5_000);
    clock.stepWallClock(-backMs);
    await clock.advance(20_000);
    expect(asked).toEqual(["10s liveness", "20s liveness"]);
    await probes.stop();
  });

test("a clock that is set back when a probe is added delays the others only by the time without an observation", async () => {
  const { clock, asked, look, probes } = startProber();
  look({ livenessProbe: probe });
  await clock.advance(5_000);
  clock.stepWallClock(-3_600_000);
  look({ livenessProbe: probe, readinessProbe: { ...probe, initialDelaySeconds: 60, periodSeconds: 100 } });
  await clock.advance(20_000);
  expect(asked).toEqual(["5.1s readiness", "15s liveness", "25s liveness"]);
  await probes.stop();
});

test("a terminating pod runs only its readiness probes", async () => {
  const { clock, asked, look, probes } = startProber();
  const all = { livenessProbe: probe, readinessProbe: probe };
  look(all);
  await clock.advance(5_000);
  probes.stopRestartProbes(uid);
  look(all);
  await clock.advance(10_000);
  expect(asked).toEqual(["0.1s readiness", "10s readiness"]);
  await probes.stop();
});

test("a terminating pod that an earlier agent has started runs only its readiness probes", async () => {
  const probeMarks = [{ mark: "started", name: "a", attempt: 0 }] as const;
  const { clock, asked, look, probes } = startProber({ ageMs: 1_000, probeMarks });
  const all = { startupProbe: probe, livenessProbe: probe, readinessProbe: probe };
  look(all);
  probes.stopRestartProbes(uid);
  expect(look(all).health.get("c" as ContainerId)).toEqual({ isStarted: true, isReady: false });
  await clock.advance(10_000);
  expect(new Set(asked.map((line) => line.replace(/^.* /, "")))).toEqual(new Set(["readiness"]));
  await probes.stop();
});

test("a container that has not started does not become ready when its pod terminates", async () => {
  const runProbe: ProberOptions["runProbe"] = async () => ({ result: "failure", message: "" });
  const { clock, look, probes } = startProber({ runProbe });
  for (const failureThreshold of [2, 100]) {
    const container = { startupProbe: { ...probe, failureThreshold } };
    look(container);
    await clock.advance(25_000);
    probes.stopRestartProbes(uid);
    expect(look(container).health.get("c" as ContainerId)).toEqual({ isStarted: false, isReady: false });
    probes.forget(uid);
  }
  await probes.stop();
});

test("reading the health starts no probe, and the initial health is known before the first one", async () => {
  const { clock, asked, probes } = startProber();
  const healthWith = (container: Partial<Container>) =>
    probes.withHealth(observedSince(clock.now()), desiredWith(container)).health.get("c" as ContainerId);
  expect([{ livenessProbe: probe }, { readinessProbe: probe }, { startupProbe: probe }, {}].map(healthWith)).toEqual([
    { isStarted: true, isReady: true },
    { isStarted: true, isReady: false },
    { isStarted: false, isReady: false },
    undefined,
  ]);
  await clock.advance(10_000);
  expect([asked, clock.pendingTimers]).toEqual([[], 0]);
  await probes.stop();
});

test("a probe uses the address in the pod's status", async () => {
  const at: (string | undefined)[] = [];
  const prober = startProber({
    hostIPs: () => ["192.0.2.1"],
    runProbe: async ({ podIP }) => {
      at.push(podIP);
      return { result: "success", message: "" };
    },
  });
  const ips = ["2001:db8::5", "10.0.0.5"];
  const sandbox = { id: "s" as SandboxId, attempt: 0, createdAt: 0, ready: true, hostNetwork: false, ips, crashes: 0 };
  const observed = { ...observedSince(prober.clock.now()), sandboxes: [sandbox] };
  prober.probes.onObserved(observed, desiredWith({ livenessProbe: probe }));
  await prober.clock.advance(10_000);
  expect(at[0]).toBe("10.0.0.5");
});

test("fifty probes with a period of one second and random starts use one timer that fires at most four times a second", async () => {
  const clock = new FakeClock();
  let [rings, timers] = [0, 0];
  const counting = {
    now: clock.now,
    monotonicMs: clock.monotonicMs,
    wakeAt: (at: number, wake: () => void) =>
      clock.wakeAt(at, () => {
        rings++;
        wake();
      }),
  };
  const { asked, probes } = startProber({ clock: counting });
  for (let i = 0; i < 50; i++) {
    const [own, id] = [`u${i}` as PodUid, `c${i}` as ContainerId];
    const observed = observedSince(clock.now());
    const containers = observed.containers.map((each) => ({ ...each, id }));
    const desired = { ...desiredWith({ readinessProbe: { ...probe, periodSeconds: 1 } }), uid: own };
    probes.onObserved({ ...observed, uid: own, containers }, desired);
    timers = Math.max(timers, clock.pendingTimers);
    await clock.advance(37);
  }
  // The first period of all of them is over.
  await clock.advance(1_250);
  [rings, asked.length] = [0, 0];
  await clock.advance(10_000);
  expect({ rings, asked: asked.length, timers }).toEqual({ rings: 40, asked: 500, timers: 1 });
  await probes.stop();
});

test("of the early tries only a success has an effect; the failures before it are passed on as such", async () => {
  const results: string[] = [];
  const earlyFailures: string[] = [];
  const { clock, asked, log, look, probes } = startProber({
    runProbe: async ({ kind }) => {
      asked.push(kind);
      return { result: clock.elapsedMs < 700 ? "failure" : "success", message: "no server" };
    },
    onResult: (_, { result }) => void results.push(`${clock.elapsedMs / 1000}s ${result}`),
    onEarlyFailure: ({ kind }, { message }) => void earlyFailures.push(`${kind} ${message}`),
  });
  look({ readinessProbe: probe });
  await clock.advance(700);
  expect([asked.length, results, log.takeLines()]).toEqual([6, [], []]);
  expect(earlyFailures).toEqual(Array.from({ length: 6 }, () => "readiness no server"));
  await clock.advance(30_000);
  expect([asked.length, results]).toEqual([10, ["0.72s success", "10s success", "20s success", "30s success"]]);
  expect(earlyFailures).toHaveLength(6);
  await probes.stop();
});

test("an early try that cannot be executed is not repeated at once, unlike one that counts", async () => {
  const { clock, asked, look, probes } = startProber({
    earlyProbes: false,
    runProbe: async () => {
      asked.push(`${clock.elapsedMs / 1000}s`);
      return { result: "error", message: "" };
    },
  });
  look({ readinessProbe: probe });
  await clock.advance(10_000);
  expect(asked).toEqual(["0.1s", "10s", "10s", "10s"]);
  await probes.stop();
});

for (const [what, outcome] of [
  ["killed", { result: "failure", message: "", exitCode: 137 }],
  ["not executed", { result: "error", message: "no running task found" }],
] as const)
  test(`a command that was ${what} has a result only if its container does not exit within a second`, async () => {
    const results: string[] = [];
    const exec: Probe = { exec: { command: ["ready"] }, periodSeconds: 10 };
    for (const exits of [false, true]) {
      const { clock, look, probes } = startProber({
        runProbe: async () => outcome,
        onResult: (_, { result }) => void results.push(`${clock.elapsedMs / 1000}s ${result}`),
      });
      look({ readinessProbe: exec });
      await clock.advance(10_900);
      if (exits) probes.onObserved(emptyObservedPod(uid, "default", "web"), desiredWith({ readinessProbe: exec }));
      await clock.advance(1_000);
      await probes.stop();
    }
    expect(results).toEqual([`11s ${outcome.result}`]);
  });

for (const [what, outcome, counts] of [
  ["was killed", { result: "failure", message: "", exitCode: 137 }, false],
  ["was not executed", { result: "error", message: "container not created: not found" }, false],
  ["fails", { result: "failure", message: "not ready", exitCode: 1 }, true],
] as const)
  test(`while its pod terminates, a readiness command that ${what} has ${counts ? "a" : "no"} result`, async () => {
    const results: string[] = [];
    const { clock, look, probes } = startProber({
      runProbe: async () => outcome,
      onResult: (_, { result }) => void results.push(`${clock.elapsedMs / 1000}s ${result}`),
      earlyProbes: false,
    });
    look({ readinessProbe: { exec: { command: ["ready"] }, periodSeconds: 10 } });
    await clock.advance(15_000);
    const before = [...results];
    probes.stopRestartProbes(uid);
    // The runtime may report the exit many seconds later.
    await clock.advance(20_000);
    expect([before.length, results.length]).toEqual(counts ? [1, 3] : [1, 1]);
    await probes.stop();
  });

test("the probes of a container with a postStart hook begin when the hook has succeeded", async () => {
  const { clock, asked, look, probes } = startProber();
  const hook = { lifecycle: { postStart: { exec: { command: ["hook"] } } } };
  await clock.advance(25_000);
  look({ ...hook, readinessProbe: probe, livenessProbe: probe });
  await clock.advance(15_000);
  expect(asked).toEqual(["25s readiness", "35s liveness", "35s readiness"]);
  await probes.stop();
});

/** A hundred pods that start together; `lastsMs` is the duration of their commands, which always fail. */
async function startHundred(lastsMs: number) {
  const tries: { readonly at: number; readonly id: ContainerId }[] = [];
  let [running, most] = [0, 0];
  const { clock, probes } = startProber({
    async runProbe({ id }, signal) {
      tries.push({ at: clock.elapsedMs, id });
      most = Math.max(most, ++running);
      await sleepUnlessAborted(clock, lastsMs, signal);
      running--;
      return { result: "failure", message: "" };
    },
  });
  for (let i = 0; i < 100; i++) {
    const [uid, id] = [`u${i}` as PodUid, `c${i}` as ContainerId];
    const observed = observedSince(clock.now());
    const readinessProbe = { exec: { command: ["ready"] }, periodSeconds: 10 };
    const containers = observed.containers.map((each) => ({ ...each, id }));
    probes.onObserved({ ...observed, uid, containers }, { ...desiredWith({ readinessProbe }), uid });
  }
  return { clock, probes, tries, most: () => most };
}

test("at most four early tries of commands run at once, each pod in its turn, and the tries that count do not wait", async () => {
  const { clock, probes, tries, most } = await startHundred(100);
  await clock.advance(9_999);
  expect(most()).toBe(4);
  const triesOfEach = Map.groupBy(tries, ({ id }) => id);
  expect([triesOfEach.size, Math.min(...[...triesOfEach.values()].map((each) => each.length))]).toEqual([100, 2]);
  tries.length = 0;
  await clock.advance(101);
  expect([most(), new Set(tries.map(({ id }) => id)).size]).toEqual([100, 100]);
  await probes.stop();
});

test("an early try that has not had its turn when a try counts is given up", async () => {
  const { clock, probes, tries } = await startHundred(6_000);
  await clock.advance(10_000);
  const early = tries.filter(({ at }) => at < 10_000);
  expect(early.map(({ id }) => id)).toEqual(["c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"] as ContainerId[]);
  // Four of them still run.
  expect(tries.length - early.length).toBe(96);
  await clock.advance(9_999);
  expect(tries.length).toBe(8 + 96 + 4);
  await probes.stop();
});

test("an early try that waits for its turn ends with its container", async () => {
  const { clock, probes, tries } = await startHundred(5_000);
  await clock.advance(200);
  for (let i = 4; i < 100; i++) probes.forget(`u${i}` as PodUid);
  await clock.advance(9_000);
  expect(new Set(tries.map(({ id }) => id))).toEqual(new Set(["c0", "c1", "c2", "c3"] as ContainerId[]));
  await probes.stop();
});

test("a startup probe that has succeeded is not tried again", async () => {
  const { clock, asked, look, probes } = startProber();
  look({ startupProbe: probe });
  await clock.advance(60_000);
  expect(asked.length).toBe(1);
  await probes.stop();
});
