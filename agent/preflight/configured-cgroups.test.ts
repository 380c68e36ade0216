import { expect, test } from "bun:test";
import { nodeSettings } from "../../test/fakes/observed-node.ts";
import { type ConfiguredCgroups, checkConfiguredCgroups } from "./configured-cgroups.ts";

type Change = Partial<ConfiguredCgroups["node"]> & Partial<Pick<ConfiguredCgroups, "cgroupRoot">>;

/** The message of a refused start on a machine that has these cgroups; undefined: the agent starts. */
function refusal({ cgroupRoot = "/", ...change }: Change, ...existing: readonly string[]): string | undefined {
  const exists = (file: string) => existing.some((path) => file === `/cg/${path}/cgroup.controllers`);
  const node = { ...nodeSettings, cgroupsPerQOS: true, ...change };
  try {
    checkConfiguredCgroups({ cgroupRoot, node }, "/cg", exists);
    return undefined;
  } catch (error) {
    return String(error);
  }
}

const paths = { system: "/system.slice", kube: "/runtime" };
const both = {
  enforceNodeAllocatable: ["pods", "system-reserved", "kube-reserved-compressible"],
  reservedCgroupPaths: paths,
} as const;

test("enforced reservations start where their cgroups exist, with the name of either driver", () => {
  expect(refusal(both, "system.slice", "runtime")).toBeUndefined();
  expect(refusal(both, "system.slice", "runtime.slice")).toBeUndefined();
});

test("a missing cgroup refuses the start, with both ways to make it", () => {
  expect(refusal(both, "system.slice")).toBe(
    'StartError: enforceNodeAllocatable has kube-reserved-compressible, and kubeReservedCgroup "/runtime" does not exist: make it before the agent starts (with systemd: systemctl start runtime.slice, else mkdir /cg/runtime), or remove kube-reserved-compressible from enforceNodeAllocatable',
  );
  expect(refusal(both, "runtime")).toContain('systemReservedCgroup "/system.slice" does not exist');
});

test("a name that no cgroup can have refuses the start", () => {
  expect(refusal({ ...both, reservedCgroupPaths: { ...paths, system: "/../x" } }, "runtime")).toContain(
    'systemReservedCgroup "/../x" cannot be the path of a cgroup',
  );
});

test("a reservation that is not enforced needs no cgroup", () => {
  expect(refusal({ ...both, enforceNodeAllocatable: ["pods"] })).toBeUndefined();
  expect(refusal({ ...both, cgroupsPerQOS: false })).toBeUndefined();
});

test("a cgroupRoot that does not exist refuses the start, which would move all pods below it", () => {
  expect(refusal({ cgroupRoot: "/node-pods" })).toBe(
    'StartError: cgroupRoot "/node-pods" does not exist: make it before the agent starts (with systemd: systemctl start node_pods.slice, else mkdir /cg/node-pods), or remove cgroupRoot, so that kubepods is below the root',
  );
  expect(refusal({ cgroupRoot: "/a/b" })).toContain("systemctl start a-b.slice, else mkdir /cg/a/b");
  expect(refusal({ cgroupRoot: "/a/../b" })).toContain('cgroupRoot "/a/../b" cannot be the path of a cgroup');
});

test("a cgroupRoot that exists with the name of either driver, or is the root, starts", () => {
  expect(refusal({ cgroupRoot: "/node-pods" }, "node-pods")).toBeUndefined();
  expect(refusal({ cgroupRoot: "/node-pods" }, "node_pods.slice")).toBeUndefined();
  for (const cgroupRoot of ["", "/"]) expect(refusal({ cgroupRoot })).toBeUndefined();
  expect(refusal({ cgroupRoot: "/node-pods", cgroupsPerQOS: false })).toBeUndefined();
});
