import { describe, expect, test } from "bun:test";
import { podCgroupName, qosParents } from "../proto/cgroup/cgroup-name.ts";
import { createCgroupLayout, parseCgroupPath } from "./path.ts";

const root = "/sys/fs/cgroup";
const uid = "0c2f-11";
const names = [
  [],
  ...Object.values(qosParents),
  podCgroupName(uid, "Guaranteed"),
  podCgroupName(uid, "Burstable"),
  podCgroupName(uid, "BestEffort"),
];

for (const [driver, cgroupRoot, expected] of [
  [
    "cgroupfs",
    "/",
    [
      "/sys/fs/cgroup: /",
      "/sys/fs/cgroup/kubepods: /kubepods",
      "/sys/fs/cgroup/kubepods/burstable: /kubepods/burstable",
      "/sys/fs/cgroup/kubepods/besteffort: /kubepods/besteffort",
      "/sys/fs/cgroup/kubepods/pod0c2f-11: /kubepods/pod0c2f-11",
      "/sys/fs/cgroup/kubepods/burstable/pod0c2f-11: /kubepods/burstable/pod0c2f-11",
      "/sys/fs/cgroup/kubepods/besteffort/pod0c2f-11: /kubepods/besteffort/pod0c2f-11",
    ],
  ],
  [
    "systemd",
    "",
    [
      "/sys/fs/cgroup: -.slice",
      "/sys/fs/cgroup/kubepods.slice: kubepods.slice",
      "/sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice: kubepods-burstable.slice",
      "/sys/fs/cgroup/kubepods.slice/kubepods-besteffort.slice: kubepods-besteffort.slice",
      "/sys/fs/cgroup/kubepods.slice/kubepods-pod0c2f_11.slice: kubepods-pod0c2f_11.slice",
      "/sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0c2f_11.slice: kubepods-burstable-pod0c2f_11.slice",
      "/sys/fs/cgroup/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod0c2f_11.slice: kubepods-besteffort-pod0c2f_11.slice",
    ],
  ],
] as const)
  test(`the kubelet's paths, and cgroup_parent, with ${driver}`, () => {
    const layout = createCgroupLayout({ root, cgroupRoot, driver });
    expect(names.map((name) => `${layout.path(name)}: ${layout.criParent(name)}`)).toEqual([...expected]);
  });

test("all cgroups are below cgroupRoot, of which an element may have a hyphen", () => {
  const [cgroupfs, systemd] = (["cgroupfs", "systemd"] as const).map((driver) =>
    createCgroupLayout({ root, cgroupRoot: "/k8s/node-1/", driver }),
  );
  expect(cgroupfs?.path(["kubepods"])).toBe("/sys/fs/cgroup/k8s/node-1/kubepods");
  expect(cgroupfs?.criParent([])).toBe("/k8s/node-1");
  expect(systemd?.folders(["kubepods"])).toEqual([
    "/sys/fs/cgroup/k8s.slice",
    "/sys/fs/cgroup/k8s.slice/k8s-node_1.slice",
    "/sys/fs/cgroup/k8s.slice/k8s-node_1.slice/k8s-node_1-kubepods.slice",
  ]);
  expect(systemd?.units(["kubepods"])).toEqual(["k8s.slice", "k8s-node_1.slice", "k8s-node_1-kubepods.slice"]);
});

test("a folder below a cgroup has the last element of its name", () => {
  const systemd = createCgroupLayout({ root, cgroupRoot: "/", driver: "systemd" });
  const scope = "cri-containerd-0a1b.scope";
  expect(systemd.elementOf([], "kubepods.slice")).toBe("kubepods");
  expect(systemd.elementOf(["kubepods"], "kubepods-pod0c2f_11.slice")).toBe("pod0c2f-11");
  expect(systemd.elementOf(["kubepods", "pod0c2f-11"], scope)).toBe(scope);
  expect(systemd.path(["kubepods", "pod0c2f-11", scope])).toEndWith(`/kubepods-pod0c2f_11.slice/${scope}`);
  const cgroupfs = createCgroupLayout({ root, cgroupRoot: "/", driver: "cgroupfs" });
  expect(cgroupfs.elementOf(["kubepods"], "pod0c2f-11")).toBe("pod0c2f-11");
});

test("the path of a setting names a cgroup of the root, in the driver's words", () => {
  const paths = ["/system.slice", "/kube-daemons.slice", "system.slice/kubelet.service", "/", "-.slice"];
  expect(paths.map((path) => parseCgroupPath(path, "systemd"))).toEqual([
    ["system"],
    ["kube", "daemons"],
    ["system", "kubelet.service"],
    [],
    [],
  ]);
  expect(parseCgroupPath("/system.slice/a-b", "cgroupfs")).toEqual(["system.slice", "a-b"]);
  const layout = createCgroupLayout({ root, cgroupRoot: "/", driver: "systemd" });
  expect(paths.slice(0, 3).map((path) => layout.path(parseCgroupPath(path, "systemd")))).toEqual([
    "/sys/fs/cgroup/system.slice",
    "/sys/fs/cgroup/kube.slice/kube-daemons.slice",
    "/sys/fs/cgroup/system.slice/kubelet.service",
  ]);
});

describe("a hostile name is refused before any path is built", () => {
  const hostile = ["", ".", "..", "a/b", "/", "a\0", "a\nb", "x".repeat(256)];
  const rows = [
    ...hostile.map((element) => ["cgroupfs", element] as const),
    ...[...hostile, "a b", "a*", "ü", "x".repeat(250)].map((element) => ["systemd", element] as const),
  ];
  for (const [driver, element] of rows)
    test(`${JSON.stringify(element)} with ${driver}`, () => {
      const layout = createCgroupLayout({ root, cgroupRoot: "/", driver });
      for (const method of [layout.path, layout.folders, layout.criParent])
        expect(() => method(["kubepods", element])).toThrow(
          expect.objectContaining({ name: "CgroupError", code: "ENAME" }),
        );
    });

  test("the message names it, and the driver", () => {
    const layout = createCgroupLayout({ root, cgroupRoot: "/", driver: "systemd" });
    expect(() => layout.path(["a/../../b"])).toThrow('a cgroup cannot be called "a/../../b" with the systemd driver');
  });
});
