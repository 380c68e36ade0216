// Outages of the API server, of each kind: afterwards the changes of the outage are applied and its exits are reported.
import { expect, test } from "bun:test";
import { errorOfStatus, KubeError } from "../../kube/error.ts";
import { leases, pods } from "../../kube/resource.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { type FakeClock, settlePromises } from "../fakes/clock.ts";
import type { FakeKube, KubeVerb } from "../fakes/kube.ts";
import { apiScenario } from "./api-scenario.ts";
import { type AgentHarness, createHarness } from "./harness.ts";

const verbs: readonly KubeVerb[] = ["get", "list", "watch", "create", "replace", "patch", "delete"];

/** The longest wait between two attempts to renew the lease. */
const RENEWAL_SECONDS = 7;

interface Fault {
  /** Starts the fault; the returned function ends it. */
  readonly start: (kube: FakeKube, clock: FakeClock) => () => void;
  /** The number of seconds after its end within which everything has recovered. */
  readonly recoverySeconds: number;
  /** Watches keep working. */
  readonly keepsWatches?: boolean;
}

const failWith =
  (...error: ConstructorParameters<typeof KubeError>) =>
  (kube: FakeKube) =>
    kube.failAll(() => new KubeError(...error));

function down(kube: FakeKube): () => void {
  kube.goDown();
  return () => kube.comeBack();
}

/** Calls are not answered and watches go silent; at the end the ping watchdog breaks the connection. */
function hanging(kube: FakeKube): () => void {
  const releases = verbs.map((verb) => kube.hang(verb));
  kube.silenceWatches();
  return () => {
    kube.breakWatches(new KubeError("UNREACHABLE", "no sign of life for 30 s"));
    for (const release of releases) release();
  };
}

function withLostAnswers(kube: FakeKube): () => void {
  const cut = () => {
    throw new KubeError("UNREACHABLE", "cut");
  };
  kube.before.watch = cut;
  for (const verb of verbs) kube.after[verb] = cut;
  kube.breakWatches(new KubeError("UNREACHABLE", "cut"));
  return () => {
    kube.before = {};
    kube.after = {};
  };
}

/** The server is down, and has compacted its history when it is back. */
function forgetting(kube: FakeKube): () => void {
  kube.goDown();
  return () => {
    kube.compact();
    kube.comeBack();
  };
}

/** The server is down, and answers 403 for two seconds after its start, until it has loaded the RBAC rules. */
function forbiddingAtFirst(kube: FakeKube, clock: FakeClock): () => void {
  kube.goDown();
  return () => {
    const forbid = () => {
      throw new KubeError("FORBIDDEN", "not allowed", { status: 403 });
    };
    for (const verb of verbs) kube.before[verb] = forbid;
    clock.wakeAt(clock.now() + 2_000, () => {
      kube.before = {};
    });
    kube.comeBack();
  };
}

/** A proxy in between answers in the place of the API server, each time with another status, and names no reason. */
function behindBrokenProxy(kube: FakeKube): () => void {
  const statuses = [418, 500, 409, 404, 429, 503, 422, 410];
  let requests = 0;
  return kube.failAll(() => errorOfStatus("the proxy", statuses[requests++ % statuses.length]!, {}));
}

/** Writes fail, while reads and watches keep working. */
function failingWrites(kube: FakeKube): () => void {
  for (const verb of ["create", "replace", "patch", "delete"] as const)
    kube.before[verb] = () => {
      throw new KubeError("SERVER", "etcd is unavailable", { status: 500 });
    };
  return () => {
    kube.before = {};
  };
}

/** Every patch of a pod conflicts with a write of another client. */
function conflicting(kube: FakeKube): () => void {
  kube.before.patch = (about) => {
    if (about.startsWith("pods/")) throw new KubeError("CONFLICT", "the object has been modified", { status: 409 });
  };
  return () => {
    kube.before = {};
  };
}

const faults: Readonly<Record<string, Fault>> = {
  "is down": { start: down, recoverySeconds: 2 },
  "answers 429": {
    start: failWith("TOO_MANY_REQUESTS", "too many requests", { status: 429, retryAfterMs: 1000 }),
    recoverySeconds: 8,
  },
  "answers 500": { start: failWith("SERVER", "etcd is unavailable", { status: 500 }), recoverySeconds: 8 },
  "answers 401": { start: failWith("UNAUTHORIZED", "Unauthorized", { status: 401 }), recoverySeconds: 8 },
  "is behind a proxy that answers anything": { start: behindBrokenProxy, recoverySeconds: 8 },
  hangs: { start: hanging, recoverySeconds: 2 },
  "executes calls and loses the answers": { start: withLostAnswers, recoverySeconds: 8 },
  "is down and compacts its history": { start: forgetting, recoverySeconds: 2 },
  "is down and forbids everything after its start": { start: forbiddingAtFirst, recoverySeconds: 8 },
  "cannot write": { start: failingWrites, recoverySeconds: 8, keepsWatches: true },
  "answers each status patch with a conflict": { start: conflicting, recoverySeconds: 8, keepsWatches: true },
};

/** Advances the time and reads the node's lease at the renewal interval, as the lease controller does. */
async function advanceSeconds(harness: AgentHarness, seconds: number): Promise<void> {
  for (let left = seconds; left > 0; left -= RENEWAL_SECONDS) {
    await harness.advance(`${Math.min(left, RENEWAL_SECONDS)}s`);
    void harness.kube.get(leases("kube-node-lease"), "node").catch((error: KubeError) => error.code);
    await settlePromises();
  }
}

const container = (name: string) => ({ name, image: "busybox:1", imagePullPolicy: "IfNotPresent" as const });

for (const [index, [what, { start, recoverySeconds, keepsWatches = false }]] of Object.entries(faults).entries())
  apiScenario(
    `nothing is lost when the API server ${what} for half a minute`,
    async (harness: AgentHarness) => {
      await harness.apply("web", { terminationGracePeriodSeconds: 7 });
      await harness.apply("job", { restartPolicy: "Never", containers: [container("work")] });
      await harness.apply("loop", { containers: [container("again")] });
      await harness.advance("5s");
      const endFault = start(harness.kube, harness.clock);
      await harness.exit("work", 3);
      await harness.exit("again", 1);
      await advanceSeconds(harness, 12);
      await harness.deletePod("web");
      await harness.apply("late");
      await harness.apply("brief");
      await harness.kube.user.delete(pods("default"), "brief", { gracePeriodSeconds: 0 });
      await advanceSeconds(harness, 18);
      endFault();
      await advanceSeconds(harness, recoverySeconds);
    },
    async ({ node, api }, harness) => {
      expect(api).toEqual([
        "job Failed: work terminated Error 3",
        "late Running, ready: a running",
        "loop Running, ready: again running (restarts: 1)",
      ]);
      expect(node.filter((line) => line.startsWith("sandbox"))).toEqual([
        "sandbox job #0 not ready",
        "sandbox late #0 ready",
        "sandbox loop #0 ready",
      ]);
      const starts = harness.runtime.timeline.filter(
        ({ kind: each, change }) => each === "container" && change === "started",
      );
      // Four starts of the four lasting pods plus one restart; `brief` starts only if the watch delivers it.
      expect(starts).toHaveLength(keepsWatches ? 6 : 5);
    },
    { stride: 3, offset: index },
  );

test("watch events that a proxy sends again start no deleted pod, and change no other one", async () => {
  const harness = await createHarness({ isInCluster: true });
  await harness.start();
  await harness.apply("stays");
  for (let count = 0; count < 12; count += 1) await harness.apply(`gone-${count}`);
  await harness.advance("5s");
  await harness.kube.user.patch(pods("default"), "stays", {
    type: "strategic",
    body: { spec: { containers: [{ name: "a", image: "busybox:2" }] } },
  });
  harness.runtime.addImage("busybox:2");
  for (let count = 0; count < 12; count += 1) await harness.deletePod(`gone-${count}`);
  await harness.advance("60s");
  const changes = harness.runtime.timeline.length;
  expect(await harness.apiPods()).toEqual(["stays Running, ready: a running (restarts: 1)"]);
  harness.kube.repeatCreations();
  await harness.advance("60s");
  expect(harness.runtime.timeline.slice(changes)).toEqual([]);
});

test("after an outage of writes the first status patch that succeeds triggers all pending ones", async () => {
  const harness = await createHarness({ isInCluster: true, startSlots: 10 });
  await harness.start();
  const endFault = failingWrites(harness.kube);
  for (let count = 0; count < 10; count += 1) {
    await harness.apply(`web-${count}`);
    await harness.advance("700ms");
  }
  await harness.advance("1m");
  endFault();
  const runningCount = async () => (await harness.apiPods()).filter((line) => line.includes("Running")).length;
  for (let step = 0; step < 80 && (await runningCount()) === 0; step += 1) await harness.advance("100ms");
  await harness.advance("100ms");
  expect(await runningCount()).toBe(10);
});

test("a new agent removes a deleted pod from the API although nothing of it is left on the node", async () => {
  const harness = await createHarness({ isInCluster: true });
  await harness.start();
  await harness.apply("web", { terminationGracePeriodSeconds: 3 });
  await harness.advance("5s");
  const release = harness.kube.hang("delete");
  await harness.deletePod("web");
  await harness.advance("5s");
  expect(await harness.apiPods()).toEqual(["web Failed: a terminated Error 143"]);
  harness.kill();
  harness.kube.goDown();
  await harness.start();
  await harness.advance("5s");
  release();
  harness.kube.comeBack();
  await harness.advance("5s");
  expect(await harness.apiPods()).toEqual([]);
  const ends = harness.kube.objects.history
    .filter(({ resource }) => resource === "pods")
    .map(({ object }) => (object as Pod).status?.containerStatuses?.[0]?.state?.terminated?.exitCode)
    .filter((exitCode) => exitCode !== undefined);
  expect(new Set(ends)).toEqual(new Set([143]));
});
