import { parseQuantity, toNumber } from "../../../proto/kubernetes/values/quantity.ts";
import type { RecordedBatch, RecordedNode } from "./cgroup-recording.ts";
import type { CgroupFiles, CgroupTree } from "./cgroup-tree.ts";

/** The cgroups of one node, and what they depend on. */
export interface NodeCgroups {
  readonly node: Pick<RecordedNode, "capacity" | "pids">;
  readonly cgroups: CgroupTree;
}

/**
 * Compares every file of every cgroup of the kubelet's node and of Berth's. Returns one line for each difference: the
 * cgroup, the file and both values, or the cgroup that only one side has. A limit of kubepods that is all that the node
 * has counts as equal on nodes of different size.
 */
export function compareCgroups(kubelet: NodeCgroups, berth: NodeCgroups): readonly string[] {
  return compareTrees(["the kubelet", withoutSizes(kubelet)], ["Berth", withoutSizes(berth)]);
}

/** The same for two trees of one node, such as before and after a restart of the agent. */
export function compareTrees(
  [first, theirs]: readonly [name: string, tree: CgroupTree],
  [second, ours]: readonly [name: string, tree: CgroupTree],
): readonly string[] {
  const cgroups = [...new Set([...theirs.keys(), ...ours.keys()])].toSorted();
  return cgroups.flatMap((cgroup) => {
    const [a, b] = [theirs.get(cgroup), ours.get(cgroup)];
    if (a === undefined) return [`${cgroup}: only ${second} has this cgroup`];
    if (b === undefined) return [`${cgroup}: only ${first} has this cgroup`];
    const files = [...new Set([...Object.keys(a), ...Object.keys(b)])].toSorted();
    return files
      .filter((file) => a[file] !== b[file])
      .map((file) => `${cgroup} ${file}: ${first} has ${show(a[file])}, ${second} has ${show(b[file])}`);
  });
}

/** The cgroups of a batch. */
export const recordedCgroups = ({ node, cgroups }: RecordedBatch): NodeCgroups => ({
  node,
  cgroups: new Map(Object.entries(cgroups)),
});

const withoutSizes = ({ cgroups, node }: NodeCgroups): CgroupTree =>
  new Map([...cgroups].map(([name, files]) => [name, withoutSize(files, node)]));

function withoutSize(files: CgroupFiles, { capacity, pids }: NodeCgroups["node"]): CgroupFiles {
  const memoryBytes = String(toNumber(parseQuantity(capacity["memory"] ?? "0")));
  const sizes: Readonly<Record<string, Readonly<Record<string, string>>>> = {
    memory: { [memoryBytes]: "all of the node's" },
    // A scope that says nothing itself gets systemd's DefaultTasksMax, 15 % of what the node has.
    pids: { [pids]: "all of the node's", [Math.floor(pids * 0.15)]: "systemd's default" },
  };
  const kinds: Readonly<Record<string, string>> = {
    "memory.max": "memory",
    MemoryMax: "memory",
    "pids.max": "pids",
    TasksMax: "pids",
  };
  return Object.fromEntries(
    Object.entries(files).map(([file, value]) => [file, sizes[kinds[file] ?? ""]?.[value] ?? value]),
  );
}

function show(value: string | undefined): string {
  if (value === undefined) return "no such file";
  return value === "" ? "an empty file" : value;
}
