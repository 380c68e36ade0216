// However containers exit, whoever is deleted, and however the API server fails meanwhile: each end is told in the end, as it was, and
// nothing is taken back.
import { expect, test } from "bun:test";
import { KubeError } from "../../kube/error.ts";
import { pods } from "../../kube/resource.ts";
import { ContainerState } from "../../proto/cri/gen/api.ts";
import type {
  Container,
  ContainerStatus,
  Pod,
  PodPhase,
  PodSpec,
  PodStatus,
} from "../../proto/kubernetes/gen/types.ts";
import type { FakeKube, KubeVerb } from "../fakes/kube.ts";
import { randomOf } from "../random.ts";
import { takenBack } from "../status-regressions.ts";
import { createStage, type Stage } from "./harness.ts";

const ROUND = 20;
/** Each exit takes some milliseconds; parsers are tried more often. */
const exits = Math.min(20_000, Number(process.env["FUZZ_RUNS"] ?? 1000));
const longMs = 1_800_000;
const seed = Number(process.env["BERTH_SEED"] ?? Math.floor(Math.random() * 1e9));

const verbs: readonly KubeVerb[] = ["get", "list", "watch", "create", "replace", "patch", "delete"];
const cut = () => new KubeError("UNREACHABLE", "cut");
const refusals = [
  () => new KubeError("TOO_MANY_REQUESTS", "too many requests", { status: 429, retryAfterMs: 1000 }),
  () => new KubeError("SERVER", "etcd is away", { status: 500 }),
  () => new KubeError("FORBIDDEN", "not allowed", { status: 403 }),
  () => new KubeError("UNAUTHORIZED", "who are you?", { status: 401 }),
  () => new KubeError("CONFLICT", "the object has been modified", { status: 409 }),
];

/** Ways to fail; each returns what ends it. */
const outages: readonly ((kube: FakeKube, random: () => number) => () => void)[] = [
  (kube, random) => {
    kube.goDown();
    return () => {
      if (random() < 0.3) kube.compact();
      kube.comeBack();
    };
  },
  (kube, random) => kube.refuse(refusals[Math.floor(random() * refusals.length)]!),
  (kube) => {
    const releases = verbs.map((verb) => kube.hang(verb));
    kube.silence();
    return () => {
      kube.cutWatches(cut());
      for (const release of releases) release();
    };
  },
  (kube) => {
    kube.cutWatches(cut());
    return () => undefined;
  },
  (kube) => {
    // What is asked is done, and the answer is lost.
    kube.after.patch = () => {
      throw cut();
    };
    return () => {
      kube.after = {};
    };
  },
];

const ended = (exitCode: number) => `${exitCode === 0 ? "Completed" : "Error"} ${exitCode}`;

/** A pod to be made, and how it ends if nobody deletes it: what is shown of its containers, and before that of those that ran first. */
interface Wanted {
  readonly spec: Partial<PodSpec>;
  readonly phase: PodPhase;
  readonly ends: Readonly<Record<string, string>>;
}

type Random = () => number;
type MakePod = (name: string, stage: Stage, random: Random) => Wanted;

const codeOf = (random: Random) => (random() < 0.3 ? 0 : 1 + Math.floor(random() * 250));
const container = (name: string): Container => ({ name, image: "busybox:1", imagePullPolicy: "IfNotPresent" });

/** Lets a container end at a random moment, and returns its code. */
function program({ runtime }: Stage, name: string, random: Random, exitCode = codeOf(random)): number {
  runtime.programs.set(name, { exitsAfterMs: Math.floor(random() * 20_000), exitCode });
  return exitCode;
}

const kinds: readonly MakePod[] = [
  (name, stage, random) => {
    const code = program(stage, name, random);
    const phase = code === 0 ? "Succeeded" : "Failed";
    return { spec: { restartPolicy: "Never", containers: [container(name)] }, phase, ends: { [name]: ended(code) } };
  },
  (name, stage, random) => {
    const names = [`${name}-a`, `${name}-b`];
    const codes = names.map((each) => program(stage, each, random));
    return {
      spec: { restartPolicy: "Never", containers: names.map(container) },
      phase: codes.every((code) => code === 0) ? "Succeeded" : "Failed",
      ends: Object.fromEntries(names.map((each, at) => [each, ended(codes[at]!)])),
    };
  },
  (name, stage, random) => {
    const first = `${name}-first`;
    const [begun, code] = [program(stage, first, random), program(stage, name, random)];
    const isBegun = begun === 0;
    return {
      spec: { restartPolicy: "Never", initContainers: [container(first)], containers: [container(name)] },
      phase: isBegun && code === 0 ? "Succeeded" : "Failed",
      ends: { [first]: ended(begun), [name]: isBegun ? ended(code) : "waiting" },
    };
  },
  (name, stage, random) => {
    const code = program(stage, name, random, 1 + Math.floor(random() * 250));
    const succeeds = { exitsAfterMs: Math.floor(random() * 10_000), exitCode: 0 };
    onStart(stage, name, (attempt) => attempt > 0 && stage.runtime.programs.set(name, succeeds));
    return {
      spec: { restartPolicy: "OnFailure", containers: [container(name)] },
      phase: "Succeeded",
      ends: { [name]: `${ended(code)}, ${ended(0)}` },
    };
  },
];

/** Calls `begin` before the container of that name is started. */
function onStart({ runtime }: Stage, name: string, begin: (attempt: number) => void): void {
  const before = runtime.before.startContainer;
  runtime.before.startContainer = (about) => {
    const [, of, attempt] = /\/([^/]*) #(\d+)$/.exec(about) ?? [];
    if (of === name) begin(Number(attempt));
    return before?.(about);
  };
}

/** How each container's newest instance ended, as the runtime has it: looked at before anything is removed. */
function endsOf({ runtime }: Stage): () => ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  const look = () => {
    for (const { config, state, startedAt, exitCode } of runtime.containers.values())
      if (state === ContainerState.CONTAINER_EXITED && startedAt > 0n)
        found.set(config.metadata?.name ?? "", ended(exitCode));
  };
  runtime.before = { removeContainer: look, removePodSandbox: look };
  return () => {
    look();
    return found;
  };
}

interface Round {
  readonly wanted: ReadonlyMap<string, Wanted>;
  readonly deleted: ReadonlySet<string>;
}

const OUTAGES = 3;

/** Pods that end at random moments, in a round in which the API server fails some times, and a third of them are deleted meanwhile. */
async function playRound(stage: Stage, round: number, random: Random): Promise<Round> {
  const wanted = new Map<string, Wanted>();
  const deleted = new Set<string>();
  for (let count = 0; count < ROUND; count += 1) {
    const name = `p${round}-${count}`;
    const pod = kinds[Math.floor(random() * kinds.length)]!(name, stage, random);
    await stage.apply(name, { terminationGracePeriodSeconds: 5, ...pod.spec });
    wanted.set(name, pod);
  }
  for (let outage = 0; outage < OUTAGES; outage += 1) {
    await stage.advance(`${Math.floor(random() * 3000)}ms`);
    const end = outages[Math.floor(random() * outages.length)]!(stage.kube, random);
    await stage.advance(`${Math.floor(random() * 4000)}ms`);
    for (const name of wanted.keys())
      if (!deleted.has(name) && random() < 1 / 3 / OUTAGES) {
        await stage.remove(name, 1 + Math.floor(random() * 10));
        deleted.add(name);
      }
    await stage.advance(`${Math.floor(random() * 4000)}ms`);
    if (random() < 0.2) {
      stage.kill();
      await stage.start();
    }
    end();
  }
  return { wanted, deleted };
}

const isOver = ({ status }: Pod) => status?.phase === "Succeeded" || status?.phase === "Failed";

/** Waits until each has ended or is gone, and takes away what is left. */
async function reap(stage: Stage): Promise<void> {
  const all = async () => (await stage.kube.user.list(pods("default"), {})).items;
  const isDone = (pod: Pod) => pod.metadata.deletionTimestamp === undefined && isOver(pod);
  for (let second = 0; second < 120 && !(await all()).every(isDone); second += 1) await stage.advance("1s");
  for (const { metadata } of await all())
    await stage.kube.user.delete(pods("default"), metadata.name!, { gracePeriodSeconds: 0 });
  await stage.advance("15s");
}

/** What was shown last of each pod to whoever watched, and how. */
function lastShown({ kube }: Stage): ReadonlyMap<string, Pod> {
  const ofPods = kube.objects.history.filter(({ resource }) => resource === "pods");
  return new Map(ofPods.map(({ object }) => [object.metadata.name ?? "", object as unknown as Pod]));
}

function shownEnds({
  initContainerStatuses = [],
  containerStatuses = [],
}: PodStatus): Readonly<Record<string, string>> {
  const wordOf = ({ terminated, waiting }: NonNullable<ContainerStatus["state"]> = {}) =>
    terminated ? `${terminated.reason} ${terminated.exitCode}` : waiting ? "waiting" : "running";
  const all = [...initContainerStatuses, ...containerStatuses];
  return Object.fromEntries(
    all.map(({ name, state, lastState }) => [
      name,
      [lastState?.terminated && wordOf(lastState), wordOf(state)].filter((word) => word !== undefined).join(", "),
    ]),
  );
}

/** Of a pod that was deleted: what has run is told as it ended, whoever ended it. */
function expectDeleted(from: string, pod: Pod, actual: ReadonlyMap<string, string>): void {
  const { name = "" } = pod.metadata;
  const shown = shownEnds(pod.status ?? {});
  const own = [...actual].filter(([each]) => each === name || each.startsWith(`${name}-`));
  const last = own.map(([each]) => [each, shown[each]?.split(", ").at(-1)]);
  expect({ from, name, last }).toEqual({ from, name, last: own as [string, string][] });
  if (own.length > 0) expect({ from, name, isOver: isOver(pod) }).toEqual({ from, name, isOver: true });
}

test(
  `after ${exits} exits in pods that end or are deleted at random while the API server fails at random each has the final status that is right (BERTH_SEED=${seed})`,
  async () => {
    const random = randomOf(seed);
    const stage = await createStage({ isInCluster: true, startPlaces: ROUND });
    await stage.start();
    let removed = 0;
    let exited = 0;
    let round = 0;
    for (; exited < exits && round < exits; round += 1) {
      const from = `round ${round}`;
      const actual = endsOf(stage);
      const { wanted, deleted } = await playRound(stage, round, random);
      removed += deleted.size;
      await reap(stage);
      const shown = lastShown(stage);
      for (const [name, { phase, ends }] of wanted) {
        const pod = shown.get(name)!;
        if (deleted.has(name)) {
          expectDeleted(from, pod, actual());
          continue;
        }
        const as = { from, name, phase: pod.status?.phase, ends: shownEnds(pod.status ?? {}) };
        expect(as).toEqual({ from, name, phase, ends });
      }
      const { history } = stage.kube.objects;
      const backwards = history.flatMap(({ resource, type, object, before }) =>
        resource === "pods" && type === "MODIFIED" ? takenBack(before as unknown as Pod, object as unknown as Pod) : [],
      );
      expect({ from, backwards }).toEqual({ from, backwards: [] });
      history.splice(0, history.length);
      stage.kube.compact();
      expect({ from, scene: stage.scene() }).toEqual({ from, scene: [] });
      const happened = stage.runtime.timeline.splice(0);
      exited += happened.filter(({ what, change }) => what === "container" && change === "stopped").length;
    }
    expect(exited).toBeGreaterThanOrEqual(exits);
    // More than a quarter on average; of few pods it may be much less by chance.
    expect(removed).toBeGreaterThan((round * ROUND) / 10);
  },
  longMs,
);
