// Records every cgroup of a stock node that the reference kubelet runs, into test/golden/kubelet-cgroups: with the systemd
// driver and with cgroupfs. Both take some 12 minutes. npm run vm -- record-cgroups [DRIVER]
import { isDeepStrictEqual } from "node:util";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { cgroupPods } from "../../differential/cgroups/cgroup-cases.ts";
import { recordPod, toRecord, writeCgroupRecording } from "../../differential/cgroups/cgroup-recording.ts";
import type { CgroupTree } from "../../differential/cgroups/cgroup-tree.ts";
import { isReady, type NodeBed, startNodeBed } from "./node-bed.ts";
import { readNodeFacts, readVersions } from "./node-facts.ts";
import { type CgroupDriver, cgroupDrivers } from "./system-files.ts";

/** The kubelet writes the limits of the levels above the pods again each minute. */
const REFRESH_MS = 65_000;
const SETTLING_TIMEOUT_MS = 10 * 60_000;

/** Records the cgroups of the kubelet with this driver and containerd 1.7. */
async function recordCgroups(driver: CgroupDriver, print: (line: string) => void): Promise<void> {
  const bed = await startNodeBed({ containerd: "1.7", driver, agents: ["kubelet"], print });
  try {
    print(`${driver}: the guest runs`);
    const node = await bed.startAgent("kubelet");
    print(`${driver}: the node is Ready`);
    const created = new Map(cgroupPods.map((pod) => [pod.metadata.name ?? "", pod]));
    const pods = await bed.createPods(cgroupPods, isReady);
    print(`${driver}: ${pods.length} pods run`);
    const cgroups = await settledCgroups(bed);
    await writeCgroupRecording(driver, {
      versions: await readVersions(bed.guest),
      node: await readNodeFacts(bed.guest, node),
      pods: Object.fromEntries(pods.map((pod) => recordedPair(created, pod))),
      cgroups: toRecord(cgroups),
    });
    print(`${driver}: ${cgroups.size} cgroups recorded`);
  } finally {
    await bed.end();
  }
}

function recordedPair(created: ReadonlyMap<string, Pod>, pod: Pod) {
  const name = pod.metadata.name ?? "";
  const original = created.get(name);
  if (original === undefined) throw new Error(`the API server has a pod that was not created: ${name}`);
  return [name, recordPod(original, pod)] as const;
}

/** The cgroups, once they have stayed as they are for longer than the kubelet needs to write them again. */
async function settledCgroups(bed: NodeBed): Promise<CgroupTree> {
  let settled = { cgroups: await bed.readCgroups(), since: performance.now() };
  return await pollUntil(
    "cgroups that do not change",
    SETTLING_TIMEOUT_MS,
    async () => {
      const cgroups = await bed.readCgroups();
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
