import { expect, test } from "bun:test";
import { compareCgroups, type NodeCgroups } from "./compare-cgroups.ts";

const nodeOf = (cgroups: Readonly<Record<string, Readonly<Record<string, string>>>>, memory = "1Ki"): NodeCgroups => ({
  node: { capacity: { memory }, pids: 7 },
  cgroups: new Map(Object.entries(cgroups)),
});

test("each file that differs is a line, and each cgroup that one side lacks", () => {
  const kubelet = nodeOf({ kubepods: { "cpu.weight": "39", "cpuset.cpus": "" }, "kubepods/a": {} });
  const berth = nodeOf({ kubepods: { "cpu.weight": "38", "pids.max": "max" }, "kubepods/b": {} });
  expect(compareCgroups(kubelet, berth)).toEqual([
    "kubepods cpu.weight: the kubelet has 39, Berth has 38",
    "kubepods cpuset.cpus: the kubelet has an empty file, Berth has no such file",
    "kubepods pids.max: the kubelet has no such file, Berth has max",
    "kubepods/a: only the kubelet has this cgroup",
    "kubepods/b: only Berth has this cgroup",
  ]);
  expect(compareCgroups(kubelet, kubelet)).toEqual([]);
});

test("all of the node's memory is equal on nodes of different size", () => {
  const kubelet = nodeOf({ kubepods: { "memory.max": "1024" } });
  expect(compareCgroups(kubelet, nodeOf({ kubepods: { "memory.max": "2048" } }, "2Ki"))).toEqual([]);
  expect(compareCgroups(kubelet, nodeOf({ kubepods: { "memory.max": "1024" } }, "2Ki"))).toHaveLength(1);
});
