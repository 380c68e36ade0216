// Random exits and deletions during random outages of the API server: every pod gets its correct final status, and no
// status ever regresses. So with each source of the runtime's events, and whatever time the runtime's status lags
// behind an exit.

import { expect, test } from "bun:test";
import { cgroupRule } from "../../agent/decide/node/cgroup-rule.ts";
import type { NodeRule } from "../../agent/decide/node/node.ts";
import { errorOfStatus, KubeError } from "../../kube/error.ts";
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
import { seededRandom } from "../random.ts";
import { problemsOf } from "./harness/checks-at-end.ts";
import { exitLags, seed } from "./harness/exit-lags.ts";
import { type AgentHarness, createHarness } from "./harness.ts";

const ROUND = 20;
const runs = Number(process.env["FUZZ_RUNS"] ?? 2000);
/**
 * The exits with each source. One takes about ten milliseconds, far longer than an input of the parsers that share
 * FUZZ_RUNS: so a tenth of it, which is 1000 in CI, where both sources together take less than a minute, and 20 000 in
 * `npm run test:extended`.
 */
const exits = Math.max(10, Math.ceil(runs / (runs < 100_000 ? 10 : 5)));
const longMs = 1_800_000;

const verbs: readonly KubeVerb[] = ["get", "list", "watch", "create", "replace", "patch", "delete"];
const cut = () => new KubeError("UNREACHABLE", "cut");
const apiErrors = [
  () => new KubeError("TOO_MANY_REQUESTS", "too many requests", { status: 429, retryAfterMs: 1000 }),
  () => new KubeError("SERVER", "etcd is unavailable", { status: 500 }),
  () => new KubeError("FORBIDDEN", "not allowed", { status: 403 }),
  () => new KubeError("UNAUTHORIZED", "Unauthorized", { status: 401 }),
  () => new KubeError("CONFLICT", "the object has been modified", { status: 409 }),
  ...[404, 409, 418, 422].map((status) => () => errorOfStatus("the proxy", status, {})),
];

/** Starts an outage; the returned function ends it. */
const outages: readonly ((kube: FakeKube, random: () => number) => () => void)[] = [
  (kube, random) => {
    kube.goDown();
    return () => {
      if (random() < 0.3) kube.compact();
      kube.comeBack();
    };
  },
  (kube, random) => kube.failAll(apiErrors[Math.floor(random() * apiErrors.length)]!),
  (kube) => {
    const releases = verbs.map((verb) => kube.hang(verb));
    kube.silenceWatches();
    return () => {
      kube.breakWatches(cut());
      for (const release of releases) release();
    };
  },
  (kube) => {
    kube.breakWatches(cut());
    return () => undefined;
  },
  (kube) => {
    // The patch takes effect, and its answer is lost.
    kube.after.patch = () => {
      throw cut();
    };
    return () => {
      kube.after = {};
    };
  },
];

const ended = (exitCode: number) => `${exitCode === 0 ? "Completed" : "Error"} ${exitCode}`;

/**
 * A pod to create, and its expected end unless it is deleted: its phase and, by container, its termination, after the
 * previous instance's if there was one (`Error 3, Completed 0`).
 */
interface ExpectedPod {
  readonly spec: Partial<PodSpec>;
  readonly phase: PodPhase;
  readonly ends: Readonly<Record<string, string>>;
}

type Random = () => number;
type PodKind = (name: string, harness: AgentHarness, random: Random) => ExpectedPod;

const codeOf = (random: Random) => (random() < 0.3 ? 0 : 1 + Math.floor(random() * 250));
const container = (name: string): Container => ({ name, image: "busybox:1", imagePullPolicy: "IfNotPresent" });

/** Lets a container exit at a random time, and returns its exit code. */
function program({ runtime }: AgentHarness, name: string, random: Random, exitCode = codeOf(random)): number {
  runtime.programs.set(name, { exitsAfterMs: Math.floor(random() * 20_000), exitCode });
  return exitCode;
}

const kinds: readonly PodKind[] = [
  (name, harness, random) => {
    const code = program(harness, name, random);
    const phase = code === 0 ? "Succeeded" : "Failed";
    return { spec: { restartPolicy: "Never", containers: [container(name)] }, phase, ends: { [name]: ended(code) } };
  },
  (name, harness, random) => {
    const names = [`${name}-a`, `${name}-b`];
    const codes = names.map((each) => program(harness, each, random));
    return {
      spec: { restartPolicy: "Never", containers: names.map(container) },
      phase: codes.every((code) => code === 0) ? "Succeeded" : "Failed",
      ends: Object.fromEntries(names.map((each, at) => [each, ended(codes[at]!)])),
    };
  },
  (name, harness, random) => {
    const first = `${name}-first`;
    const [initExitCode, code] = [program(harness, first, random), program(harness, name, random)];
    const isInitialized = initExitCode === 0;
    return {
      spec: { restartPolicy: "Never", initContainers: [container(first)], containers: [container(name)] },
      phase: isInitialized && code === 0 ? "Succeeded" : "Failed",
      ends: { [first]: ended(initExitCode), [name]: isInitialized ? ended(code) : "waiting" },
    };
  },
  (name, harness, random) => {
    const code = program(harness, name, random, 1 + Math.floor(random() * 250));
    const succeeds = { exitsAfterMs: Math.floor(random() * 10_000), exitCode: 0 };
    onStart(harness, name, (attempt) => attempt > 0 && harness.runtime.programs.set(name, succeeds));
    return {
      spec: { restartPolicy: "OnFailure", containers: [container(name)] },
      phase: "Succeeded",
      ends: { [name]: `${ended(code)}, ${ended(0)}` },
    };
  },
];

/** Calls `begin` with the attempt before each start of the container of that name. */
function onStart({ runtime }: AgentHarness, name: string, begin: (attempt: number) => void): void {
  const before = runtime.before.startContainer;
  runtime.before.startContainer = (about) => {
    const [, of, attempt] = /\/([^/]*) #(\d+)$/.exec(about) ?? [];
    if (of === name) begin(Number(attempt));
    return before?.(about);
  };
}

/** Collects how each container's last instance exited in the runtime, also before containers are removed. */
function collectExits({ runtime }: AgentHarness): () => ReadonlyMap<string, string> {
  const found = new Map<string, { readonly attempt: number; readonly end: string }>();
  const collect = () => {
    for (const { config, state, startedAt, exitCode } of runtime.containers.values()) {
      const { name = "", attempt = 0 } = config.metadata ?? {};
      // The agent may remove the last instance before an earlier one.
      const isNewest = attempt >= (found.get(name)?.attempt ?? 0);
      if (state === ContainerState.CONTAINER_EXITED && startedAt > 0n && isNewest)
        found.set(name, { attempt, end: ended(exitCode) });
    }
  };
  runtime.before = { removeContainer: collect, removePodSandbox: collect };
  return () => {
    collect();
    return new Map([...found].map(([name, { end }]) => [name, end]));
  };
}

interface Round {
  readonly expectedPods: ReadonlyMap<string, ExpectedPod>;
  readonly deleted: ReadonlySet<string>;
}

const OUTAGES = 3;

/**
 * Runs pods that exit at random times, with several outages of the API server, and deletes about a third of them
 * meanwhile.
 */
async function runRound(harness: AgentHarness, round: number, random: Random): Promise<Round> {
  const expectedPods = new Map<string, ExpectedPod>();
  const deleted = new Set<string>();
  for (let count = 0; count < ROUND; count += 1) {
    const name = `p${round}-${count}`;
    const pod = kinds[Math.floor(random() * kinds.length)]!(name, harness, random);
    await harness.apply(name, { terminationGracePeriodSeconds: 5, ...pod.spec });
    expectedPods.set(name, pod);
  }
  for (let outage = 0; outage < OUTAGES; outage += 1) {
    await harness.advance(`${Math.floor(random() * 3000)}ms`);
    const end = outages[Math.floor(random() * outages.length)]!(harness.kube, random);
    await harness.advance(`${Math.floor(random() * 4000)}ms`);
    for (const name of expectedPods.keys())
      if (!deleted.has(name) && random() < 1 / 3 / OUTAGES) {
        await harness.deletePod(name, 1 + Math.floor(random() * 10));
        deleted.add(name);
      }
    await harness.advance(`${Math.floor(random() * 4000)}ms`);
    if (random() < 0.2) {
      harness.kill();
      await harness.start();
    }
    end();
    if (random() < 0.5) await dieBeforeStatus(harness);
  }
  return { expectedPods, deleted };
}

/**
 * Waits up to two seconds for an exit that the runtime's status does not show yet, lets the agent report what it knows,
 * and replaces it by the next one.
 */
async function dieBeforeStatus(harness: AgentHarness): Promise<void> {
  for (let waits = 0; waits < 100 && !harness.runtime.hasUnshownExit; waits += 1) await harness.advance("20ms");
  await harness.advance("10ms");
  harness.kill();
  await harness.start();
}

const isOver = ({ status }: Pod) => status?.phase === "Succeeded" || status?.phase === "Failed";

/** Waits until each pod has ended or is gone, and deletes the rest. */
async function reap(harness: AgentHarness): Promise<void> {
  const all = async () => (await harness.kube.user.list(pods("default"), {})).items;
  const isDone = (pod: Pod) => pod.metadata.deletionTimestamp === undefined && isOver(pod);
  for (let second = 0; second < 120 && !(await all()).every(isDone); second += 1) await harness.advance("1s");
  for (const { metadata } of await all())
    await harness.kube.user.delete(pods("default"), metadata.name!, { gracePeriodSeconds: 0 });
  await harness.advance("15s");
}

/** The last state of each pod that a watch delivered. */
function lastDelivered({ kube }: AgentHarness): ReadonlyMap<string, Pod> {
  const ofPods = kube.objects.history.filter(({ resource }) => resource === "pods");
  return new Map(ofPods.map(({ object }) => [object.metadata.name ?? "", object as unknown as Pod]));
}

function reportedTerminations({
  initContainerStatuses = [],
  containerStatuses = [],
}: PodStatus): Readonly<Record<string, string>> {
  const describeState = ({ terminated, waiting }: NonNullable<ContainerStatus["state"]> = {}) =>
    terminated ? `${terminated.reason} ${terminated.exitCode}` : waiting ? "waiting" : "running";
  const all = [...initContainerStatuses, ...containerStatuses];
  return Object.fromEntries(
    all.map(({ name, state, lastState }) => [
      name,
      [lastState?.terminated && describeState(lastState), describeState(state)]
        .filter((text) => text !== undefined)
        .join(", "),
    ]),
  );
}

/** Checks a deleted pod: each container that ran is reported with its real exit. */
function expectDeleted(from: string, pod: Pod, actual: ReadonlyMap<string, string>): void {
  const { name = "" } = pod.metadata;
  const shown = reportedTerminations(pod.status ?? {});
  const own = [...actual].filter(([each]) => each === name || each.startsWith(`${name}-`));
  const last = own.map(([each]) => [each, shown[each]?.split(", ").at(-1)]);
  expect({ from, name, last }).toEqual({ from, name, last: own as [string, string][] });
  if (own.length > 0) expect({ from, name, isOver: isOver(pod) }).toEqual({ from, name, isOver: true });
}

/** What the pods of a round have left on the node. The cgroups above those of pods stay. */
function leftOf(harness: AgentHarness): readonly string[] {
  return harness.nodeSnapshot().filter((line) => !/^cgroup kubepods(\/burstable|\/besteffort)? /.test(line));
}

test.each(["containerd-events", "cri-events"] as const)(
  `after ${exits} exits with random deletions and outages each pod has its correct final status, with %s (BERTH_SEED=${seed})`,
  async (eventSource) => {
    const random = seededRandom(seed);
    const exitLagMs = exitLags(seededRandom(seed + 1));
    const harness = await createHarness({
      ...{ isInCluster: true, startSlots: ROUND, eventSource, exitLagMs },
      ...{ hasCgroups: true, nodeRules: [cgroupRule as NodeRule] },
    });
    await harness.start();
    let removed = 0;
    let exited = 0;
    let round = 0;
    for (; exited < exits && round < exits; round += 1) {
      const from = `round ${round}`;
      const actual = collectExits(harness);
      const { expectedPods, deleted } = await runRound(harness, round, random);
      removed += deleted.size;
      await reap(harness);
      const shown = lastDelivered(harness);
      for (const [name, { phase, ends }] of expectedPods) {
        const pod = shown.get(name)!;
        if (deleted.has(name)) {
          expectDeleted(from, pod, actual());
          continue;
        }
        const actualState = { from, name, phase: pod.status?.phase, ends: reportedTerminations(pod.status ?? {}) };
        expect(actualState).toEqual({ from, name, phase, ends });
      }
      const { history } = harness.kube.objects;
      expect({ from, problems: problemsOf(harness, []) }).toEqual({ from, problems: [] });
      history.splice(0, history.length);
      harness.kube.compact();
      expect({ from, fixture: leftOf(harness) }).toEqual({ from, fixture: [] });
      const changes = harness.runtime.timeline.splice(0);
      exited += changes.filter(({ kind, change }) => kind === "container" && change === "stopped").length;
    }
    expect(exited).toBeGreaterThanOrEqual(exits);
    // On average more than a quarter of the pods are deleted; in few rounds it may be far less by chance.
    expect(removed).toBeGreaterThan(round < 10 ? 0 : (round * ROUND) / 10);
  },
  longMs,
);
