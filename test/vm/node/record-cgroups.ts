// Records every cgroup of a stock node that the reference kubelet runs, into test/golden/kubelet-cgroups: with the systemd
// driver and with cgroupfs, half an hour each. It records the batches that are not recorded as they are now, one after the
// other on one node, so that a run that was interrupted goes on. npm run vm -- record-cgroups [DRIVER]
import type { Node, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { cgroupBatches } from "../../differential/cgroups/cgroup-cases.ts";
import {
  findCgroupRecording,
  recordPod,
  staleBatches,
  toRecord,
  writeRecordedBatch,
} from "../../differential/cgroups/cgroup-recording.ts";
import { podOfCgroup } from "../../differential/cgroups/cgroup-tree.ts";
import { readSettledCgroups } from "./await-cgroups.ts";
import { type NodeBed, startNodeBed } from "./node-bed.ts";
import { readNodeFacts, readVersions } from "./node-facts.ts";
import { type CgroupDriver, cgroupDrivers } from "./system-files.ts";

/** The kubelet writes the limits of the levels above the pods with each new pod, and else each minute. */
const REFRESH_MS = { afterStarts: 15_000, otherwise: 61_000 };
const STEP_TIMEOUT_MS = 10 * 60_000;
const POLL_MS = 5000;

/** Records the batches of the kubelet that are stale, with this driver and containerd 1.7. */
async function recordCgroups(driver: CgroupDriver, print: (line: string) => void): Promise<void> {
  const recorded = await findCgroupRecording(driver);
  const stale = staleBatches(recorded ?? { batches: {} }).filter((name) => name in cgroupBatches);
  if (stale.length === 0) return print(`${driver}: all batches are recorded`);
  const bed = await startNodeBed({ containerd: "1.7", driver, agents: ["kubelet"], print });
  try {
    print(`${driver}: the guest runs`);
    const node = await bed.startAgent("kubelet");
    print(`${driver}: the node is Ready`);
    for (const name of stale) await recordBatch(bed, driver, node, name, print);
  } finally {
    await bed.end();
  }
}

/** Records one batch and removes its pods. */
async function recordBatch(
  bed: NodeBed,
  driver: CgroupDriver,
  node: Node,
  name: string,
  print: (line: string) => void,
): Promise<void> {
  const created = cgroupBatches[name] ?? [];
  await bed.runPods(created);
  print(`${driver}, batch ${name}: ${created.length} pods run`);
  const isRefreshed = created.length > 0 && name !== "resized";
  const cgroups = await readSettledCgroups(bed, isRefreshed ? REFRESH_MS.afterStarts : REFRESH_MS.otherwise);
  const pods = await bed.listPods();
  const recordedPair = (pod: Pod) => {
    const podName = pod.metadata.name ?? "";
    return [podName, recordPod(pod, pods.get(podName)!)] as const;
  };
  await writeRecordedBatch(driver, await readVersions(bed.guest), name, {
    node: await readNodeFacts(bed.guest, node),
    pods: Object.fromEntries(created.map(recordedPair)),
    cgroups: toRecord(cgroups),
  });
  print(`${driver}, batch ${name}: ${cgroups.size} cgroups recorded`);
  await bed.deletePods();
  await pollUntil(
    "the cgroups of the pods to be gone",
    STEP_TIMEOUT_MS,
    async () => [...(await bed.readCgroups()).keys()].every((cgroup) => podOfCgroup(cgroup) === undefined),
    POLL_MS,
  );
}

/** Records both drivers, or the one that is named. Returns the exit code. */
export async function main(args: readonly string[]): Promise<number> {
  const drivers = cgroupDrivers.filter((driver) => args.length === 0 || args.includes(driver));
  if (args.length > 0 && args.length !== drivers.length) {
    console.error("npm run vm -- record-cgroups [systemd | cgroupfs]");
    return 2;
  }
  for (const driver of drivers) await recordCgroups(driver, console.log);
  return 0;
}
