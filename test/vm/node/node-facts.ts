import type { Node } from "../../../proto/kubernetes/gen/types.ts";
import {
  type CgroupRecording,
  kubeletVersion,
  type RecordedNode,
} from "../../differential/cgroups/cgroup-recording.ts";
import type { GuestNode } from "./guest-node.ts";

/** What the cgroups of a guest depend on: the capacity of its Node object, and its kernel's figures. */
export async function readNodeFacts({ run }: GuestNode, { status }: Node): Promise<RecordedNode> {
  const output = await run(`sort -n /proc/sys/kernel/pid_max /proc/sys/kernel/threads-max | head -n 1
cat /sys/devices/system/cpu/online
echo /sys/kernel/mm/hugepages/*`);
  const [pids = "", onlineCpus = "", sizes = ""] = output.split("\n");
  const hugePageSizes = [...sizes.matchAll(/hugepages-(\d+)kB/g)].map(([, kilobytes]) => Number(kilobytes) * 1024);
  return {
    capacity: status?.capacity ?? {},
    onlineCpus,
    pids: Number(pids),
    hugePageSizes: hugePageSizes.toSorted((a, b) => a - b),
  };
}

/** The versions of what shapes the cgroups of a guest that the kubelet runs. */
export async function readVersions({ run }: GuestNode): Promise<CgroupRecording["versions"]> {
  const output = await run("uname -r; containerd --version; runc --version | head -n 1");
  const [kernel = "", containerd = "", runc = ""] = output.split("\n");
  const version = (line: string) => line.split(" ")[2] ?? "";
  return { kubelet: kubeletVersion(), kernel, containerd: version(containerd), runc: version(runc) };
}
