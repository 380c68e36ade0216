import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { parseQuantity, toNumber } from "../../../proto/kubernetes/values/quantity.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import type { RecordedNode } from "../../differential/cgroups/cgroup-recording.ts";
import type { CgroupTree } from "../../differential/cgroups/cgroup-tree.ts";
import { assert, deletePods } from "./await-cgroups.ts";
import { besteffortPod, cpuEater, memoryEater } from "./check-pods.ts";
import { isReady, type NodeBed } from "./node-bed.ts";
import { type CgroupDriver, rootCgroups } from "./system-files.ts";

const STEP_TIMEOUT_MS = 10 * 60_000;
const POLL_MS = 1000;
/** The guest's shell stands for sshd. Its processor is emulated, and about twenty times slower than the host's. */
const MAX_ANSWER_MS = 15_000;
/** How many answers are awaited while all CPUs are busy. */
const ANSWERS = 10;

/** 1200m CPU, 768 MiB and 800 processes are kept from pods. */
const configuration = {
  systemReserved: { cpu: "1", memory: "512Mi", pid: "500" },
  kubeReserved: { cpu: "200m", memory: "256Mi", pid: "300" },
  systemReservedCgroup: "/system.slice",
  kubeReservedCgroup: "/kube.slice",
  enforceNodeAllocatable: ["pods", "system-reserved-compressible", "kube-reserved"],
};
const reserved = { memoryBytes: 768 * 2 ** 20, pids: 800 };

/** The files of a node with this configuration and two CPUs. A weight is 1 + (shares - 2) × 9999 / 262142. */
const enforcedFiles = ({ capacity, pids }: RecordedNode, root: string): Readonly<Record<string, string>> => ({
  [`${root}/cpu.weight`]: "32",
  [`${root}/memory.max`]: String(toNumber(parseQuantity(capacity["memory"] ?? "0")) - reserved.memoryBytes),
  [`${root}/pids.max`]: String(pids - reserved.pids),
  "system.slice/cpu.weight": "39",
  "system.slice/memory.max": "max",
  "kube.slice/cpu.weight": "8",
  "kube.slice/memory.max": String(256 * 2 ** 20),
  "kube.slice/pids.max": "300",
});

/**
 * Runs the agent with reservations that it enforces, and pods that take all CPU time and memory. Throws unless the cgroups
 * have their limits, the kernel kills pods for the memory of all pods, and the agent and the guest's shell answer meanwhile.
 */
export async function enforceAllocatable(
  bed: NodeBed,
  withoutPods: CgroupTree,
  { driver, node }: { readonly driver: CgroupDriver; readonly node: RecordedNode },
): Promise<string> {
  await deletePods(bed, withoutPods);
  await bed.stopAgent("berth");
  await bed.guest.run("systemctl start kube.slice");
  await bed.startAgent("berth", configuration);
  await awaitFiles(bed, enforcedFiles(node, rootCgroups[driver]));
  const agent = await describeAgent(bed);
  const slowestMs = await loadNode(bed, rootCgroups[driver]);
  assert(slowestMs <= MAX_ANSWER_MS, `the guest's shell took ${slowestMs.toFixed(0)} ms for an answer`);
  const after = await describeAgent(bed);
  assert(after === agent, `the agent was ${agent}, and is ${after}`);
  assert(agent.endsWith("oom_score_adj -999, 1000000 open files"), `the agent is ${agent}`);
  await deletePodsUnderLoad(bed, withoutPods);
  return `the slowest answer under load took ${(slowestMs / 1000).toFixed(1)} s; the agent is still ${agent}`;
}

async function awaitFiles({ guest }: NodeBed, wanted: Readonly<Record<string, string>>): Promise<void> {
  let differences: readonly string[] = [];
  const files = Object.keys(wanted);
  await pollUntil(
    "the limits of the reservations",
    STEP_TIMEOUT_MS,
    async () => {
      const values = (await guest.run(`cd /sys/fs/cgroup; cat ${files.join(" ")}`)).split("\n");
      differences = files.flatMap((file, at) =>
        values[at] === wanted[file] ? [] : [`${file} is ${values[at]} and not ${wanted[file]}`],
      );
      return differences.length === 0;
    },
    POLL_MS,
  ).catch((cause: Error) => {
    throw new Error(`${cause.message}: ${differences.join(", ")}`, { cause });
  });
}

const describeAgent = async ({ guest }: NodeBed) =>
  await guest.run(`pid=$(systemctl show --property=MainPID --value berth)
echo "process $pid with oom_score_adj $(cat /proc/$pid/oom_score_adj), $(sed -n 's/^Max open files *[0-9]* *\\([0-9]*\\).*/\\1/p' /proc/$pid/limits) open files"`);

/**
 * Starts a pod that takes memory until the kernel kills it for the memory of all pods, and again after each restart, and then one
 * that takes all CPU time. Returns once a third pod is Ready beside them, with the time of the slowest answer of the
 * guest's shell.
 */
async function loadNode(bed: NodeBed, root: string): Promise<number> {
  let slowestMs = 0;
  const readEvents = async () => {
    const started = performance.now();
    const events = await bed.guest.run(`cat /sys/fs/cgroup/${root}/memory.events.local`);
    slowestMs = Math.max(slowestMs, performance.now() - started);
    return events;
  };
  const readRepeatedly = async () => {
    for (let count = 0; count < ANSWERS; count++) await readEvents();
  };
  await bed.createPods([memoryEater], hasStarted);
  const isOutOfMemory = async () => Number(/^oom (\d+)/m.exec(await readEvents())?.[1]) > 0;
  await pollUntil("the pod to reach the memory of all pods", STEP_TIMEOUT_MS, isOutOfMemory, POLL_MS);
  await bed.createPods([cpuEater], isReady);
  await Promise.all([bed.createPods([besteffortPod("under-load")], isReady), readRepeatedly()]);
  return slowestMs;
}

const hasStarted = ({ status }: Pod) =>
  status?.containerStatuses?.some(({ state, restartCount }) => state?.running !== undefined || restartCount > 0) ??
  false;

/** Deletes the pods and starts the agent as the other checks need it. */
async function deletePodsUnderLoad(bed: NodeBed, withoutPods: CgroupTree): Promise<void> {
  await bed.deletePods();
  await bed.stopAgent("berth");
  await bed.startAgent("berth");
  await deletePods(bed, withoutPods);
}
