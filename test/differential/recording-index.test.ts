import { expect, test } from "bun:test";
import { chooseKubelet, otherPackages, type RecordingIndex } from "./recording-index.ts";

const recorded: RecordingIndex = {
  kubelet: "1.36.3",
  bed: "98f66ad8a62d86f5",
  rows: "1f2e3d4c5b6a7988",
  packages: {
    catatonit: "0.1.7-1+b2",
    containerd: "1.6.20~ds1-1+deb12u3",
    runc: "1.1.5+ds1-1+deb12u1",
    "busybox-static": "1:1.35.0-4+deb12u1+b1",
  },
  cgroup: "v1",
  cpus: 2,
  fileSystem: 61267,
};
const withPackages = (packages: Readonly<Record<string, string>>): RecordingIndex => ({
  ...recorded,
  packages: { ...recorded.packages, ...packages },
});
const { runc: _, ...withoutRunc } = recorded.packages;

test.each<[what: string, here: RecordingIndex, isLive: boolean, differences: readonly string[]]>([
  ["the recorded machine", recorded, false, []],
  [
    "a patch of Debian",
    withPackages({ containerd: "1.6.20~ds1-1+deb12u4" }),
    false,
    ["containerd: here 1.6.20~ds1-1+deb12u4, recorded 1.6.20~ds1-1+deb12u3"],
  ],
  [
    "a package that was built again",
    withPackages({ catatonit: "0.1.7-1+b3", "busybox-static": "1:1.35.0-5" }),
    false,
    [
      "catatonit: here 0.1.7-1+b3, recorded 0.1.7-1+b2",
      "busybox-static: here 1:1.35.0-5, recorded 1:1.35.0-4+deb12u1+b1",
    ],
  ],
  [
    "another release of the runtime",
    withPackages({ containerd: "1.6.24~ds1-1+deb12u3" }),
    true,
    ["containerd: here 1.6.24~ds1-1+deb12u3, recorded 1.6.20~ds1-1+deb12u3"],
  ],
  [
    "a package of another epoch",
    withPackages({ runc: "1:1.1.5+ds1-1+deb12u1" }),
    true,
    [expect.stringMatching(/^runc: /)],
  ],
  ["a package less", { ...recorded, packages: withoutRunc }, true, ["runc: here absent, recorded 1.1.5+ds1-1+deb12u1"]],
  ["a package more", withPackages({ nftables: "1.0-1" }), true, ["nftables: here 1.0-1, recorded absent"]],
  ["another number of CPUs", { ...recorded, cpus: 4 }, true, ["cpus: here 4, recorded 2"]],
  ["another cgroup version", { ...recorded, cgroup: "v2" }, true, ["cgroup: here v2, recorded v1"]],
  ["another file system", { ...recorded, fileSystem: 1 }, true, ["fileSystem: here 1, recorded 61267"]],
  ["another kubelet", { ...recorded, kubelet: "1.37.0" }, true, ["kubelet: here 1.37.0, recorded 1.36.3"]],
])("the kubelet that Berth is compared with on %s", (_what, here, isLive, differences) => {
  expect(chooseKubelet(recorded, here, false)).toEqual({ isLive, differences });
  expect(chooseKubelet(recorded, here, true)).toEqual({ isLive: true, differences });
});

test("a live run refuses a recording that was made with another revision of a package", () => {
  const here = { ...withPackages({ containerd: "1.6.20~ds1-1+deb12u4" }), cpus: 4 };
  expect(otherPackages(recorded, recorded)).toEqual([]);
  expect(otherPackages(recorded, here)).toEqual([
    "containerd: here 1.6.20~ds1-1+deb12u4, recorded 1.6.20~ds1-1+deb12u3",
  ]);
});
