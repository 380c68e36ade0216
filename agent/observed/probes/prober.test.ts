import { expect, test } from "bun:test";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import type { Container, Probe } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock } from "../../../test/fakes/clock.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import { nothingObserved, type ObservedPod } from "../../decide/pod/observed.ts";
import { createProbes, type ProbesSettings, type Question } from "./prober.ts";

const uid = "u" as PodUid;
const probe: Probe = { tcpSocket: { port: 80 }, periodSeconds: 10 };

/** The room of probes with one pod whose container runs; `asked` are the kinds of the questions, each with its second. */
function makeRoom(more: Partial<ProbesSettings> = {}) {
  const clock = new FakeClock();
  const log = new FakeLog();
  const asked: string[] = [];
  const startedAt = clock.now();
  const settings: ProbesSettings = {
    clock,
    log,
    ask: async ({ kind }: Question) => {
      asked.push(`${clock.elapsedMs / 1000}s ${kind}`);
      return { result: "success", message: "" };
    },
    answered: () => {},
    wake: () => {},
    hostIPs: () => [],
    random: () => 0,
    ...more,
  };
  const probes = createProbes(settings);
  return {
    clock,
    log,
    asked,
    probes,
    look: (container: Partial<Container>) => probes.look(observedSince(startedAt), desiredWith(container)),
  };
}

function observedSince(startedAt: number): ObservedPod {
  const [id, sandboxId] = ["c" as ContainerId, "s" as SandboxId];
  const exit = { finishedAt: 0, exitCode: 0, reason: "", message: "" };
  const image = { image: "busybox:1", imageRef: "", hash: undefined };
  return {
    ...nothingObserved(uid, "default", "web"),
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

test("a question that fails by a mistake of ours says nothing of the container, and is asked again", async () => {
  let tries = 0;
  const { clock, log, look, probes } = makeRoom({
    ask: async () => {
      tries++;
      throw new Error("who would have thought");
    },
  });
  look({ livenessProbe: { ...probe, failureThreshold: 1 } });
  await clock.advance(10_000);
  expect(log.told()).toEqual(Array(2).fill("error: the liveness probe of container a could not be asked"));
  expect([tries, look({ livenessProbe: probe }).health.get("c" as ContainerId)]).toEqual([
    2,
    { isStarted: true, isReady: true },
  ]);
  await probes.stop();
});

test("a probe that is taken out of the pod is asked no more, and one that is added is", async () => {
  const { clock, asked, look, probes } = makeRoom();
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
  ["while the node is at rest", 3_600_000],
  ["by less than a period", 3_000],
] as const)
  test(`a clock that is set back ${sentence} silences nobody`, async () => {
    const { clock, asked, look, probes } = makeRoom();
    look({ livenessProbe: probe });
    await clock.advance(5_000);
    clock.jump(-backMs);
    await clock.advance(20_000);
    expect(asked).toEqual(["0s liveness", "10s liveness", "20s liveness"]);
    await probes.stop();
  });

test("nor when a probe is added meanwhile; the others are late by as much as nobody has looked", async () => {
  const { clock, asked, look, probes } = makeRoom();
  look({ livenessProbe: probe });
  await clock.advance(5_000);
  clock.jump(-3_600_000);
  look({ livenessProbe: probe, readinessProbe: { ...probe, initialDelaySeconds: 60, periodSeconds: 100 } });
  await clock.advance(20_000);
  expect(asked).toEqual(["0s liveness", "5s readiness", "15s liveness", "25s liveness"]);
  await probes.stop();
});

test("a pod that has to end is asked whether it is ready, and nothing else", async () => {
  const { clock, asked, look, probes } = makeRoom();
  const all = { livenessProbe: probe, readinessProbe: probe };
  look(all);
  await clock.advance(5_000);
  probes.ending(uid);
  look(all);
  await clock.advance(10_000);
  expect(asked).toEqual(["0s liveness", "0s readiness", "10s readiness"]);
  await probes.stop();
});

test("a container is asked at the address that its pod's status tells", async () => {
  const at: (string | undefined)[] = [];
  const room = makeRoom({
    hostIPs: () => ["192.0.2.1"],
    ask: async ({ podIP }) => {
      at.push(podIP);
      return { result: "success", message: "" };
    },
  });
  const ips = ["2001:db8::5", "10.0.0.5"];
  const sandbox = { id: "s" as SandboxId, attempt: 0, createdAt: 0, ready: true, hostNetwork: false, ips, crashes: 0 };
  const observed = { ...observedSince(room.clock.now()), sandboxes: [sandbox] };
  room.probes.look(observed, desiredWith({ livenessProbe: probe }));
  await room.clock.advance(10_000);
  expect(at[0]).toBe("10.0.0.5");
});

test("fifty containers that want to be asked every second, since any moment, are asked by one timer that rings four times a second", async () => {
  const clock = new FakeClock();
  let [rings, timers] = [0, 0];
  const counting = {
    now: clock.now,
    wakeAt: (at: number, wake: () => void) =>
      clock.wakeAt(at, () => {
        rings++;
        wake();
      }),
  };
  const { asked, probes } = makeRoom({ clock: counting });
  for (let i = 0; i < 50; i++) {
    const [own, id] = [`u${i}` as PodUid, `c${i}` as ContainerId];
    const observed = observedSince(clock.now());
    const containers = observed.containers.map((each) => ({ ...each, id }));
    const desired = { ...desiredWith({ readinessProbe: { ...probe, periodSeconds: 1 } }), uid: own };
    probes.look({ ...observed, uid: own, containers }, desired);
    timers = Math.max(timers, clock.timers);
    await clock.advance(37);
  }
  [rings, asked.length] = [0, 0];
  await clock.advance(10_000);
  expect({ rings, asked: asked.length, timers }).toEqual({ rings: 40, asked: 500, timers: 1 });
  await probes.stop();
});
