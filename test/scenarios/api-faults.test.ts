// An API server that fails, in each of the ways that it has: what it asked for meanwhile is done, and what happened meanwhile is told.
import { expect, test } from "bun:test";
import { KubeError } from "../../kube/error.ts";
import { leases, pods } from "../../kube/resource.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { type FakeClock, rest } from "../fakes/clock.ts";
import type { FakeKube, KubeVerb } from "../fakes/kube.ts";
import { apiScenario } from "./api-scenario.ts";
import { createStage, type Stage } from "./harness.ts";

const verbs: readonly KubeVerb[] = ["get", "list", "watch", "create", "replace", "patch", "delete"];

/** The longest wait between two attempts to renew the lease. */
const RENEWAL_SECONDS = 7;

interface Fault {
  /** It begins; the function returned ends it. */
  readonly begin: (kube: FakeKube, clock: FakeClock) => () => void;
  /** How many seconds after its end everything is as it should be. */
  readonly within: number;
  /** Watches go on. */
  readonly isHeard?: boolean;
}

const answering =
  (...error: ConstructorParameters<typeof KubeError>) =>
  (kube: FakeKube) =>
    kube.refuse(() => new KubeError(...error));

function down(kube: FakeKube): () => void {
  kube.goDown();
  return () => kube.comeBack();
}

/** Calls are not answered, and the connection is found dead after half a minute, again and again. */
function hanging(kube: FakeKube): () => void {
  const releases = verbs.map((verb) => kube.hang(verb));
  kube.silence();
  return () => {
    kube.cutWatches(new KubeError("UNREACHABLE", "no sign of life for 30 s"));
    for (const release of releases) release();
  };
}

function withLostAnswers(kube: FakeKube): () => void {
  const cut = () => {
    throw new KubeError("UNREACHABLE", "cut");
  };
  kube.before.watch = cut;
  for (const verb of verbs) kube.after[verb] = cut;
  kube.cutWatches(new KubeError("UNREACHABLE", "cut"));
  return () => {
    kube.before = {};
    kube.after = {};
  };
}

/** What a watch would go on from is forgotten when the server is back. */
function forgetting(kube: FakeKube): () => void {
  kube.goDown();
  return () => {
    kube.compact();
    kube.comeBack();
  };
}

/** It knows for two seconds after its start of nobody what they may do. */
function forbiddingAtFirst(kube: FakeKube, clock: FakeClock): () => void {
  kube.goDown();
  return () => {
    const refuse = () => {
      throw new KubeError("FORBIDDEN", "not allowed", { status: 403 });
    };
    for (const verb of verbs) kube.before[verb] = refuse;
    clock.wakeAt(clock.now() + 2_000, () => {
      kube.before = {};
    });
    kube.comeBack();
  };
}

/** It cannot write, and goes on to tell what it knows. */
function failingWrites(kube: FakeKube): () => void {
  for (const verb of ["create", "replace", "patch", "delete"] as const)
    kube.before[verb] = () => {
      throw new KubeError("SERVER", "etcd is away", { status: 500 });
    };
  return () => {
    kube.before = {};
  };
}

/** Somebody else writes to each pod while its status is told. */
function conflicting(kube: FakeKube): () => void {
  kube.before.patch = (about) => {
    if (about.startsWith("pods/")) throw new KubeError("CONFLICT", "the object has been modified", { status: 409 });
  };
  return () => {
    kube.before = {};
  };
}

const faults: Readonly<Record<string, Fault>> = {
  "is down": { begin: down, within: 3 },
  "answers 429": {
    begin: answering("TOO_MANY_REQUESTS", "too many requests", { status: 429, retryAfterMs: 1000 }),
    within: 8,
  },
  "answers 500": { begin: answering("SERVER", "etcd is away", { status: 500 }), within: 8 },
  "answers 401": { begin: answering("UNAUTHORIZED", "who are you?", { status: 401 }), within: 8 },
  "answers nothing": { begin: hanging, within: 3 },
  "does what it is asked and cannot say so": { begin: withLostAnswers, within: 8 },
  "has forgotten where its watches were": { begin: forgetting, within: 3 },
  "forbids everything for a moment after its start": { begin: forbiddingAtFirst, within: 8 },
  "cannot write": { begin: failingWrites, within: 8, isHeard: true },
  "answers each status with a conflict": { begin: conflicting, within: 8, isHeard: true },
};

/** Lets time pass, and asks for the node's lease now and then, as a node does that is more than its pods. */
async function pass(stage: Stage, seconds: number): Promise<void> {
  for (let left = seconds; left > 0; left -= RENEWAL_SECONDS) {
    await stage.advance(`${Math.min(left, RENEWAL_SECONDS)}s`);
    void stage.kube.get(leases("kube-node-lease"), "node").catch((error: KubeError) => error.code);
    await rest();
  }
}

const container = (name: string) => ({ name, image: "busybox:1", imagePullPolicy: "IfNotPresent" as const });

for (const [index, [what, { begin, within, isHeard = false }]] of Object.entries(faults).entries())
  apiScenario(
    `an API server that ${what} for half a minute: nothing is lost`,
    async (stage: Stage) => {
      await stage.apply("web", { terminationGracePeriodSeconds: 7 });
      await stage.apply("job", { restartPolicy: "Never", containers: [container("work")] });
      await stage.apply("loop", { containers: [container("again")] });
      await stage.advance("5s");
      const end = begin(stage.kube, stage.clock);
      await stage.exit("work", 3);
      await stage.exit("again", 1);
      await pass(stage, 12);
      await stage.remove("web");
      await stage.apply("late");
      await stage.apply("brief");
      await stage.kube.user.delete(pods("default"), "brief", { gracePeriodSeconds: 0 });
      await pass(stage, 18);
      end();
      await pass(stage, within);
    },
    async ({ node, api }, stage) => {
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
      const starts = stage.runtime.timeline.filter(
        ({ what: each, change }) => each === "container" && change === "started",
      );
      // Each pod once, one of them once more; what was gone before anybody heard of it never.
      expect(starts).toHaveLength(isHeard ? 6 : 5);
    },
    { apart: 3, shift: index },
  );

test("where only what is told fails, the first word that is taken brings all the others", async () => {
  const stage = await createStage({ isInCluster: true, startPlaces: 10 });
  await stage.start();
  const end = failingWrites(stage.kube);
  for (let count = 0; count < 10; count += 1) {
    await stage.apply(`web-${count}`);
    await stage.advance("700ms");
  }
  await stage.advance("1m");
  end();
  const told = async () => (await stage.shown()).filter((line) => line.includes("Running")).length;
  for (let step = 0; step < 80 && (await told()) === 0; step += 1) await stage.advance("100ms");
  await stage.advance("100ms");
  expect(await told()).toBe(10);
});

test("a pod of which nothing is left on the node is removed from the API also by an agent that began without it", async () => {
  const stage = await createStage({ isInCluster: true });
  await stage.start();
  await stage.apply("web", { terminationGracePeriodSeconds: 3 });
  await stage.advance("5s");
  const release = stage.kube.hang("delete");
  await stage.remove("web");
  await stage.advance("5s");
  expect(await stage.shown()).toEqual(["web Failed: a terminated Error 143"]);
  stage.kill();
  stage.kube.goDown();
  await stage.start();
  await stage.advance("5s");
  release();
  stage.kube.comeBack();
  await stage.advance("5s");
  expect(await stage.shown()).toEqual([]);
  const ends = stage.kube.objects.history
    .filter(({ resource }) => resource === "pods")
    .map(({ object }) => (object as Pod).status?.containerStatuses?.[0]?.state?.terminated?.exitCode)
    .filter((exitCode) => exitCode !== undefined);
  expect(new Set(ends)).toEqual(new Set([143]));
});
