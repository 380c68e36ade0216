import { expect, test } from "bun:test";
import { nodeSettings } from "../../test/fakes/observed-node.ts";
import type { NodeSettings } from "../decide/node/node-settings.ts";
import { checkReservedCgroups } from "./check-reserved-cgroups.ts";

/** The message of a refused start on a machine that has these cgroups; undefined: the agent starts. */
function refusal(change: Partial<NodeSettings>, ...existing: readonly string[]): string | undefined {
  const files = {
    read: (file: string) =>
      existing.some((path) => file === `/cg/${path}/cgroup.controllers`) ? "cpu memory" : undefined,
  };
  const settings = { ...nodeSettings, cgroupsPerQOS: true, ...change };
  try {
    checkReservedCgroups(settings, "/cg", files);
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
