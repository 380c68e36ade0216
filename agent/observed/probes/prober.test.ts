import { expect, test } from "bun:test";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import type { Container, Probe } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock } from "../../../test/fakes/clock.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import { emptyObservedPod, type ObservedPod } from "../../decide/pod/observed.ts";
import { createProber, type ProberOptions, type ProbeTarget } from "./prober.ts";

const uid = "u" as PodUid;
const probe: Probe = { tcpSocket: { port: 80 }, periodSeconds: 10 };

/** A prober with one pod whose container runs; `asked` are the kinds of the probes, each with its second. */
function startProber(more: Partial<ProberOptions> = {}) {
  const clock = new FakeClock();
  const log = new FakeLog();
  const asked: string[] = [];
  const startedAt = clock.now();
  const settings: ProberOptions = {
    clock,
    log,
    runProbe: async ({ kind }: ProbeTarget) => {
      asked.push(`${clock.elapsedMs / 1000}s ${kind}`);
      return { result: "success", message: "" };
    },
    onResult: () => {},
    wake: () => {},
    hostIPs: () => [],
    random: () => 0,
    ...more,
  };
  const probes = createProber(settings);
  return {
    clock,
    log,
    asked,
    probes,
    look(container: Partial<Container>): ObservedPod {
      const [observed, desired] = [observedSince(startedAt), desiredWith(container)];
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
  await clock.advance(10_000);
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
  expect(asked).toEqual(["0s liveness", "0s readiness", "10s readiness", "15s liveness"]);
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
    expect(asked).toEqual(["0s liveness", "10s liveness", "20s liveness"]);
    await probes.stop();
  });

test("a clock that is set back when a probe is added delays the others only by the time without an observation", async () => {
  const { clock, asked, look, probes } = startProber();
  look({ livenessProbe: probe });
  await clock.advance(5_000);
  clock.stepWallClock(-3_600_000);
  look({ livenessProbe: probe, readinessProbe: { ...probe, initialDelaySeconds: 60, periodSeconds: 100 } });
  await clock.advance(20_000);
  expect(asked).toEqual(["0s liveness", "5s readiness", "15s liveness", "25s liveness"]);
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
  expect(asked).toEqual(["0s liveness", "0s readiness", "10s readiness"]);
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
  [rings, asked.length] = [0, 0];
  await clock.advance(10_000);
  expect({ rings, asked: asked.length, timers }).toEqual({ rings: 40, asked: 500, timers: 1 });
  await probes.stop();
});
