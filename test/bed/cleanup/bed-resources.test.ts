import { expect, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { countBedResources, describeBedResources, findAgentLocks } from "./bed-resources.ts";

const cleanBed = { processes: [], mounts: [], links: [], rules: [], networks: [], cgroups: [], files: [] };
const id = "0123456789abcdef".repeat(4);

test("a clean bed is described by no line", () => {
  expect(describeBedResources(cleanBed)).toEqual([]);
  expect(countBedResources(cleanBed)).toEqual([]);
});

test("leftovers are described by one short line per kind: the number, the first three, and how many more", () => {
  const mount = `/root/berth/state/containerd/state/io.containerd.runtime.v2.task/k8s.io/${id}/rootfs`;
  const rule = `-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: berth-1" -j CNI-DN-aa11`;
  const left = {
    ...cleanBed,
    processes: Array.from({ length: 13 }, (_, at) => 100 + at),
    mounts: [mount, mount],
    links: ["berth-12345678"],
    rules: [rule],
    files: [`/run/containerd/s/${id}`],
  };
  expect(describeBedResources(left)).toMatchInlineSnapshot(`
    [
      "13 processes: 100, 101, 102 and 10 more",
      "2 mounts: /root/berth/state/conta….io/0123456789ab/rootfs, /root/berth/state/conta….io/0123456789ab/rootfs",
      "1 interface: berth-12345678",
      "1 rule: -A CNI-HOSTPORT-DNAT -p…berth-1" -j CNI-DN-aa11",
      "1 file: /run/containerd/s/0123456789ab",
    ]
  `);
  expect(countBedResources(left)).toEqual(["13 processes", "2 mounts", "1 interface", "1 rule", "1 file"]);
});

test("the lock of a killed agent belongs to the bed with its root directory, and to no bed whose name begins alike", async () => {
  const folder = await mkdtemp(join(tmpdir(), "berth-locks-"));
  try {
    for (const bed of ["state", "state-2"])
      await writeFile(join(folder, `${bed}.lock`), `pid 4711, node berth, root directory /root/berth/${bed}/kubelet\n`);
    await writeFile(join(folder, "other"), "root directory /root/berth/state/kubelet");
    expect(await findAgentLocks({ stateDir: "/root/berth/state" }, folder)).toEqual([join(folder, "state.lock")]);
    expect(await findAgentLocks({ stateDir: "/root/berth/state" }, join(folder, "missing"))).toEqual([]);
  } finally {
    await rm(folder, { recursive: true });
  }
});
