import { expect, test } from "bun:test";
import { countLeftovers, describeLeftovers } from "./bed-resources.ts";

const nothing = { processes: [], mounts: [], links: [], rules: [], cgroups: [], files: [] };
const id = "0123456789abcdef".repeat(4);

test("nothing that is left is no line", () => {
  expect(describeLeftovers(nothing)).toEqual([]);
  expect(countLeftovers(nothing)).toEqual([]);
});

test("what is left takes a short line a kind: how much, its first three, and how much more", () => {
  const mount = `/root/berth/state/containerd/state/io.containerd.runtime.v2.task/k8s.io/${id}/rootfs`;
  const rule = `-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: berth-1" -j CNI-DN-aa11`;
  const left = {
    ...nothing,
    processes: Array.from({ length: 13 }, (_, at) => 100 + at),
    mounts: [mount, mount],
    links: ["berth-12345678"],
    rules: [rule],
    files: [`/run/containerd/s/${id}`],
  };
  expect(describeLeftovers(left)).toMatchInlineSnapshot(`
    [
      "13 processes: 100, 101, 102 and 10 more",
      "2 mounts: /root/berth/state/conta….io/0123456789ab/rootfs, /root/berth/state/conta….io/0123456789ab/rootfs",
      "1 interface: berth-12345678",
      "1 rule: -A CNI-HOSTPORT-DNAT -p…berth-1" -j CNI-DN-aa11",
      "1 file: /run/containerd/s/0123456789ab",
    ]
  `);
  expect(countLeftovers(left)).toEqual(["13 processes", "2 mounts", "1 interface", "1 rule", "1 file"]);
});
