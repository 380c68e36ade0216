// `kubectl patch --subresource resize` on a pod of the API, with the agent dying after any call.
import { expect, test } from "bun:test";
import { CriError } from "../../cri/error.ts";
import { pods } from "../../kube/resource.ts";
import type { Container, Pod, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { createInCluster, runInCluster } from "./api-scenario.ts";
import { type NodeOptions, testDeaths } from "./harness/death-tests.ts";
import type { ExpectedRegression } from "./harness/expected-regressions.ts";
import type { HarnessOptions } from "./harness/harness-options.ts";
import type { AgentHarness } from "./harness.ts";
import { makePod } from "./harness.ts";
import { filterLines } from "./scenario.ts";

const MI = 1_048_576n;

/** `cpu` and `memory` as request and limit. */
const sized = (name: string, cpu: string, memory: string, more: Partial<Container> = {}): Container => ({
  name,
  image: "busybox:1",
  imagePullPolicy: "IfNotPresent",
  resources: { requests: { cpu, memory }, limits: { cpu, memory } },
  ...more,
});
const restartFor = (resourceName: string): Pick<Container, "resizePolicy"> => ({
  resizePolicy: [{ resourceName, restartPolicy: "RestartContainer" }],
});

async function resize({ kube }: AgentHarness, name: string, containers: readonly Container[]): Promise<void> {
  await kube.user.patch(pods("default"), name, { type: "merge", body: { spec: { containers } } });
}

/** What a user sees of the pods, and what the runtime limits their containers to. */
async function resourcesOf({ kube, runtime }: AgentHarness): Promise<readonly string[]> {
  const { items } = await kube.user.list(pods("default"), {});
  return items.flatMap((pod) => [...statusLines(pod), ...runtimeLines(runtime, pod)]);
}

function statusLines({ metadata, status }: Pod): readonly string[] {
  const list = (amounts: object = {}) =>
    Object.entries(amounts)
      .map(([name, amount]) => `${name} ${amount}`)
      .join(", ");
  const containers = (status?.containerStatuses ?? []).map(
    ({ name, allocatedResources, resources, restartCount }) =>
      `${metadata.name}/${name}: allocated ${list(allocatedResources)}; requests ${list(resources?.requests)}; limits ${list(resources?.limits)}; restarts ${restartCount}`,
  );
  const conditions = (status?.conditions ?? [])
    .filter(({ type }) => type.startsWith("PodResize"))
    .map(
      ({ type, reason = "-", message = "-", observedGeneration }) =>
        `${metadata.name}: ${type} ${reason} (generation ${observedGeneration}): ${message}`,
    );
  return [...containers, ...conditions];
}

function runtimeLines(runtime: AgentHarness["runtime"], { metadata }: Pod): readonly string[] {
  return [...runtime.containers.values()]
    .filter(({ sandbox, finishedAt }) => sandbox.config.metadata?.name === metadata.name && finishedAt === 0n)
    .map(({ config, resources: { cpuShares, cpuQuota, memoryLimitInBytes } }) => {
      const name = `${metadata.name}/${config.metadata?.name} #${config.metadata?.attempt}`;
      return `runtime ${name}: shares ${cpuShares}, quota ${cpuQuota}, memory ${memoryLimitInBytes / MI}Mi`;
    })
    .toSorted();
}

const endOf = async (harness: AgentHarness) => [
  ...(await harness.apiPods()),
  ...(await resourcesOf(harness)),
  ...harness.nodeSnapshot().filter((line) => line.startsWith("cgroup")),
];

interface Course {
  readonly end: readonly string[];
  /** The actions and messages of the resize. */
  readonly log: string;
  readonly events: readonly string[];
  readonly reports: readonly string[];
}

/** Runs a scenario, again with cgroups, and again for each call after which the agent may die: the end is the same. */
function resizeScenario(
  name: string,
  run: (harness: AgentHarness) => Promise<void>,
  check: (course: Course) => void,
  options: HarnessOptions = {},
): void {
  const startAndRun = async (harness: AgentHarness) => {
    await harness.start();
    await run(harness);
  };
  const create = (node: NodeOptions) => createInCluster({ ...options, ...node });
  test(name, async () => {
    // A short lag, since the log has the times.
    const harness = await createInCluster({ hasShortLag: true, ...options });
    await startAndRun(harness);
    const whole = harness.takeLog();
    const log = filterLines(
      whole,
      /resize|update container|update pod sandbox|stop container|the pod's cgroup|attempt [1-9]/i,
    );
    const reports = filterLines(whole, /report web/).split("\n");
    const end = await endOf(harness);
    check({ end, log, events: await resizeEvents(harness, "web"), reports });
    if (options.hasCgroups === true) return;
    const withCgroups = await createInCluster({ ...options, hasCgroups: true });
    await startAndRun(withCgroups);
    expect((await endOf(withCgroups)).filter((line) => !line.startsWith("cgroup"))).toEqual([...end]);
  });
  testDeaths({ name, create, run: startAndRun, endOf });
}

async function resizeEvents(harness: AgentHarness, pod: string): Promise<readonly string[]> {
  return (await harness.events(pod))
    .filter((line) => line.includes("Resize"))
    .map((line) => line.replace(/^\d+x /, ""));
}

/** The kubelet removes these conditions, too, as soon as they no longer hold. */
const conditionEnds = (pod: string, label = "PodResizeInProgress"): ExpectedRegression => ({
  pod,
  label,
  rule: "condition",
  why: "The condition is there only until the resize is accepted, done or taken back.",
});

const app = (cpu: string, memory: string, more?: Partial<Container>): readonly Container[] => [
  sized("a", cpu, memory, more),
];

resizeScenario(
  "a running container gets more without a restart",
  async (harness) => {
    await harness.apply("web", { containers: app("100m", "64Mi") });
    await harness.advance("5s");
    await resize(harness, "web", app("200m", "128Mi"));
    await harness.advance("5s");
  },
  ({ end, log, events }) => {
    expect(log).toMatchInlineSnapshot(`
      "5s default/web: Pod resize started: {"containers":[{"name":"a","resources":{"limits":{"cpu":"200m","memory":"128Mi"},"requests":{"cpu":"200m","memory":"128Mi"}}}],"generation":2}
      5s default/web: update container a: memory request 134217728, limit 134217728; cpu request 100m, limit 100m
      5s default/web: update container a: memory request 134217728, limit 134217728; cpu request 200m, limit 200m
      5s default/web: Pod resize completed: {"containers":[{"name":"a","resources":{"limits":{"cpu":"200m","memory":"128Mi"},"requests":{"cpu":"200m","memory":"128Mi"}}}],"generation":2}"
    `);
    expect(end).toMatchInlineSnapshot(`
      [
        "web Running, ready: a running",
        "web/a: allocated cpu 200m, memory 128Mi; requests cpu 200m, memory 128Mi; limits cpu 200m, memory 128Mi; restarts 0",
        "runtime web/a #0: shares 204, quota 20000, memory 128Mi",
      ]
    `);
    expect(events).toMatchInlineSnapshot(`
      [
        "Normal ResizeStarted: Pod resize started: {"containers":[{"name":"a","resources":{"limits":{"cpu":"200m","memory":"128Mi"},"requests":{"cpu":"200m","memory":"128Mi"}}}],"generation":2}",
        "Normal ResizeCompleted: Pod resize completed: {"containers":[{"name":"a","resources":{"limits":{"cpu":"200m","memory":"128Mi"},"requests":{"cpu":"200m","memory":"128Mi"}}}],"generation":2}",
      ]
    `);
  },
  { regressions: [conditionEnds("web")] },
);

resizeScenario(
  "a running container gets less, once it uses less memory than that",
  async (harness) => {
    await harness.apply("web", { containers: app("200m", "128Mi") });
    await harness.advance("5s");
    for (const container of harness.runtime.containers.values()) container.memoryUsageBytes = 100n * MI;
    await resize(harness, "web", app("100m", "64Mi"));
    await harness.advance("5s");
    harness.appendLog((await resourcesOf(harness)).filter((line) => line.includes("Resize")));
    for (const container of harness.runtime.containers.values()) container.memoryUsageBytes = 10n * MI;
    await harness.advance("30s");
  },
  ({ end, log, events }) => {
    expect(log).toMatchInlineSnapshot(`
      "5s default/web: Pod resize started: {"containers":[{"name":"a","resources":{"limits":{"cpu":"100m","memory":"64Mi"},"requests":{"cpu":"100m","memory":"64Mi"}}}],"generation":2}
      5s default/web: Pod resize error: {"containers":[{"name":"a","resources":{"limits":{"cpu":"100m","memory":"64Mi"},"requests":{"cpu":"100m","memory":"64Mi"}}}],"generation":2,"error":"cannot decrease memory limits: attempting to set container \\"a\\" memory limit (67108864) below current usage (104857600)"}
      10s web: PodResizeInProgress Error (generation 2): cannot decrease memory limits: attempting to set container "a" memory limit (67108864) below current usage (104857600)
      15s default/web: update container a: memory request 67108864, limit 67108864; cpu request 200m, limit 200m
      15s default/web: update container a: memory request 67108864, limit 67108864; cpu request 100m, limit 100m
      15s default/web: Pod resize completed: {"containers":[{"name":"a","resources":{"limits":{"cpu":"100m","memory":"64Mi"},"requests":{"cpu":"100m","memory":"64Mi"}}}],"generation":2}"
    `);
    expect(end).toMatchInlineSnapshot(`
      [
        "web Running, ready: a running",
        "web/a: allocated cpu 100m, memory 64Mi; requests cpu 100m, memory 64Mi; limits cpu 100m, memory 64Mi; restarts 0",
        "runtime web/a #0: shares 102, quota 10000, memory 64Mi",
      ]
    `);
    expect(events).toMatchInlineSnapshot(`
      [
        "Normal ResizeStarted: Pod resize started: {"containers":[{"name":"a","resources":{"limits":{"cpu":"100m","memory":"64Mi"},"requests":{"cpu":"100m","memory":"64Mi"}}}],"generation":2}",
        "Warning ResizeError: Pod resize error: {"containers":[{"name":"a","resources":{"limits":{"cpu":"100m","memory":"64Mi"},"requests":{"cpu":"100m","memory":"64Mi"}}}],"generation":2,"error":"cannot decrease memory limits: attempting to set container \\"a\\" memory limit (67108864) below current usage (104857600)"}",
        "Normal ResizeCompleted: Pod resize completed: {"containers":[{"name":"a","resources":{"limits":{"cpu":"100m","memory":"64Mi"},"requests":{"cpu":"100m","memory":"64Mi"}}}],"generation":2}",
      ]
    `);
  },
  { regressions: [conditionEnds("web")] },
);

resizeScenario(
  "a resize without room is deferred, and accepted when another pod is gone",
  async (harness) => {
    await harness.apply("other", { containers: app("3", "64Mi") });
    await harness.apply("web", { containers: app("500m", "64Mi") });
    await harness.advance("5s");
    await resize(harness, "web", app("2", "64Mi"));
    await harness.advance("5s");
    harness.appendLog(await resourcesOf(harness));
    await harness.deletePod("other", 1);
    await harness.advance("30s");
  },
  ({ end, log, events }) => {
    expect(log).toMatchInlineSnapshot(`
      "5s default/web: Pod resize Deferred: {"containers":[{"name":"a","resources":{"limits":{"cpu":"2","memory":"64Mi"},"requests":{"cpu":"2","memory":"64Mi"}}}],"generation":2,"error":"Node didn't have enough resource: cpu, requested: 2000, used: 3000, capacity: 4000"}
      10s web: PodResizePending Deferred (generation 2): Node didn't have enough resource: cpu, requested: 2000, used: 3000, capacity: 4000
      10s default/other: stop container a within 2s: it was deleted
      10s default/web: Pod resize started: {"containers":[{"name":"a","resources":{"limits":{"cpu":"2","memory":"64Mi"},"requests":{"cpu":"2","memory":"64Mi"}}}],"generation":2}
      10s default/web: update container a: memory request 67108864, limit 67108864; cpu request 2000m, limit 2000m
      10s default/web: Pod resize completed: {"containers":[{"name":"a","resources":{"limits":{"cpu":"2","memory":"64Mi"},"requests":{"cpu":"2","memory":"64Mi"}}}],"generation":2}"
    `);
    expect(end).toMatchInlineSnapshot(`
      [
        "web Running, ready: a running",
        "web/a: allocated cpu 2, memory 64Mi; requests cpu 2, memory 64Mi; limits cpu 2, memory 64Mi; restarts 0",
        "runtime web/a #0: shares 2048, quota 200000, memory 64Mi",
      ]
    `);
    expect(events).toMatchInlineSnapshot(`
      [
        "Warning ResizeDeferred: Pod resize Deferred: {"containers":[{"name":"a","resources":{"limits":{"cpu":"2","memory":"64Mi"},"requests":{"cpu":"2","memory":"64Mi"}}}],"generation":2,"error":"Node didn't have enough resource: cpu, requested: 2000, used: 3000, capacity: 4000"}",
        "Normal ResizeStarted: Pod resize started: {"containers":[{"name":"a","resources":{"limits":{"cpu":"2","memory":"64Mi"},"requests":{"cpu":"2","memory":"64Mi"}}}],"generation":2}",
        "Normal ResizeCompleted: Pod resize completed: {"containers":[{"name":"a","resources":{"limits":{"cpu":"2","memory":"64Mi"},"requests":{"cpu":"2","memory":"64Mi"}}}],"generation":2}",
      ]
    `);
  },
  { regressions: [conditionEnds("web", "PodResizePending"), conditionEnds("web")] },
);

resizeScenario(
  "a deferred resize is accepted when another pod shrinks, which counts with what is allocated to it",
  async (harness) => {
    await harness.apply("other", { containers: app("3", "64Mi") });
    await harness.apply("web", { containers: app("500m", "64Mi") });
    await harness.advance("5s");
    await resize(harness, "web", app("2", "64Mi"));
    await harness.advance("5s");
    // It requests more than before, and still has it until the node accepts.
    await harness.apply("third", { containers: app("500m", "64Mi") });
    await resize(harness, "other", app("1", "64Mi"));
    await harness.advance("30s");
  },
  ({ end }) => {
    expect(end).toMatchInlineSnapshot(`
      [
        "other Running, ready: a running",
        "third Running, ready: a running",
        "web Running, ready: a running",
        "other/a: allocated cpu 1, memory 64Mi; requests cpu 1, memory 64Mi; limits cpu 1, memory 64Mi; restarts 0",
        "runtime other/a #0: shares 1024, quota 100000, memory 64Mi",
        "third/a: allocated cpu 500m, memory 64Mi; requests cpu 500m, memory 64Mi; limits cpu 500m, memory 64Mi; restarts 0",
        "runtime third/a #0: shares 512, quota 50000, memory 64Mi",
        "web/a: allocated cpu 2, memory 64Mi; requests cpu 2, memory 64Mi; limits cpu 2, memory 64Mi; restarts 0",
        "runtime web/a #0: shares 2048, quota 200000, memory 64Mi",
      ]
    `);
  },
  { regressions: [conditionEnds("web", "PodResizePending"), conditionEnds("web"), conditionEnds("other")] },
);

resizeScenario(
  "more than the node has is infeasible at once, and the pod keeps what it has, also in its next instance",
  async (harness) => {
    await harness.apply("web", { containers: app("100m", "64Mi") });
    await harness.advance("5s");
    await resize(harness, "web", app("64", "64Mi"));
    await harness.advance("5s");
    await harness.exit("a", 1);
    await harness.advance("20s");
  },
  ({ end, log, events }) => {
    expect(log).toMatchInlineSnapshot(`
      "5s default/web: Pod resize Infeasible: {"containers":[{"name":"a","resources":{"limits":{"cpu":"64","memory":"64Mi"},"requests":{"cpu":"64","memory":"64Mi"}}}],"generation":2,"error":"Node didn't have enough capacity: cpu, requested: 64000, capacity: 4000"}
      10s default/web: create container a (attempt 1): it exited with code 1
      10s default/web: start container a (attempt 1)"
    `);
    expect(end).toMatchInlineSnapshot(`
      [
        "web Running, ready: a running (restarts: 1)",
        "web/a: allocated cpu 100m, memory 64Mi; requests cpu 100m, memory 64Mi; limits cpu 100m, memory 64Mi; restarts 1",
        "web: PodResizePending Infeasible (generation 2): Node didn't have enough capacity: cpu, requested: 64000, capacity: 4000",
        "runtime web/a #1: shares 102, quota 10000, memory 64Mi",
      ]
    `);
    expect(events).toMatchInlineSnapshot(`
      [
        "Warning ResizeInfeasible: Pod resize Infeasible: {"containers":[{"name":"a","resources":{"limits":{"cpu":"64","memory":"64Mi"},"requests":{"cpu":"64","memory":"64Mi"}}}],"generation":2,"error":"Node didn't have enough capacity: cpu, requested: 64000, capacity: 4000"}",
      ]
    `);
  },
);

resizeScenario(
  "a container whose policy wants it restarts without a back-off, even if it succeeds, and the pod stays ready",
  async (harness) => {
    const { runtime } = harness;
    runtime.before.stopContainer = () => runtime.exit(harness.containerIdOf("a"), 0);
    await harness.apply("web", { restartPolicy: "OnFailure", containers: app("100m", "64Mi", restartFor("memory")) });
    await harness.advance("5s");
    await resize(harness, "web", app("100m", "128Mi", restartFor("memory")));
    await harness.advance("10s");
    // The other resource needs no restart.
    await resize(harness, "web", app("200m", "128Mi", restartFor("memory")));
    await harness.advance("10s");
    delete runtime.before.stopContainer;
    await harness.exit("a", 1);
    await harness.advance("30s");
    await resize(harness, "web", app("200m", "64Mi", restartFor("memory")));
    await harness.advance("5s");
  },
  ({ end, log, events, reports }) => {
    const isUnready = (line: string) => !line.includes("ready") && !line.includes("Pending");
    // It crashes after 25 seconds.
    expect(reports.filter((line) => isUnready(line) && !line.startsWith("25s"))).toEqual([]);
    expect(log).toMatchInlineSnapshot(`
      "5s default/web: Pod resize started: {"containers":[{"name":"a","resources":{"limits":{"cpu":"100m","memory":"128Mi"},"requests":{"cpu":"100m","memory":"128Mi"}}}],"generation":2}
      5s default/web: stop container a within 30s: Container a resize requires restart
      5s default/web: create container a (attempt 1): it exited with code 0
      5s default/web: start container a (attempt 1)
      5s default/web: Pod resize completed: {"containers":[{"name":"a","resources":{"limits":{"cpu":"100m","memory":"128Mi"},"requests":{"cpu":"100m","memory":"128Mi"}}}],"generation":2}
      15s default/web: Pod resize started: {"containers":[{"name":"a","resources":{"limits":{"cpu":"200m","memory":"128Mi"},"requests":{"cpu":"200m","memory":"128Mi"}}}],"generation":3}
      15s default/web: update container a: memory request 134217728, limit 134217728; cpu request 200m, limit 200m
      15s default/web: Pod resize completed: {"containers":[{"name":"a","resources":{"limits":{"cpu":"200m","memory":"128Mi"},"requests":{"cpu":"200m","memory":"128Mi"}}}],"generation":3}
      25s default/web: create container a (attempt 2): it exited with code 1
      25s default/web: start container a (attempt 2)
      55s default/web: Pod resize started: {"containers":[{"name":"a","resources":{"limits":{"cpu":"200m","memory":"64Mi"},"requests":{"cpu":"200m","memory":"64Mi"}}}],"generation":4}
      55s default/web: stop container a within 30s: Container a resize requires restart
      55s default/web: create container a (attempt 3): it exited with code 143
      55s default/web: start container a (attempt 3)
      55s default/web: Pod resize completed: {"containers":[{"name":"a","resources":{"limits":{"cpu":"200m","memory":"64Mi"},"requests":{"cpu":"200m","memory":"64Mi"}}}],"generation":4}"
    `);
    expect(end).toMatchInlineSnapshot(`
      [
        "web Running, ready: a running (restarts: 3)",
        "web/a: allocated cpu 200m, memory 64Mi; requests cpu 200m, memory 64Mi; limits cpu 200m, memory 64Mi; restarts 3",
        "runtime web/a #3: shares 204, quota 20000, memory 64Mi",
      ]
    `);
    expect(events).toMatchInlineSnapshot(`
      [
        "Normal ResizeStarted: Pod resize started: {"containers":[{"name":"a","resources":{"limits":{"cpu":"100m","memory":"128Mi"},"requests":{"cpu":"100m","memory":"128Mi"}}}],"generation":2}",
        "Normal ResizeCompleted: Pod resize completed: {"containers":[{"name":"a","resources":{"limits":{"cpu":"100m","memory":"128Mi"},"requests":{"cpu":"100m","memory":"128Mi"}}}],"generation":2}",
        "Normal ResizeStarted: Pod resize started: {"containers":[{"name":"a","resources":{"limits":{"cpu":"200m","memory":"128Mi"},"requests":{"cpu":"200m","memory":"128Mi"}}}],"generation":3}",
        "Normal ResizeCompleted: Pod resize completed: {"containers":[{"name":"a","resources":{"limits":{"cpu":"200m","memory":"128Mi"},"requests":{"cpu":"200m","memory":"128Mi"}}}],"generation":3}",
        "Normal ResizeStarted: Pod resize started: {"containers":[{"name":"a","resources":{"limits":{"cpu":"200m","memory":"64Mi"},"requests":{"cpu":"200m","memory":"64Mi"}}}],"generation":4}",
        "Normal ResizeCompleted: Pod resize completed: {"containers":[{"name":"a","resources":{"limits":{"cpu":"200m","memory":"64Mi"},"requests":{"cpu":"200m","memory":"64Mi"}}}],"generation":4}",
      ]
    `);
  },
  { regressions: [conditionEnds("web")] },
);

resizeScenario(
  "of two containers, the one that gets less is resized first",
  async (harness) => {
    await harness.apply("web", { containers: [sized("a", "100m", "64Mi"), sized("b", "400m", "128Mi")] });
    await harness.advance("5s");
    await resize(harness, "web", [sized("a", "300m", "128Mi"), sized("b", "200m", "64Mi")]);
    await harness.advance("10s");
  },
  ({ end, log, events }) => {
    expect(log).toMatchInlineSnapshot(`
      "5s default/web: Pod resize started: {"containers":[{"name":"a","resources":{"limits":{"cpu":"300m","memory":"128Mi"},"requests":{"cpu":"300m","memory":"128Mi"}}},{"name":"b","resources":{"limits":{"cpu":"200m","memory":"64Mi"},"requests":{"cpu":"200m","memory":"64Mi"}}}],"generation":2}
      5s default/web: update container b: memory request 67108864, limit 67108864; cpu request 400m, limit 400m
      5s default/web: update container a: memory request 134217728, limit 134217728; cpu request 100m, limit 100m
      5s default/web: update container b: memory request 67108864, limit 67108864; cpu request 200m, limit 200m
      5s default/web: update container a: memory request 134217728, limit 134217728; cpu request 300m, limit 300m
      5s default/web: Pod resize completed: {"containers":[{"name":"a","resources":{"limits":{"cpu":"300m","memory":"128Mi"},"requests":{"cpu":"300m","memory":"128Mi"}}},{"name":"b","resources":{"limits":{"cpu":"200m","memory":"64Mi"},"requests":{"cpu":"200m","memory":"64Mi"}}}],"generation":2}"
    `);
    expect(end).toMatchInlineSnapshot(`
      [
        "web Running, ready: a running, b running",
        "web/a: allocated cpu 300m, memory 128Mi; requests cpu 300m, memory 128Mi; limits cpu 300m, memory 128Mi; restarts 0",
        "web/b: allocated cpu 200m, memory 64Mi; requests cpu 200m, memory 64Mi; limits cpu 200m, memory 64Mi; restarts 0",
        "runtime web/a #0: shares 307, quota 30000, memory 128Mi",
        "runtime web/b #0: shares 204, quota 20000, memory 64Mi",
      ]
    `);
    expect(events).toMatchInlineSnapshot(`
      [
        "Normal ResizeStarted: Pod resize started: {"containers":[{"name":"a","resources":{"limits":{"cpu":"300m","memory":"128Mi"},"requests":{"cpu":"300m","memory":"128Mi"}}},{"name":"b","resources":{"limits":{"cpu":"200m","memory":"64Mi"},"requests":{"cpu":"200m","memory":"64Mi"}}}],"generation":2}",
        "Normal ResizeCompleted: Pod resize completed: {"containers":[{"name":"a","resources":{"limits":{"cpu":"300m","memory":"128Mi"},"requests":{"cpu":"300m","memory":"128Mi"}}},{"name":"b","resources":{"limits":{"cpu":"200m","memory":"64Mi"},"requests":{"cpu":"200m","memory":"64Mi"}}}],"generation":2}",
      ]
    `);
  },
  { regressions: [conditionEnds("web")] },
);

resizeScenario(
  "the resources of a whole pod grow: its cgroup, and the limit of a container that has none of its own",
  async (harness) => {
    const podWith = (cpu: string, memory: string): Partial<PodSpec> => ({
      resources: { requests: { cpu: "100m" }, limits: { cpu, memory } },
    });
    await harness.apply("web", podWith("200m", "64Mi"));
    await harness.advance("5s");
    const body = { spec: podWith("300m", "128Mi") };
    await harness.kube.user.patch(pods("default"), "web", { type: "merge", body });
    await harness.advance("5s");
  },
  ({ end, log }) => {
    expect(log).toMatchInlineSnapshot(`
      "0s default/web: create the pod's cgroup
      5s default/web: Pod resize started: {"containers":[{"name":"a","resources":{}}],"generation":2}
      5s default/web: update pod sandbox resources: memory.max 134217728, cpu.weight 4, cpu.max 20000 100000
      5s default/web: write memory.max 134217728 to the pod's cgroup: the pod is resized
      5s default/web: update container a: memory request -, limit 134217728; cpu request -, limit 200m
      5s default/web: update pod sandbox resources: memory.max 134217728, cpu.weight 4, cpu.max 30000 100000
      5s default/web: write cpu.max 30000 100000 to the pod's cgroup: the pod is resized
      5s default/web: update container a: memory request -, limit 134217728; cpu request -, limit 300m
      5s default/web: Pod resize completed: {"containers":[{"name":"a","resources":{}}],"generation":2}"
    `);
    expect(end).toMatchInlineSnapshot(`
      [
        "web Running, ready: a running",
        "web/a: allocated ; requests ; limits ; restarts 0",
        "runtime web/a #0: shares 307, quota 30000, memory 128Mi",
        "cgroup kubepods memory.min 0, memory.low 0, memory.high max, memory.max max, memory.swap.max max, memory.oom.group 0, cpu.weight 100, cpu.max max 100000, cpuset.cpus , pids.max max, hugetlb.2MB.max max, hugetlb.1GB.max max",
        "cgroup kubepods/burstable memory.min 0, memory.low 0, memory.high max, memory.max max, memory.swap.max max, memory.oom.group 0, cpu.weight 100, cpu.max max 100000, cpuset.cpus , pids.max max, hugetlb.2MB.max max, hugetlb.1GB.max max",
        "cgroup kubepods/burstable/podUID memory.min 0, memory.low 0, memory.high max, memory.max 134217728, memory.swap.max max, memory.oom.group 0, cpu.weight 4, cpu.max 30000 100000, cpuset.cpus , pids.max max, hugetlb.2MB.max 0, hugetlb.1GB.max 0",
      ]
    `);
  },
  { hasCgroups: true, regressions: [conditionEnds("web")] },
);

resizeScenario(
  "a resize that the runtime refuses is retried, and says why",
  async (harness) => {
    await harness.apply("web", { containers: app("100m", "64Mi") });
    await harness.advance("5s");
    harness.runtime.before.updateContainerResources = () => {
      throw new CriError("UNKNOWN", "UpdateContainerResources", "failed to write cpu.max");
    };
    await resize(harness, "web", app("200m", "64Mi"));
    await harness.advance("5s");
    harness.appendLog((await resourcesOf(harness)).filter((line) => line.includes("Resize")));
    delete harness.runtime.before.updateContainerResources;
    await harness.advance("60s");
  },
  ({ end, log, events }) => {
    expect(log).toMatchInlineSnapshot(`
      "5s default/web: Pod resize started: {"containers":[{"name":"a","resources":{"limits":{"cpu":"200m","memory":"64Mi"},"requests":{"cpu":"200m","memory":"64Mi"}}}],"generation":2}
      5s default/web: failed to update container a: memory request 67108864, limit 67108864; cpu request 200m, limit 200m: rpc error: code = Unknown desc = failed to write cpu.max
      5s default/web: Pod resize error: {"containers":[{"name":"a","resources":{"limits":{"cpu":"200m","memory":"64Mi"},"requests":{"cpu":"200m","memory":"64Mi"}}}],"generation":2,"error":"rpc error: code = Unknown desc = failed to write cpu.max"}
      6s default/web: failed to update container a: memory request 67108864, limit 67108864; cpu request 200m, limit 200m: rpc error: code = Unknown desc = failed to write cpu.max
      8s default/web: failed to update container a: memory request 67108864, limit 67108864; cpu request 200m, limit 200m: rpc error: code = Unknown desc = failed to write cpu.max
      10s web: PodResizeInProgress Error (generation 2): rpc error: code = Unknown desc = failed to write cpu.max
      12s default/web: update container a: memory request 67108864, limit 67108864; cpu request 200m, limit 200m
      12s default/web: Pod resize completed: {"containers":[{"name":"a","resources":{"limits":{"cpu":"200m","memory":"64Mi"},"requests":{"cpu":"200m","memory":"64Mi"}}}],"generation":2}"
    `);
    expect(end).toMatchInlineSnapshot(`
      [
        "web Running, ready: a running",
        "web/a: allocated cpu 200m, memory 64Mi; requests cpu 200m, memory 64Mi; limits cpu 200m, memory 64Mi; restarts 0",
        "runtime web/a #0: shares 204, quota 20000, memory 64Mi",
      ]
    `);
    expect(events).toMatchInlineSnapshot(`
      [
        "Normal ResizeStarted: Pod resize started: {"containers":[{"name":"a","resources":{"limits":{"cpu":"200m","memory":"64Mi"},"requests":{"cpu":"200m","memory":"64Mi"}}}],"generation":2}",
        "Warning ResizeError: Pod resize error: {"containers":[{"name":"a","resources":{"limits":{"cpu":"200m","memory":"64Mi"},"requests":{"cpu":"200m","memory":"64Mi"}}}],"generation":2,"error":"rpc error: code = Unknown desc = failed to write cpu.max"}",
        "Normal ResizeCompleted: Pod resize completed: {"containers":[{"name":"a","resources":{"limits":{"cpu":"200m","memory":"64Mi"},"requests":{"cpu":"200m","memory":"64Mi"}}}],"generation":2}",
      ]
    `);
  },
  { regressions: [conditionEnds("web")] },
);

resizeScenario(
  "a resize that is taken back before the node accepts it leaves nothing",
  async (harness) => {
    await harness.apply("other", { containers: app("3", "64Mi") });
    await harness.apply("web", { containers: app("500m", "64Mi") });
    await harness.advance("5s");
    await resize(harness, "web", app("2", "64Mi"));
    await harness.advance("5s");
    await resize(harness, "web", app("500m", "64Mi"));
    await harness.advance("5s");
  },
  ({ end, events }) => {
    expect(end).toMatchInlineSnapshot(`
      [
        "other Running, ready: a running",
        "web Running, ready: a running",
        "other/a: allocated cpu 3, memory 64Mi; requests cpu 3, memory 64Mi; limits cpu 3, memory 64Mi; restarts 0",
        "runtime other/a #0: shares 3072, quota 300000, memory 64Mi",
        "web/a: allocated cpu 500m, memory 64Mi; requests cpu 500m, memory 64Mi; limits cpu 500m, memory 64Mi; restarts 0",
        "runtime web/a #0: shares 512, quota 50000, memory 64Mi",
      ]
    `);
    expect(events).toMatchInlineSnapshot(`
      [
        "Warning ResizeDeferred: Pod resize Deferred: {"containers":[{"name":"a","resources":{"limits":{"cpu":"2","memory":"64Mi"},"requests":{"cpu":"2","memory":"64Mi"}}}],"generation":2,"error":"Node didn't have enough resource: cpu, requested: 2000, used: 3000, capacity: 4000"}",
      ]
    `);
  },
  { regressions: [conditionEnds("web", "PodResizePending")] },
);

test("a new agent keeps what was decided, with its times, and reports it once", async () => {
  const harness = await runInCluster(async (node) => {
    await node.apply("other", { containers: app("3", "64Mi") });
    await node.apply("web", { containers: app("500m", "64Mi") });
    await node.advance("5s");
    await resize(node, "web", app("2", "64Mi"));
    await node.advance("60s");
  });
  const conditionOf = async () => {
    const { status } = await harness.kube.user.get(pods("default"), "web");
    return status?.conditions?.find(({ type }) => type === "PodResizePending");
  };
  const before = await conditionOf();
  await harness.stop();
  await harness.start();
  await harness.advance("60s");
  expect(await conditionOf()).toEqual(before);
  expect(await resizeEvents(harness, "web")).toHaveLength(1);
});

test("a static pod is not resized: its manifest with other resources is another pod", async () => {
  // A short lag, since the log has the times.
  const harness = await runInCluster(async () => {}, { hasShortLag: true });
  const spec = (cpu: string): Partial<PodSpec> => ({ containers: app(cpu, "64Mi") });
  await harness.setManifests(makePod("web", spec("100m")));
  await harness.advance("5s");
  harness.takeLog();
  await harness.setManifests(makePod("web", spec("200m")));
  await harness.advance("60s");
  const lines = filterLines(harness.takeLog(), /update container|stop container|create container/);
  expect(lines).toMatchInlineSnapshot(`
    "5s web: stop container a within 30s: its manifest has changed
    5s web: create container a (attempt 0): it has not run yet"
  `);
  expect(await resizeEvents(harness, "web")).toEqual([]);
});

/** What the pod's cgroup uses, as the kernel counts it. */
function setUsage({ cgroups }: AgentHarness, currentBytes: number): void {
  const name = cgroups.names.find((each) => each.includes("/pod"))?.split("/") ?? [];
  cgroups.useMemory(name, currentBytes);
}

resizeScenario(
  "the pod's cgroup grows before its container, memory before CPU",
  async (harness) => {
    await harness.apply("web", { containers: app("100m", "64Mi") });
    await harness.advance("5s");
    await resize(harness, "web", app("200m", "128Mi"));
    await harness.advance("5s");
  },
  ({ end, log }) => {
    expect(log).toMatchInlineSnapshot(`
      "0s default/web: create the pod's cgroup
      5s default/web: Pod resize started: {"containers":[{"name":"a","resources":{"limits":{"cpu":"200m","memory":"128Mi"},"requests":{"cpu":"200m","memory":"128Mi"}}}],"generation":2}
      5s default/web: update pod sandbox resources: memory.max 134217728, cpu.weight 4, cpu.max 10000 100000
      5s default/web: write memory.max 134217728 to the pod's cgroup: the pod is resized
      5s default/web: update container a: memory request 134217728, limit 134217728; cpu request 100m, limit 100m
      5s default/web: update pod sandbox resources: memory.max 134217728, cpu.weight 4, cpu.max 20000 100000
      5s default/web: write cpu.max 20000 100000 to the pod's cgroup: the pod is resized
      5s default/web: update pod sandbox resources: memory.max 134217728, cpu.weight 8, cpu.max 20000 100000
      5s default/web: write cpu.weight 8 to the pod's cgroup: the pod is resized
      5s default/web: update container a: memory request 134217728, limit 134217728; cpu request 200m, limit 200m
      5s default/web: Pod resize completed: {"containers":[{"name":"a","resources":{"limits":{"cpu":"200m","memory":"128Mi"},"requests":{"cpu":"200m","memory":"128Mi"}}}],"generation":2}"
    `);
    expect(end).toMatchInlineSnapshot(`
      [
        "web Running, ready: a running",
        "web/a: allocated cpu 200m, memory 128Mi; requests cpu 200m, memory 128Mi; limits cpu 200m, memory 128Mi; restarts 0",
        "runtime web/a #0: shares 204, quota 20000, memory 128Mi",
        "cgroup kubepods memory.min 0, memory.low 0, memory.high max, memory.max max, memory.swap.max max, memory.oom.group 0, cpu.weight 100, cpu.max max 100000, cpuset.cpus , pids.max max, hugetlb.2MB.max max, hugetlb.1GB.max max",
        "cgroup kubepods/podUID memory.min 0, memory.low 0, memory.high max, memory.max 134217728, memory.swap.max max, memory.oom.group 0, cpu.weight 8, cpu.max 20000 100000, cpuset.cpus , pids.max max, hugetlb.2MB.max 0, hugetlb.1GB.max 0",
      ]
    `);
  },
  { hasCgroups: true, regressions: [conditionEnds("web")] },
);

resizeScenario(
  "the pod's cgroup shrinks after its container, and only while it uses less memory than that",
  async (harness) => {
    await harness.apply("web", { containers: app("200m", "128Mi") });
    await harness.advance("5s");
    setUsage(harness, 100 * 2 ** 20);
    await resize(harness, "web", app("100m", "64Mi"));
    await harness.advance("5s");
    harness.appendLog((await resourcesOf(harness)).filter((line) => line.includes("Resize")));
    setUsage(harness, 10 * 2 ** 20);
    await harness.advance("30s");
  },
  ({ end, log }) => {
    expect(log).toMatchInlineSnapshot(`
      "0s default/web: create the pod's cgroup
      5s default/web: Pod resize started: {"containers":[{"name":"a","resources":{"limits":{"cpu":"100m","memory":"64Mi"},"requests":{"cpu":"100m","memory":"64Mi"}}}],"generation":2}
      5s default/web: Pod resize error: {"containers":[{"name":"a","resources":{"limits":{"cpu":"100m","memory":"64Mi"},"requests":{"cpu":"100m","memory":"64Mi"}}}],"generation":2,"error":"cannot decrease memory limits: attempting to set pod memory limit (67108864) below current usage (104857600)"}
      10s web: PodResizeInProgress Error (generation 2): cannot decrease memory limits: attempting to set pod memory limit (67108864) below current usage (104857600)
      15s default/web: update container a: memory request 67108864, limit 67108864; cpu request 200m, limit 200m
      15s default/web: update pod sandbox resources: memory.max 67108864, cpu.weight 8, cpu.max 20000 100000
      15s default/web: write memory.max 67108864 to the pod's cgroup: the pod is resized
      15s default/web: update container a: memory request 67108864, limit 67108864; cpu request 100m, limit 100m
      15s default/web: update pod sandbox resources: memory.max 67108864, cpu.weight 4, cpu.max 20000 100000
      15s default/web: write cpu.weight 4 to the pod's cgroup: the pod is resized
      15s default/web: update pod sandbox resources: memory.max 67108864, cpu.weight 4, cpu.max 10000 100000
      15s default/web: write cpu.max 10000 100000 to the pod's cgroup: the pod is resized
      15s default/web: Pod resize completed: {"containers":[{"name":"a","resources":{"limits":{"cpu":"100m","memory":"64Mi"},"requests":{"cpu":"100m","memory":"64Mi"}}}],"generation":2}"
    `);
    expect(end).toMatchInlineSnapshot(`
      [
        "web Running, ready: a running",
        "web/a: allocated cpu 100m, memory 64Mi; requests cpu 100m, memory 64Mi; limits cpu 100m, memory 64Mi; restarts 0",
        "runtime web/a #0: shares 102, quota 10000, memory 64Mi",
        "cgroup kubepods memory.min 0, memory.low 0, memory.high max, memory.max max, memory.swap.max max, memory.oom.group 0, cpu.weight 100, cpu.max max 100000, cpuset.cpus , pids.max max, hugetlb.2MB.max max, hugetlb.1GB.max max",
        "cgroup kubepods/podUID memory.min 0, memory.low 0, memory.high max, memory.max 67108864, memory.swap.max max, memory.oom.group 0, cpu.weight 4, cpu.max 10000 100000, cpuset.cpus , pids.max max, hugetlb.2MB.max 0, hugetlb.1GB.max 0",
      ]
    `);
  },
  { hasCgroups: true, regressions: [conditionEnds("web")] },
);

resizeScenario(
  "the pod's cgroup grows before a container that restarts for its resize is stopped",
  async (harness) => {
    await harness.apply("web", { containers: app("100m", "64Mi", restartFor("memory")) });
    await harness.advance("5s");
    await resize(harness, "web", app("100m", "128Mi", restartFor("memory")));
    await harness.advance("60s");
  },
  ({ end, log }) => {
    expect(log).toMatchInlineSnapshot(`
      "0s default/web: create the pod's cgroup
      5s default/web: Pod resize started: {"containers":[{"name":"a","resources":{"limits":{"cpu":"100m","memory":"128Mi"},"requests":{"cpu":"100m","memory":"128Mi"}}}],"generation":2}
      5s default/web: update pod sandbox resources: memory.max 134217728, cpu.weight 4, cpu.max 10000 100000
      5s default/web: write memory.max 134217728 to the pod's cgroup: the pod is resized
      5s default/web: stop container a within 30s: Container a resize requires restart
      5s default/web: create container a (attempt 1): it exited with code 143
      5s default/web: start container a (attempt 1)
      5s default/web: Pod resize completed: {"containers":[{"name":"a","resources":{"limits":{"cpu":"100m","memory":"128Mi"},"requests":{"cpu":"100m","memory":"128Mi"}}}],"generation":2}"
    `);
    expect(end).toMatchInlineSnapshot(`
      [
        "web Running, ready: a running (restarts: 1)",
        "web/a: allocated cpu 100m, memory 128Mi; requests cpu 100m, memory 128Mi; limits cpu 100m, memory 128Mi; restarts 1",
        "runtime web/a #1: shares 102, quota 10000, memory 128Mi",
        "cgroup kubepods memory.min 0, memory.low 0, memory.high max, memory.max max, memory.swap.max max, memory.oom.group 0, cpu.weight 100, cpu.max max 100000, cpuset.cpus , pids.max max, hugetlb.2MB.max max, hugetlb.1GB.max max",
        "cgroup kubepods/podUID memory.min 0, memory.low 0, memory.high max, memory.max 134217728, memory.swap.max max, memory.oom.group 0, cpu.weight 4, cpu.max 10000 100000, cpuset.cpus , pids.max max, hugetlb.2MB.max 0, hugetlb.1GB.max 0",
      ]
    `);
  },
  { hasCgroups: true, regressions: [conditionEnds("web")] },
);
