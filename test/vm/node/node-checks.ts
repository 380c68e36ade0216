// What Berth does with the cgroups of a node with systemd, as checks in order: each goes on where the one before ended.
import { isDeepStrictEqual } from "node:util";
import { kernelTunables } from "../../../agent/preflight/kernel-tunables.ts";
import { allContainerStatuses } from "../../../proto/kubernetes/containers.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { cgroupBatches, cgroupPods } from "../../differential/cgroups/cgroup-cases.ts";
import {
  type CgroupRecording,
  type RecordedBatch,
  type RecordedNode,
  readCgroupRecording,
  resourceStatus,
} from "../../differential/cgroups/cgroup-recording.ts";
import { type CgroupTree, podOfCgroup } from "../../differential/cgroups/cgroup-tree.ts";
import { compareCgroups, type NodeCgroups, recordedCgroups } from "../../differential/cgroups/compare-cgroups.ts";
import { resizePods } from "../../differential/cgroups/resize-cases.ts";
import { describeFailures, runContract } from "../contract/run-contract.ts";
import { addPodCgroups, adoptTree, reloadSystemd, takeOverFromKubelet } from "./adoption.ts";
import { enforceAllocatable } from "./allocatable.ts";
import { assert, awaitCgroups, deletePods, withoutControllers } from "./await-cgroups.ts";
import { besteffortPod, cpuHog, forkBomb, memoryHog, shortPod } from "./check-pods.ts";
import { reportMismatch } from "./driver-mismatch.ts";
import { isReady, type NodeBed } from "./node-bed.ts";
import { readNodeFacts } from "./node-facts.ts";
import { compareStats } from "./stats-pages.ts";
import type { CgroupDriver, NodeContainerd } from "./system-files.ts";

const STEP_TIMEOUT_MS = 10 * 60_000;
const POLL_MS = 1000;
/** How long after an exit the runtime may report that the OOM killer caused it. Berth reads the container until 5 s after the exit. */
const OOM_REPORT_MS = 30_000;
/** `podPidsLimit` of the check with the fork bomb. */
const PIDS_LIMIT = 60;

/** A check and its detail for the line of its result. It throws if Berth does something else. */
export type NodeCheck = readonly [name: string, run: () => Promise<string>];

const podsOf = (names: readonly string[]) =>
  [...cgroupPods, ...resizePods].filter(({ metadata }) => names.includes(metadata.name ?? ""));

/** Pods of the short run: one of each class, one with resources of its own, and two that are resized while they run. */
const corePods = podsOf([
  "guaranteed-two",
  "guaranteed-pod-level",
  "burstable-overhead",
  "burstable-limits",
  "besteffort",
  "resize-up",
  "resize-down",
]);
const kubeletPods = podsOf(["guaranteed-two", "burstable-limits", "besteffort"]);

export interface NodeCheckOptions {
  readonly containerd: NodeContainerd;
  readonly driver: CgroupDriver;
  /** Only the pods of the short run, and only their own cgroups. */
  readonly isShort: boolean;
  /** The batches of pods that run; not in the short run. */
  readonly batches: readonly string[];
  /** How many pods are made and removed; not in the short run. */
  readonly podCount: number;
}

/** The checks of a bed whose guest has Berth, which does not run yet. */
export function nodeChecks(bed: NodeBed, options: NodeCheckOptions): readonly NodeCheck[] {
  const { driver, isShort, batches } = options;
  let withoutPods: CgroupTree = new Map();
  let node: Awaited<ReturnType<typeof readNodeFacts>>;
  const awaitKubeletCgroups = async (
    what: string,
    recording: CgroupRecording,
    name: string,
    comparable: (cgroups: CgroupTree) => CgroupTree = (cgroups) => cgroups,
  ) => {
    const batch = recording.batches[name];
    assert(batch !== undefined, `there is no batch ${name} in the recording`);
    const kubelet = { node: batch.node, cgroups: comparable(recordedCgroups(batch).cgroups) };
    return await awaitCgroups(bed, what, (cgroups) => compareCgroups(kubelet, { node, cgroups: comparable(cgroups) }));
  };
  return [
    [
      "a stock node is Ready, and its files are the kubelet's",
      async () => {
        const recording = await readCgroupRecording(driver);
        node = await readNodeFacts(bed.guest, await bed.startAgent("berth"));
        withoutPods = await awaitKubeletCgroups("the cgroups above the pods", recording, "none", withoutControllers);
        await assertTunables(bed);
        return `with ${driver}: ${[...withoutPods.keys()].join(", ")}`;
      },
    ],
    ...(isShort ? [] : batches).map(
      (name): NodeCheck => [
        `all files of ${name} are the kubelet's`,
        async () => {
          await deletePods(bed, withoutPods);
          const recording = await readCgroupRecording(driver);
          const pods = await bed.runPods(cgroupBatches[name] ?? []);
          const cgroups = await awaitKubeletCgroups("the kubelet's files", recording, name);
          assertStatuses(recording.batches[name]!.pods, await bed.listPods());
          return `${countFiles(cgroups)}, ${pods.length} pods`;
        },
      ],
    ),
    ...(isShort
      ? [
          [
            "the files of some pods are the kubelet's",
            () => compareCorePods(bed, driver, () => node),
          ] satisfies NodeCheck,
        ]
      : []),
    ["a memory hog is killed alone", () => killMemoryHog(bed)],
    ["a restarted agent adopts the tree", () => adoptTree(bed)],
    ...(isShort
      ? []
      : ([
          ["a CPU hog is held to its limit", () => holdCpuHog(bed)],
          ["a new systemd keeps the tree", () => reloadSystemd(bed)],
          ["a fork bomb is held", () => holdForkBomb(bed)],
        ] satisfies NodeCheck[])),
    [
      "deleted pods leave no cgroup",
      async () => {
        await deletePods(bed, withoutPods);
        return "the tree is as before the first pod";
      },
    ],
    ...(isShort ? [] : longChecks(bed, options, () => ({ withoutPods, node }))),
  ];
}

async function checkContract({ guest }: NodeBed): Promise<string> {
  const result = await runContract(guest);
  const { passed, failed } = result.outcome;
  assert(failed.length === 0, `${failed.length} tests fail:\n${describeFailures(result)}`);
  return `${passed} tests`;
}

/** The checks that begin with a node without pods. */
function longChecks(
  bed: NodeBed,
  { containerd, driver, podCount }: NodeCheckOptions,
  known: () => { readonly withoutPods: CgroupTree; readonly node: RecordedNode },
): readonly NodeCheck[] {
  return [
    [
      "reservations are enforced, and the node answers under load",
      () => enforceAllocatable(bed, known().withoutPods, { driver, node: known().node }),
    ],
    ["the pages of stats are the kubelet's", () => compareStats(bed, kubeletPods)],
    ["the kubelet's pods run on under Berth", () => takeOverFromKubelet(bed, known().withoutPods, kubeletPods)],
    ...(driver === "cgroupfs"
      ? [
          [
            "pods without cgroups run on, and the next ones have some",
            () => addPodCgroups(bed, known().withoutPods),
          ] satisfies NodeCheck,
        ]
      : []),
    // A later containerd tells its driver, which replaces the configured one.
    ...(containerd === "1.7"
      ? [
          [
            "the wrong driver is reported until it is the right one",
            () => reportMismatch(bed, known().withoutPods, driver),
          ] satisfies NodeCheck,
        ]
      : []),
    [`${podCount} pods are made and removed`, () => makeAndRemove(bed, known().withoutPods, podCount)],
    ["the contract of cgroups holds, with both drivers", () => checkContract(bed)],
  ];
}

async function assertTunables({ guest }: NodeBed): Promise<void> {
  const files = kernelTunables.map(({ name }) => name.replaceAll(".", "/"));
  const found = (await guest.run(`cd /proc/sys; cat ${files.join(" ")}`)).trim().split("\n").join(" ");
  const wanted = kernelTunables.map(({ value }) => value).join(" ");
  assert(found === wanted, `the kernel's settings ${files.join(" ")} are ${found} and not ${wanted}`);
}

/** Compares what the pods' statuses say of their resources with what the kubelet's have said. */
function assertStatuses(recorded: RecordedBatch["pods"], pods: ReadonlyMap<string, Pod>): void {
  const differences = Object.entries(recorded).flatMap(([name, { status }]) => {
    const [kubelet, berth] = [status, resourceStatus(pods.get(name)?.status)];
    return isDeepStrictEqual(kubelet, berth)
      ? []
      : [`${name}: the kubelet has ${JSON.stringify(kubelet)}\n  Berth has ${JSON.stringify(berth)}`];
  });
  assert(differences.length === 0, `the resources of statuses differ:\n${differences.join("\n")}`);
}

const countFiles = (cgroups: CgroupTree) =>
  `${[...cgroups.values()].flatMap((files) => Object.keys(files)).length} files of ${cgroups.size} cgroups`;

/** Compares pods of several batches, and not the levels above them, which depend on all pods of a batch. */
async function compareCorePods(
  bed: NodeBed,
  driver: CgroupDriver,
  readNode: () => NodeCgroups["node"],
): Promise<string> {
  const { batches } = await readCgroupRecording(driver);
  const names = new Set(corePods.map(({ metadata }) => metadata.name));
  const recorded = new Map(Object.values(batches).flatMap((batch) => [...recordedCgroups(batch).cgroups]));
  const [first] = Object.values(batches);
  const ofCorePods = (cgroups: CgroupTree) =>
    new Map([...cgroups].filter(([cgroup]) => names.has(podOfCgroup(cgroup))));
  const kubelet = { node: first!.node, cgroups: ofCorePods(recorded) };
  await bed.runPods(corePods);
  const cgroups = await awaitCgroups(bed, "the kubelet's files", (seen) =>
    compareCgroups(kubelet, { node: readNode(), cgroups: ofCorePods(seen) }),
  );
  return `${countFiles(ofCorePods(cgroups))}, ${corePods.length} pods`;
}

/** Makes pods that end at once, all of which exist together, and removes them. */
async function makeAndRemove(bed: NodeBed, withoutPods: CgroupTree, count: number): Promise<string> {
  await deletePods(bed, withoutPods);
  const isDone = ({ status }: Pod) => status?.phase === "Succeeded";
  const started = performance.now();
  await bed.createPods(
    Array.from({ length: count }, (_, at) => shortPod(`many-${at}`)),
    isDone,
  );
  const madeMs = performance.now() - started;
  await deletePods(bed, withoutPods);
  const perPod = (ms: number) => `${(ms / count / 1000).toFixed(1)} s`;
  return `${perPod(madeMs)} for each start, ${perPod(performance.now() - started - madeMs)} for each removal; the tree is as before`;
}

/** A shell script that stores the path of a pod's cgroup in `$cgroup`. */
const findCgroup = (pod: Pod) =>
  `cgroup=$(busybox find /sys/fs/cgroup/kubepods* -type d '(' -name '*pod${pod.metadata.uid}' -o -name '*pod${pod.metadata.uid?.replaceAll("-", "_")}.slice' ')')
`;

async function holdCpuHog(bed: NodeBed): Promise<string> {
  const [pod] = await bed.createPods([cpuHog], isReady);
  const stat = `sed -n 's/^usage_usec //p; s/^nr_throttled //p' $cgroup/cpu.stat; cut -d ' ' -f 1 /proc/uptime`;
  const output = await bed.guest.run(`${findCgroup(pod!)}${stat}\nsleep 10\n${stat}`);
  const [usageBefore, , before, usageAfter, throttled, after] = output.split("\n").map(Number) as number[];
  const share = (usageAfter! - usageBefore!) / 1e6 / (after! - before!);
  assert(
    share <= 0.33 && throttled! > 0,
    `it uses ${share} CPUs and was throttled ${throttled} times; its limit is 0.3`,
  );
  return `${share.toFixed(2)} of two CPUs with a limit of 0.3, throttled ${throttled} times`;
}

async function killMemoryHog(bed: NodeBed): Promise<string> {
  const statusOf = (pod: Pod | undefined, name: string) =>
    allContainerStatuses(pod?.status).find((each) => each.name === name);
  const endOf = (pod: Pod | undefined) => statusOf(pod, "hog")?.state?.terminated;
  const [pod] = await bed.createPods([memoryHog], (each) => endOf(each) !== undefined);
  const first = endOf(pod);
  // containerd reports the exit and the OOM kill separately: until the second one the reason is Error, as with the kubelet.
  const isOomKilled = async () => {
    const now = (await bed.listPods()).get(memoryHog.metadata.name ?? "");
    return endOf(now)?.reason === "OOMKilled" && now;
  };
  const killed = await pollUntil("the reason OOMKilled", OOM_REPORT_MS, isOomKilled, POLL_MS).catch((cause: Error) => {
    throw new Error(`the hog ended with ${JSON.stringify(first)}; ${cause.message}`, { cause });
  });
  const [exitCode, bystander] = [endOf(killed)?.exitCode, statusOf(killed, "bystander")?.state];
  assert(exitCode === 137, `it ended with code ${exitCode}`);
  assert(bystander?.running !== undefined, `the container beside it is ${JSON.stringify(bystander)}`);
  const [, count] = /^oom_kill (\d+)/m.exec(await bed.guest.run(`${findCgroup(pod!)}cat $cgroup/memory.events`)) ?? [];
  return `${first?.reason}, then OOMKilled with code 137, ${count} processes; the container beside it runs`;
}

async function holdForkBomb(bed: NodeBed): Promise<string> {
  await bed.stopAgent("berth");
  await bed.startAgent("berth", { podPidsLimit: PIDS_LIMIT });
  const [pod] = await bed.createPods([forkBomb], isReady);
  const rejected = await pollUntil(
    "a rejected fork",
    STEP_TIMEOUT_MS,
    async () => {
      const [, count] = /^max (\d+)/m.exec(await bed.guest.run(`${findCgroup(pod!)}cat $cgroup/pids.events`)) ?? [];
      return Number(count) > 0 && count;
    },
    POLL_MS,
  );
  await bed.createPods([besteffortPod("beside-the-bomb")], isReady);
  const [limit, current] = (await bed.guest.run(`${findCgroup(pod!)}cat $cgroup/pids.max $cgroup/pids.current`)).split(
    "\n",
  );
  assert(limit === String(PIDS_LIMIT), `pids.max is ${limit}, and podPidsLimit is ${PIDS_LIMIT}`);
  assert(Number(current) <= PIDS_LIMIT, `it has ${current} processes`);
  return `${current} processes, ${rejected} forks rejected; another pod became ready beside it`;
}
