// What must change no pod that runs: a restart of the agent, systemd's own, and the upgrades from another agent or from
// pods without cgroups.
import { allContainerStatuses } from "../../../proto/kubernetes/containers.ts";
import type { ContainerStatus, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { type CgroupTree, podOfCgroup } from "../../differential/cgroups/cgroup-tree.ts";
import { compareTrees } from "../../differential/cgroups/compare-cgroups.ts";
import { assert, awaitCgroups, deletePods, readSettledCgroups, withoutControllers } from "./await-cgroups.ts";
import { besteffortPod } from "./check-pods.ts";
import { isReady, type NodeBed } from "./node-bed.ts";

/** The kubelet writes the limits of the levels above the pods with each new pod. */
const KUBELET_SETTLES_MS = 15_000;

/** The pods that run, and their cgroups. */
interface RunningPods {
  readonly containers: readonly string[];
  readonly cgroups: CgroupTree;
}

const readRunningPods = async (bed: NodeBed): Promise<RunningPods> => ({
  containers: containersOf((await bed.listPods()).values()),
  cgroups: await bed.readCgroups(),
});

/** Containers with their ids and restarts: what a restart of the agent must not change. */
function containersOf(pods: Iterable<Pod>): readonly string[] {
  const line =
    (pod: Pod) =>
    ({ name, containerID, restartCount }: ContainerStatus) =>
      `${pod.metadata.name}/${name} ${containerID} ${restartCount}`;
  return [...pods].flatMap((pod) => allContainerStatuses(pod.status).map(line(pod))).toSorted();
}

/**
 * Creates a pod, which shows that the agent works: the Node stays Ready while its agent is away. Throws unless all other
 * containers and cgroups are as before. Returns how many there are.
 */
async function assertUnchanged(bed: NodeBed, before: RunningPods, proofName: string): Promise<string> {
  await bed.createPods([besteffortPod(proofName)], isReady);
  const hasPodsOfClass = [...before.cgroups.keys()].some((cgroup) => cgroup.startsWith("kubepods/besteffort/"));
  // The first pod of a class turns controllers on.
  const comparable = hasPodsOfClass ? (cgroups: CgroupTree) => cgroups : withoutControllers;
  const ofOthers = (cgroups: CgroupTree) =>
    new Map([...cgroups].filter(([cgroup]) => podOfCgroup(cgroup) !== proofName));
  await awaitCgroups(bed, "the same cgroups as before", (cgroups) =>
    compareTrees(["the node before", comparable(before.cgroups)], ["the node after", comparable(ofOthers(cgroups))]),
  );
  const others = [...(await bed.listPods()).values()].filter(({ metadata }) => metadata.name !== proofName);
  const containers = containersOf(others);
  const changed = containers.filter((line) => !before.containers.includes(line));
  assert(
    changed.length === 0 && containers.length === before.containers.length,
    `these containers are others: ${changed.join(", ")}`,
  );
  return `${containers.length} containers and ${before.cgroups.size} cgroups are the same`;
}

/** The agent is killed and started again. */
export async function adoptTree(bed: NodeBed): Promise<string> {
  const before = await readRunningPods(bed);
  await bed.stopAgent("berth", "SIGKILL");
  await bed.startAgent("berth");
  return await assertUnchanged(bed, before, "after-the-restart");
}

/**
 * systemd reads its units again, and then starts itself again, which closes every connection to it. It writes the
 * properties of its slices to their files, so a limit that only the file has would be gone: the cgroups are read at once,
 * before the agent repairs them.
 */
export async function reloadSystemd(bed: NodeBed): Promise<string> {
  const before = await readRunningPods(bed);
  for (const command of ["daemon-reload", "daemon-reexec"]) {
    await bed.guest.run(`systemctl ${command}`);
    const differences = compareTrees(
      ["the node before", before.cgroups],
      [`the node after ${command}`, await bed.readCgroups()],
    );
    assert(differences.length === 0, `systemctl ${command} has changed cgroups:\n${differences.join("\n")}`);
  }
  return await assertUnchanged(bed, before, "after-the-reexec");
}

/** Berth takes the node over from the kubelet, whose pods run. */
export async function takeOverFromKubelet(
  bed: NodeBed,
  withoutPods: CgroupTree,
  kubeletPods: readonly Pod[],
): Promise<string> {
  await deletePods(bed, withoutPods);
  await bed.stopAgent("berth");
  await bed.startAgent("kubelet");
  await bed.createPods(kubeletPods, isReady);
  await readSettledCgroups(bed, KUBELET_SETTLES_MS);
  const before = await readRunningPods(bed);
  await bed.stopAgent("kubelet");
  await bed.startAgent("berth");
  return await assertUnchanged(bed, before, "after-the-kubelet");
}

/**
 * A node whose pods have no cgroups of their own (`cgroupsPerQOS: false`) gets them: the pods run on as they are, and one whose
 * sandbox dies gets a cgroup with the next one. Only for the driver cgroupfs: with systemd no such pod can start.
 */
export async function addPodCgroups(bed: NodeBed, withoutPods: CgroupTree): Promise<string> {
  await deletePods(bed, withoutPods);
  await bed.stopAgent("berth");
  await bed.startAgent("berth", { cgroupsPerQOS: false, enforceNodeAllocatable: [] });
  const [dying, lasting] = ["without-cgroup", "without-cgroup-too"] as const;
  await bed.createPods([dying, lasting].map(besteffortPod), isReady);
  const before = await readRunningPods(bed);
  const early = [...before.cgroups.keys()].filter((cgroup) => cgroup.includes("without-cgroup"));
  assert(early.length === 0, `with cgroupsPerQOS: false there are ${early.join(", ")}`);
  await bed.stopAgent("berth");
  await bed.startAgent("berth");
  const unchanged = await assertUnchanged(bed, before, "after-the-upgrade");
  const filter = `labels."io.kubernetes.pod.name"==${dying},labels."io.cri-containerd.kind"==sandbox`;
  await bed.guest.run(`ctr -n k8s.io tasks kill --signal SIGKILL $(ctr -n k8s.io containers ls -q '${filter}')`);
  const hasCgroup = (cgroups: CgroupTree, name: string) => cgroups.has(`kubepods/besteffort/${name}/main`);
  await awaitCgroups(bed, "a cgroup for the next sandbox", (cgroups) =>
    hasCgroup(cgroups, dying) ? [] : [`${dying} has no cgroup`],
  );
  const after = await readRunningPods(bed);
  assert(!hasCgroup(after.cgroups, lasting), `${lasting} has a cgroup, and its sandbox is the old one`);
  const ofLasting = ({ containers }: RunningPods) => containers.filter((line) => line.startsWith(`${lasting}/`)).join();
  assert(ofLasting(after) === ofLasting(before), `${lasting} has other containers: ${ofLasting(after)}`);
  return `${unchanged}; the next sandbox has a cgroup`;
}
