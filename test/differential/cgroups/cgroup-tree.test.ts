import { expect, test } from "bun:test";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { nameCgroups, parseCgroups, podOfCgroup } from "./cgroup-tree.ts";

const id = (digit: string) => digit.repeat(64);
const pod: Pod = {
  metadata: { name: "web", uid: "0ab1-22-3" },
  spec: { containers: [] },
  status: {
    containerStatuses: [
      { name: "main", containerID: `containerd://${id("a")}`, image: "", imageID: "", ready: true, restartCount: 0 },
    ],
  },
};

test("files without a value are empty, and several lines are one value", () => {
  const text =
    "kubepods/cpu.max\nkubepods/cpuset.cpus\nkubepods/x/io.max\nkubepods/cpu.max:max 100000\nkubepods/x/io.max:8:0 a\nkubepods/x/io.max:8:1 b\n";
  expect([...parseCgroups(text)]).toEqual([
    ["kubepods", { "cpu.max": "max 100000", "cpuset.cpus": "" }],
    ["kubepods/x", { "io.max": "8:0 a\n8:1 b" }],
  ]);
});

test("the properties of a slice are among its settings, in whichever order systemd shows them", () => {
  const properties = "CPUWeight=39\nControlGroup=/kubepods.slice\nSlice=-.slice\n";
  const gone = "ControlGroup=\nCPUWeight=1\n";
  expect([...parseCgroups(`kubepods.slice/pids.max:7\n\n${properties}\n${gone}`)]).toEqual([
    ["kubepods.slice", { "pids.max": "7", CPUWeight: "39", Slice: "-.slice" }],
  ]);
});

test("the cgroups of both drivers have the same names", () => {
  const slices = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0ab1_22_3.slice";
  const paths = {
    systemd: [slices, `${slices}/cri-containerd-${id("a")}.scope`, `${slices}/cri-containerd-${id("b")}.scope`],
    cgroupfs: ["", `/${id("a")}`, `/${id("b")}`].map((rest) => `kubepods/burstable/pod0ab1-22-3${rest}`),
    guaranteed: ["kubepods.slice", "kubepods.slice/kubepods-pod0ab1_22_3.slice", "kubepods/pod0ab1-22-3"],
    foreign: ["kubepods/burstable/pod9", "kubepods/other"],
  };
  const named = Object.entries(paths).map(([name, list]) => [
    name,
    [...nameCgroups(new Map(list.map((path) => [path, {}])), [pod]).keys()],
  ]);
  const names = ["kubepods/burstable/web", "kubepods/burstable/web/main", "kubepods/burstable/web/sandbox"];
  expect(named).toEqual([
    ["systemd", names],
    ["cgroupfs", names],
    ["guaranteed", ["kubepods", "kubepods/web"]],
    ["foreign", ["kubepods/burstable/pod9", "kubepods/other"]],
  ]);
});

test("a cgroup names its pod, also one that is called as a level", () => {
  const names = [
    "kubepods",
    "kubepods/burstable",
    "kubepods/web",
    "kubepods/web/main",
    "kubepods/besteffort/besteffort/main",
  ];
  expect(names.map(podOfCgroup)).toEqual([undefined, undefined, "web", "web", "besteffort"]);
});
