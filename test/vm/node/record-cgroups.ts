// Records every cgroup of a stock node that the reference kubelet runs, into test/golden/kubelet-cgroups: with the systemd
// driver and with cgroupfs. Both take some 12 minutes. npm run vm -- record-cgroups [DRIVER]
import { isDeepStrictEqual } from "node:util";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { cgroupPods } from "../../differential/cgroups/cgroup-cases.ts";
import { recordPod, toRecord, writeCgroupRecording } from "../../differential/cgroups/cgroup-recording.ts";
import type { CgroupTree } from "../../differential/cgroups/cgroup-tree.ts";
import { onlyOfPods } from "../../differential/cgroups/compare-cgroups.ts";
import { isReady, type NodeBed, startNodeBed } from "./node-bed.ts";
import { readNodeFacts, readVersions } from "./node-facts.ts";
import { type CgroupDriver, cgroupDrivers } from "./system-files.ts";

/** The kubelet writes the limits of the levels above the pods again each minute. */
const REFRESH_MS = 61_000;
const SETTLING_TIMEOUT_MS = 10 * 60_000;
/** On a busy machine some of the pods take six minutes. */
const PODS_TIMEOUT_MS = 10 * 60_000;

/** Records the cgroups of the kubelet with this driver and containerd 1.7. */
async function recordCgroups(driver: CgroupDriver, print: (line: string) => void): Promise<void> {
  const bed = await startNodeBed({ containerd: "1.7", driver, agents: ["kubelet"], print });
  try {
    print(`${driver}: the guest runs`);
    const node = await bed.startAgent("kubelet");
    print(`${driver}: the node is Ready`);
    // What does not run in time is left out of the recording, which then counts as stale.
    const failure = await bed.createPods(cgroupPods, isReady, PODS_TIMEOUT_MS).then(
      () => undefined,
      (error: Error) => error,
    );
    const pods = [...(await bed.listPods()).values()].filter(isReady);
    print(`${driver}: ${pods.length} pods run`);
    const cgroups = await settledCgroups(bed, pods);
    await writeCgroupRecording(driver, {
      versions: await readVersions(bed.guest),
      node: await readNodeFacts(bed.guest, node),
      pods: Object.fromEntries(pods.map(recordedPair)),
      cgroups: toRecord(cgroups),
    });
    print(`${driver}: ${cgroups.size} cgroups recorded`);
    if (failure !== undefined) throw failure;
  } finally {
    await bed.end();
  }
}

function recordedPair(pod: Pod) {
  const { name = "" } = pod.metadata;
  const created = cgroupPods.find(({ metadata }) => metadata.name === name);
  if (created === undefined) throw new Error(`the API server has a pod that was not created: ${name}`);
  return [name, recordPod(created, pod)] as const;
}

/**
 * The cgroups above the pods and of these pods, once they have stayed as they are for longer than the kubelet needs to
 * write them again.
 */
async function settledCgroups(bed: NodeBed, pods: readonly Pod[]): Promise<CgroupTree> {
  const names = pods.map(({ metadata }) => metadata.name ?? "");
  const read = async () => onlyOfPods(await bed.readCgroups(), names, true);
  let settled = { cgroups: await read(), since: performance.now() };
  return await pollUntil(
    "cgroups that do not change",
    SETTLING_TIMEOUT_MS,
    async () => {
      const cgroups = await read();
      if (!isDeepStrictEqual(cgroups, settled.cgroups)) settled = { cgroups, since: performance.now() };
      return performance.now() - settled.since > REFRESH_MS && cgroups;
    },
    5000,
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
