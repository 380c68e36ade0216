import { expect, test } from "bun:test";
import { CriError } from "../../cri/error.ts";
import type { ContainerId, PodUid, SandboxId } from "../../proto/ids.ts";
import type { Pod, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { FakeClock, rest } from "../../test/fakes/clock.ts";
import { explain } from "../act/failure-reasons.ts";
import type { ActionKind } from "../decide/pod/action.ts";
import type { DesiredNow } from "../decide/pod/desired.ts";
import { nothingObserved, type ObservedPod } from "../decide/pod/observed.ts";
import type { Done, Rooms } from "../rooms.ts";
import { createLoop } from "./loop.ts";

type Act = (signal: AbortSignal, uid: PodUid) => Promise<Done>;

/**
 * A loop whose node shows nothing unless `seen` says so, and whose actions all say that they are done unless `acts` says
 * otherwise. `story` has one line for each thing that the loop asked of the rooms.
 */
function createScene({ startPlaces = 4, ...replaced }: Partial<Rooms> & { readonly startPlaces?: number } = {}) {
  const clock = new FakeClock();
  const story: string[] = [];
  const wanted = new Map<PodUid, DesiredNow | "unknown">();
  const seen = new Map<PodUid, Partial<ObservedPod>>();
  const acts: Partial<Record<ActionKind, Act>> = {};
  const tell = (line: string) => void story.push(`${clock.elapsedMs / 1000}s ${line}`);
  const rooms: Rooms = {
    desired: (uid) => wanted.get(uid),
    observe: async (uid) => ({ ...nothingObserved(uid, "shop", uid), ...seen.get(uid) }),
    async act(uid, _desired, _observed, action, { signal }) {
      tell(`${uid}: ${action.kind}`);
      return (await acts[action.kind]?.(signal, uid)) ?? {};
    },
    explain,
    report: () => {},
    begins: () => {},
    took: ({ uid, action, result }) => {
      if (result === "given up") tell(`${uid}: ${action.kind} given up`);
      else if (!result.ok) tell(`${uid}: ${action.kind} failed: ${result.message}`);
    },
    finished: (uid) => tell(`${uid}: finished`),
    blind: (uid) => tell(`${uid}: blind`),
    ...replaced,
  };
  const settings = () => ({ maxContainerRestartPeriodMs: 300_000, runtimeName: "fake", hostIPs: [] });
  const loop = createLoop({ clock, rooms, settings, startPlaces });
  const want = (name: string, spec: Partial<PodSpec> = {}) => {
    const uid = name as PodUid;
    const pod: Pod = {
      metadata: { name, namespace: "shop", uid },
      spec: { containers: [{ name: "a", image: "busybox:1", imagePullPolicy: "IfNotPresent" }], ...spec },
    };
    wanted.set(uid, { uid, pod, source: { kind: "file", path: "/m" }, acceptedAt: clock.now(), revision: 0 });
    return uid;
  };
  const told = () => story.splice(0);
  return { clock, wanted, seen, acts, loop, want, told };
}

const present = new Map([
  ["busybox:1", { present: true, ref: "r", user: { uid: undefined, username: "" } }],
]) as ObservedPod["images"];
const sandbox = {
  id: "s" as SandboxId,
  attempt: 0,
  createdAt: 0,
  ready: true,
  ips: ["10.0.0.7"],
  hostNetwork: false,
  crashes: 0,
};
const until = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason), { once: true }));

test("an action that says it is done, and of which nothing is seen, is a failure that waits its turn, longer each time", async () => {
  const { clock, seen, loop, want, told } = createScene();
  const uid = want("web");
  seen.set(uid, { images: present });
  loop.wake(uid);
  await clock.advance(40_000);
  const sandboxes = told().filter((line) => line.includes("runSandbox"));
  expect(sandboxes.slice(0, 3)).toEqual([
    "0s web: runSandbox",
    "0s web: runSandbox failed: Failed to create pod sandbox: it was reported as done, but nothing has changed",
    "1s web: runSandbox",
  ]);
  expect(sandboxes.filter((line) => line.endsWith("runSandbox"))).toEqual(
    [0, 1, 3, 7, 15, 30].map((seconds) => `${seconds}s web: runSandbox`),
  );
});

test("what only an event has told yet is reported, and acted upon once the runtime shows it", async () => {
  const reports: string[] = [];
  const { clock, seen, loop, want, told } = createScene({ report: (uid) => void reports.push(uid) });
  const uid = want("web");
  seen.set(uid, { images: present, isAhead: true });
  loop.wake(uid);
  await clock.advance(5000);
  expect({ reports, acts: told() }).toEqual({ reports: ["web"], acts: [] });
  seen.set(uid, { images: present });
  loop.wake(uid);
  await rest();
  expect(told()[0]).toBe("5s web: prepareVolumes");
});

test("an action that fails is tried again after a delay that doubles", async () => {
  const { clock, seen, acts, loop, want, told } = createScene();
  acts.runSandbox = () => Promise.reject(new CriError("UNKNOWN", "RunPodSandbox", "no network"));
  const uid = want("web");
  seen.set(uid, { images: present });
  loop.wake(uid);
  await clock.advance(8000);
  expect(told().filter((line) => line.endsWith("runSandbox"))).toEqual(
    [0, 1, 3, 7].map((seconds) => `${seconds}s web: runSandbox`),
  );
});

test("when the runtime is back, what it missed is tried at once", async () => {
  const { clock, seen, acts, loop, want, told } = createScene();
  acts.runSandbox = () => Promise.reject(new CriError("UNAVAILABLE", "RunPodSandbox", "away"));
  const uid = want("web");
  seen.set(uid, { images: present });
  loop.wake(uid);
  await clock.advance(500);
  told();
  loop.forgive();
  loop.wake(uid);
  await rest();
  expect(told()[0]).toBe("0.5s web: runSandbox");
});

test("wakes during a look are one more look after it, and never one beside it", async () => {
  const looks: (() => void)[] = [];
  const { loop, want, wanted } = createScene({
    observe: (uid) => new Promise((resolve) => looks.push(() => resolve(nothingObserved(uid, "shop", "web")))),
  });
  const uid = want("web");
  // It is held back by a pod of the same name, so that there is nothing to do.
  wanted.set(uid, { ...(wanted.get(uid) as DesiredNow), waitsFor: "before" as PodUid });
  loop.wake(uid);
  await rest();
  for (let n = 0; n < 3; n++) loop.wake(uid);
  expect(looks).toHaveLength(1);
  looks[0]?.();
  await rest();
  expect(looks).toHaveLength(2);
  looks[1]?.();
  await loop.settled();
  expect(looks).toHaveLength(2);
});

const reentrant: readonly (readonly [room: string, wakesIn: "desired" | "observe"])[] = [
  ["asks what is wanted", "desired"],
  ["looks at the node", "observe"],
];
for (const [sentence, wakesIn] of reentrant)
  test(`a wake from within a turn that ${sentence} begins no second turn beside it`, async () => {
    let looking = 0;
    let most = 0;
    let wakes = 0;
    const wakeIn = (room: string) => {
      if (room === wakesIn && wakes++ === 0) loop.wake(uid);
    };
    const { loop } = createScene({
      desired: () => {
        wakeIn("desired");
        return undefined;
      },
      observe: async () => {
        wakeIn("observe");
        most = Math.max(most, ++looking);
        await rest();
        looking--;
        return { ...nothingObserved(uid, "shop", "web"), hasFiles: true };
      },
      act: () => new Promise(() => {}),
    });
    const uid = "web" as PodUid;
    loop.wake(uid);
    await rest();
    await rest();
    expect([wakes > 0, most]).toEqual([true, 1]);
  });

test("a wake during an action is a look after it, and many wakes are one", async () => {
  let looks = 0;
  const acting = Promise.withResolvers<Done>();
  const { loop, want } = createScene({
    observe: async (uid) => {
      looks++;
      return nothingObserved(uid, "shop", "web");
    },
    act: async (_uid, _desired, _observed, action) =>
      action.kind === "prepareVolumes" ? acting.promise : await new Promise(() => {}),
  });
  const uid = want("web");
  loop.wake(uid);
  await rest();
  expect(looks).toBe(1);
  for (let n = 0; n < 5; n++) loop.wake(uid);
  acting.resolve({});
  await rest();
  expect(looks).toBe(2);
});

test("a wake while nothing is to be done is one look, and no timer runs", async () => {
  let looks = 0;
  const { clock, wanted, loop } = createScene({
    observe: async (uid) => {
      looks++;
      return nothingObserved(uid, "", "");
    },
  });
  wanted.set("web" as PodUid, "unknown");
  loop.wake("web" as PodUid);
  await clock.advance(600_000);
  expect(looks).toBe(0);
  expect(await loop.settled()).toBeUndefined();
});

test("an interruption aborts what is under way, pulls too, and looks again", async () => {
  const { seen, acts, loop, want, wanted, told } = createScene();
  acts.runSandbox = until;
  acts.pullImage = until;
  const uid = want("web");
  seen.set(uid, { images: new Map([["busybox:1", { present: false }]]) });
  loop.wake(uid);
  await rest();
  told();
  const desired = wanted.get(uid) as DesiredNow;
  wanted.set(uid, { ...desired, termination: { requestedAt: 0, gracePeriodSeconds: 1, why: "its manifest is gone" } });
  loop.interrupt(uid);
  await rest();
  expect(told().toSorted()).toEqual(["0s web: finished", "0s web: pullImage given up", "0s web: runSandbox given up"]);
});

test("a pull runs beside the pod's turns, and its end is a look", async () => {
  const { seen, acts, loop, want, told } = createScene();
  const pulling = Promise.withResolvers<Done>();
  acts.pullImage = () => pulling.promise;
  const uid = want("web");
  acts.runSandbox = async () => {
    seen.set(uid, { sandboxes: [sandbox], images: new Map([["busybox:1", { present: false }]]) });
    return {};
  };
  seen.set(uid, { images: new Map([["busybox:1", { present: false }]]) });
  acts.createContainer = () => new Promise(() => {});
  loop.wake(uid);
  await rest();
  expect(told().toSorted()).toEqual(["0s web: prepareVolumes", "0s web: pullImage", "0s web: runSandbox"]);
  seen.set(uid, { sandboxes: [sandbox], images: present });
  pulling.resolve({ imageRef: "r" });
  await rest();
  expect(told()).toEqual(["0s web: createContainer"]);
});

const lives = {
  id: "c" as ContainerId,
  name: "a",
  sandboxId: sandbox.id,
  attempt: 0,
  createdAt: 0,
  image: "busybox:1",
  imageRef: "r",
  hash: undefined,
  crashes: 0,
  state: "running",
  startedAt: 0,
} as const;
const ended = { ...lives, state: "exited", finishedAt: 0, exitCode: 143, reason: "Error", message: "" } as const;
const deleted = { termination: { requestedAt: 0, gracePeriodSeconds: 30, why: "it was deleted" } };

/** A pod that ends, whose container is being stopped. */
async function createStopping(rooms: Partial<Rooms> = {}) {
  const scene = createScene(rooms);
  const uid = scene.want("web");
  scene.wanted.set(uid, { ...(scene.wanted.get(uid) as DesiredNow), ...deleted });
  scene.seen.set(uid, { sandboxes: [sandbox], containers: [lives] });
  scene.acts.stopContainer = until;
  scene.loop.wake(uid);
  await rest();
  expect(scene.told()).toEqual(["0s web: stopContainer"]);
  return { ...scene, uid };
}

test("a stop runs beside the pod's turns: what happens meanwhile is told, and it is asked for once", async () => {
  const reports: string[] = [];
  const { uid, loop, told } = await createStopping({ report: (about) => void reports.push(about) });
  loop.wake(uid);
  await rest();
  expect({ reports, told: told() }).toEqual({ reports: ["web", "web"], told: [] });
});

test("a stop is given up and asked for anew when the pod has to end sooner", async () => {
  const { uid, wanted, loop, told } = await createStopping();
  const sooner = { ...deleted.termination, gracePeriodSeconds: 5 };
  wanted.set(uid, { ...(wanted.get(uid) as DesiredNow), termination: sooner });
  loop.interrupt(uid);
  await rest();
  expect(told()).toEqual(["0s web: stopContainer given up", "0s web: stopContainer"]);
});

test("an interruption that comes behind a turn which went by the word already disturbs nothing, and begins no hook twice", async () => {
  const { uid, wanted, loop, told } = await createStopping();
  // The same word, read once more.
  wanted.set(uid, { ...(wanted.get(uid) as DesiredNow), termination: { ...deleted.termination } });
  loop.interrupt(uid);
  await rest();
  expect(told()).toEqual([]);
});

test("neither does it disturb the calls of that turn; those of a pod whose end nobody has asked for any more are given up", async () => {
  const { wanted, seen, acts, loop, want, told } = createScene();
  const uid = want("web");
  wanted.set(uid, { ...(wanted.get(uid) as DesiredNow), ...deleted });
  seen.set(uid, { sandboxes: [sandbox] });
  acts.stopSandbox = until;
  loop.wake(uid);
  await rest();
  loop.interrupt(uid);
  await rest();
  expect(told()).toEqual(["0s web: stopSandbox"]);
  wanted.delete(uid);
  loop.interrupt(uid);
  await rest();
  expect(told()).toEqual(["0s web: stopSandbox given up", "0s web: stopSandbox"]);
});

test("a loop that stops waits for no grace", async () => {
  const { loop, told } = await createStopping();
  await loop.stop();
  expect(told()).toEqual(["0s web: stopContainer given up"]);
});

test("the sandbox is not stopped before the stop of its container has ended, although that has exited", async () => {
  const { uid, loop, seen, told } = await createStopping();
  seen.set(uid, { sandboxes: [sandbox], containers: [ended] });
  loop.wake(uid);
  await rest();
  expect(told()).toEqual([]);
});

test("a look that was begun before a stop has ended does not make its success a failure", async () => {
  const looks: (() => void)[] = [];
  const stopping = Promise.withResolvers<Done>();
  let containers: ObservedPod["containers"] = [lives];
  const { loop, acts, told, want, wanted } = createScene({
    async observe(about) {
      const found = containers;
      await new Promise<void>((resolve) => looks.push(resolve));
      return { ...nothingObserved(about, "shop", about), sandboxes: [sandbox], containers: found };
    },
  });
  const uid = want("web");
  wanted.set(uid, { ...(wanted.get(uid) as DesiredNow), ...deleted });
  acts.stopContainer = () => stopping.promise;
  acts.stopSandbox = () => new Promise(() => {});
  const look = async () => {
    await rest();
    looks.shift()?.();
    await rest();
  };
  loop.wake(uid);
  await look();
  loop.wake(uid);
  await rest();
  containers = [ended];
  stopping.resolve({});
  await look();
  await look();
  expect(told()).toEqual(["0s web: stopContainer", "0s web: stopSandbox"]);
});

test("neither does a look that was begun before a pull has ended", async () => {
  const looks: (() => void)[] = [];
  const pulling = Promise.withResolvers<Done>();
  let images: ObservedPod["images"] = new Map([["busybox:1", { present: false }]]);
  const { loop, acts, told, want } = createScene({
    async observe(about) {
      const found = images;
      await new Promise<void>((resolve) => looks.push(resolve));
      return { ...nothingObserved(about, "shop", about), sandboxes: [sandbox], images: found };
    },
  });
  const uid = want("web");
  acts.pullImage = () => pulling.promise;
  acts.createContainer = () => new Promise(() => {});
  const look = async () => {
    await rest();
    looks.shift()?.();
    await rest();
  };
  loop.wake(uid);
  for (let turn = 0; turn < 4; turn++) await look();
  expect(told()).toContain("0s web: pullImage");
  loop.wake(uid);
  await rest();
  images = present;
  pulling.resolve({ imageRef: "r" });
  for (let turn = 0; turn < 4; turn++) await look();
  expect(told().filter((line) => line.includes("failed"))).toEqual([]);
});

test("a mistake in what is decided or told of one pod is that pod's alone, and it is tried again", async () => {
  let isWrong = true;
  const { clock, loop, want, told } = createScene({
    report(uid) {
      if (uid === "odd" && isWrong) throw new TypeError("undefined is not an object");
    },
  });
  for (const name of ["odd", "well"]) loop.wake(want(name));
  await clock.advance(1_000);
  expect(told().filter((line) => /blind|prepareVolumes/.test(line))).toEqual([
    "0s odd: blind",
    "0s well: prepareVolumes",
  ]);
  isWrong = false;
  await clock.advance(2_000);
  expect(told()).toContain("2s odd: prepareVolumes");
});

test("so many pods start at once and no more, the important ones first", async () => {
  const { seen, acts, loop, want, told } = createScene({ startPlaces: 2 });
  let running = 0;
  let most = 0;
  const ends: (() => void)[] = [];
  acts.prepareVolumes = async (_signal, uid) => {
    running++;
    most = Math.max(most, running);
    await new Promise<void>((resolve) => ends.push(resolve));
    running--;
    seen.set(uid, { sandboxes: [sandbox], images: new Map([["busybox:1", { present: true }]]) as never });
    return {};
  };
  acts.runSandbox = () => Promise.reject(new CriError("UNKNOWN", "RunPodSandbox", "no"));
  acts.createContainer = () => Promise.reject(new CriError("UNKNOWN", "CreateContainer", "no"));
  for (const [name, priority] of [
    ["a", 0],
    ["b", 0],
    ["low", 0],
    ["high", 1000],
  ] as const)
    loop.wake(want(name, { priority }));
  await rest();
  while (ends.length > 0) {
    ends.shift()?.();
    await rest();
  }
  expect(most).toBe(2);
  const order = told().filter((line) => line.endsWith("prepareVolumes"));
  expect(order).toEqual(["a", "b", "high", "low"].map((name) => `0s ${name}: prepareVolumes`));
});

test("endings need no place: they go on while all places are taken", async () => {
  const { seen, acts, loop, want, told } = createScene({ startPlaces: 1 });
  acts.prepareVolumes = () => new Promise(() => {});
  loop.wake(want("web"));
  await rest();
  const gone = "gone" as PodUid;
  seen.set(gone, { sandboxes: [sandbox] });
  acts.stopSandbox = async () => {
    seen.set(gone, { sandboxes: [{ ...sandbox, ready: false }] });
    return {};
  };
  acts.removeSandbox = async () => {
    seen.delete(gone);
    return {};
  };
  loop.wake(gone);
  await rest();
  expect(told()).toEqual([
    "0s web: prepareVolumes",
    "0s gone: stopSandbox",
    "0s gone: removeSandbox",
    "0s gone: finished",
  ]);
});

test("a pod that ends while it starts gives its place to the next", async () => {
  const { acts, loop, want, wanted, told } = createScene({ startPlaces: 1 });
  acts.prepareVolumes = until;
  const [first, second] = [want("a"), want("b")];
  loop.wake(first);
  loop.wake(second);
  await rest();
  wanted.delete(first);
  loop.interrupt(first);
  await rest();
  expect(told()).toEqual([
    "0s a: prepareVolumes",
    "0s a: prepareVolumes given up",
    "0s a: finished",
    "0s b: prepareVolumes",
  ]);
});

test("a look that fails is told, and made again after two seconds, and then after delays that double up to thirty", async () => {
  let isAway = true;
  const { clock, loop, want, told } = createScene({
    observe: async (uid) => {
      if (isAway) throw new CriError("UNAVAILABLE", "ListPodSandbox", "away");
      return nothingObserved(uid, "shop", uid);
    },
  });
  const uid = want("web");
  const blindAt = () => told().flatMap((line) => (line.endsWith("blind") ? [line.split(" ")[0]] : []));
  loop.wake(uid);
  await clock.advance(121_000);
  expect(blindAt()).toEqual(["0s", "2s", "6s", "14s", "30s", "60s", "90s", "120s"]);
  // Whoever wakes it meanwhile is heard at once, and makes nothing later.
  loop.wake(uid);
  await clock.advance(29_000);
  expect(blindAt()).toEqual(["121s", "150s"]);
  // What was away is back, and away again.
  loop.forgive();
  loop.wake(uid);
  await clock.advance(2_000);
  expect(blindAt()).toEqual(["150s", "152s"]);
  isAway = false;
  await clock.advance(4_000);
  isAway = true;
  loop.wake(uid);
  await clock.advance(2_000);
  expect(blindAt().slice(-2)).toEqual(["156s", "158s"]);
});

test("a decision that keeps failing is made again after delays that double", async () => {
  const { clock, loop, want, told } = createScene({
    report() {
      throw new TypeError("undefined is not an object");
    },
  });
  loop.wake(want("odd"));
  await clock.advance(60_000);
  expect(told()).toEqual([0, 2, 6, 14, 30, 60].map((seconds) => `${seconds}s odd: blind`));
});

test("a pod of which nothing is left is finished once, and a wake in its last turn begins it anew", async () => {
  const { loop, told } = createScene({
    observe: async (uid) => {
      await rest();
      if (looks++ === 0) loop.wake(uid);
      return nothingObserved(uid, "shop", "web");
    },
  });
  let looks = 0;
  loop.wake("web" as PodUid);
  await loop.settled();
  expect(told()).toEqual(["0s web: finished", "0s web: finished"]);
  expect(looks).toBe(2);
});

test("after a stop no turn is taken and no timer wakes anybody; it waits for what is under way", async () => {
  const { clock, seen, acts, loop, want, told } = createScene();
  const acting = Promise.withResolvers<Done>();
  acts.prepareVolumes = () => acting.promise;
  const uid = want("web");
  seen.set(uid, { images: present });
  loop.wake(uid);
  await rest();
  let hasStopped = false;
  const stopped = loop.stop().then(() => {
    hasStopped = true;
  });
  await rest();
  expect(hasStopped).toBe(false);
  acting.resolve({});
  await stopped;
  expect(clock.timers).toBe(0);
  loop.wake(uid);
  await clock.advance(60_000);
  expect(told()).toEqual(["0s web: prepareVolumes"]);
});
