import { expect, test } from "bun:test";
import type { CgroupLimits } from "../../../proto/cgroup/limits.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { ResourceRequirements } from "../../../proto/kubernetes/gen/types.ts";
import { nodeSettings, observedMachine, observedNode } from "../../../test/fakes/observed-node.ts";
import type { DesiredPod } from "../pod/desired.ts";
import { cgroupRule, nodeCgroupKey, nodeCgroups } from "./cgroup-rule.ts";
import type { NodeRuleInput } from "./node.ts";
import { describeNodeAction, type NodeAction } from "./node-action.ts";
import { noPressure } from "./observed-node.ts";

const settings = { ...nodeSettings, cgroupsPerQOS: true, enforceNodeAllocatable: ["pods"] as const };

const pod = (name: string, resources: ResourceRequirements, more: Partial<DesiredPod> = {}): DesiredPod => ({
  uid: name as PodUid,
  pod: { metadata: { name, uid: name }, spec: { containers: [{ name: "a", resources }] } },
  source: { kind: "api" },
  acceptedAt: 0,
  revision: 0,
  ...more,
});

const half = { requests: { cpu: "500m" } };

const input = (
  cgroups: Readonly<Record<string, CgroupLimits>> | undefined,
  more: Partial<NodeRuleInput> = {},
): NodeRuleInput => ({
  pods: [],
  areSourcesReady: true,
  observed: {
    ...observedNode,
    machine: { ...observedMachine, maxTasks: 32_768, hugePages: [{ pageBytes: 2 ** 21, totalBytes: 0 }] },
    signals: undefined,
    cgroups: cgroups && new Map(Object.entries(cgroups)),
  },
  pressure: noPressure,
  settings,
  now: 0,
  ...more,
});

/** Decides with what the rule remembers, and carries the actions out as the kernel would. */
function createRun(cgroups: Record<string, CgroupLimits> = {}) {
  let memory = cgroupRule.emptyMemory!;
  return (more: Partial<NodeRuleInput> = {}): string => {
    const decision = cgroupRule.decide(input(cgroups, more), memory);
    memory = decision.memory ?? memory;
    const { actions = [], events = [], lookAgainAt } = decision;
    for (const action of actions as readonly Extract<NodeAction, { kind: "writeCgroup" }>[]) {
      const key = nodeCgroupKey(action.cgroup);
      cgroups[key] = { ...cgroups[key], ...action.limits };
    }
    const again = lookAgainAt === undefined ? [] : [`look again at ${lookAgainAt}`];
    const recorded = events.map(({ reason, message }) => `${reason}: ${message}`);
    return `\n${[...actions.map(describeNodeAction), ...recorded, ...again].join("\n") || "-"}\n`;
  };
}

test("nothing is decided before the cgroups were read", () => {
  expect(cgroupRule.decide(input(undefined), cgroupRule.emptyMemory!)).toEqual({});
});

test("the cgroups that are missing are made with their limits, once", () => {
  const run = createRun();
  expect(run()).toMatchInlineSnapshot(`
    "
    write memory.max 8589934592, cpu.weight 157, cpuset.cpus 0-3, pids.max 32768, hugetlb.2MB.max 4611686018427388000 to cgroup kubepods: it does not exist
    write cpu.weight 1, hugetlb.2MB.max 4611686018427388000 to cgroup kubepods/burstable: it does not exist
    write cpu.weight 1, hugetlb.2MB.max 4611686018427388000 to cgroup kubepods/besteffort: it does not exist
    "
  `);
  const enforced = "NodeAllocatableEnforced: Updated Node Allocatable limit across pods";
  expect(run({ now: 1 })).toBe(`\n${enforced}\n`);
  expect(run({ now: 60_000 })).toBe("\n-\n");
});

test("reservations are taken from kubepods, and written to the cgroups that they are enforced on", () => {
  const run = createRun({ "/system.slice": { cpuWeight: 100, memoryMax: "max", pidsMax: "max" } });
  const reserved = {
    ...settings,
    systemReserved: { cpu: "1", memory: "1Gi", pid: "1000" },
    kubeReserved: { memory: "1Gi" },
    enforceNodeAllocatable: ["pods", "system-reserved"] as const,
    reservedCgroupPaths: { system: "/system.slice", kube: "" },
  };
  expect(run({ settings: reserved })).toMatchInlineSnapshot(`
    "
    write memory.max 6442450944, cpu.weight 118, cpuset.cpus 0-3, pids.max 31768, hugetlb.2MB.max 4611686018427388000 to cgroup kubepods: it does not exist
    write cpu.weight 1, hugetlb.2MB.max 4611686018427388000 to cgroup kubepods/burstable: it does not exist
    write cpu.weight 1, hugetlb.2MB.max 4611686018427388000 to cgroup kubepods/besteffort: it does not exist
    write memory.max 1073741824, cpu.weight 39, pids.max 1000 to cgroup /system.slice: it has memory.max max, cpu.weight 100, pids.max max
    "
  `);
});

test("the weight of Burstable pods follows their requests, at most once a second", () => {
  const run = createRun();
  run();
  expect(run({ now: 500, pods: [pod("a", half)] })).toMatchInlineSnapshot(`
    "
    NodeAllocatableEnforced: Updated Node Allocatable limit across pods
    look again at 1000
    "
  `);
  expect(run({ now: 1000, pods: [pod("a", half), pod("b", half)] })).toMatchInlineSnapshot(`
    "
    write cpu.weight 39 to cgroup kubepods/burstable: it has cpu.weight 1
    "
  `);
  const ended = pod("b", half, { hasReleasedResources: true });
  expect(run({ now: 3000, pods: [pod("a", half), ended] })).toMatchInlineSnapshot(`
    "
    write cpu.weight 20 to cgroup kubepods/burstable: it has cpu.weight 39
    "
  `);
});

test("an agent that starts leaves the weight of Burstable pods until it knows them all", () => {
  const before = { cpuWeight: 39, memoryLow: 2 ** 20, hugetlbMax: { "2MB": 0 } };
  const run = createRun({ "kubepods/burstable": before });
  const protectedMemory = { ...settings, memoryReservationPolicy: "TieredReservation" } as const;
  const startedWith = { settings: protectedMemory, areSourcesReady: false };
  expect(run(startedWith)).toContain(
    "write hugetlb.2MB.max 4611686018427388000 to cgroup kubepods/burstable: it has hugetlb.2MB.max 0",
  );
  const awaited = pod("a", half, { admission: { kind: "awaited" } });
  expect(run({ now: 1_000, pods: [awaited] })).not.toContain("write");
  const all = [pod("b", { requests: { cpu: "2" } }), awaited];
  expect(run({ now: 2_000, pods: all })).toContain(
    "write cpu.weight 79 to cgroup kubepods/burstable: it has cpu.weight 39",
  );
  expect(run({ now: 4_000, pods: [pod("a", half)] })).toContain(
    "write cpu.weight 20 to cgroup kubepods/burstable: it has cpu.weight 79",
  );
});

test("a limit that another program has changed is written again, with what was found", () => {
  const cgroups: Record<string, CgroupLimits> = {};
  const run = createRun(cgroups);
  run();
  cgroups["kubepods"] = { ...cgroups["kubepods"], memoryMax: "max", cpuWeight: 100 };
  delete cgroups["kubepods/besteffort"];
  expect(run({ now: 60_000 })).toMatchInlineSnapshot(`
    "
    write memory.max 8589934592, cpu.weight 157 to cgroup kubepods: it has memory.max max, cpu.weight 100
    write cpu.weight 1, hugetlb.2MB.max 4611686018427388000 to cgroup kubepods/besteffort: it does not exist
    "
  `);
});

test("each start of the agent has one event of each enforced cgroup, also if nothing is to be written or pods is not enforced", () => {
  const cgroups = { "/system.slice": { cpuWeight: 100 } };
  const reserved: Partial<NodeRuleInput> = {
    settings: {
      ...settings,
      systemReserved: { cpu: "1" },
      enforceNodeAllocatable: ["system-reserved-compressible"],
      reservedCgroupPaths: { system: "/system.slice", kube: "" },
    },
  };
  createRun(cgroups)(reserved);
  const restarted = createRun(cgroups);
  expect(restarted(reserved)).toMatchInlineSnapshot(`
    "
    NodeAllocatableEnforced: Updated Node Allocatable limit across pods
    NodeAllocatableEnforced: Updated limits on system reserved cgroup /system.slice
    "
  `);
  cgroups["/system.slice"] = { cpuWeight: 100 };
  expect(restarted({ ...reserved, now: 60_000 })).toMatchInlineSnapshot(`
    "
    write cpu.weight 39 to cgroup /system.slice: it has cpu.weight 100
    "
  `);
  expect(restarted({ ...reserved, now: 120_000 })).toBe("\n-\n");
});

test("without cgroupsPerQOS there are no cgroups to observe", () => {
  expect(nodeCgroups({ ...settings, cgroupsPerQOS: false })).toEqual([]);
  const reserved = { system: "/system.slice", kube: "/kube.slice" };
  expect(nodeCgroups({ ...settings, reservedCgroupPaths: reserved }).map(nodeCgroupKey)).toEqual([
    "kubepods",
    "kubepods/burstable",
    "kubepods/besteffort",
    "/system.slice",
    "/kube.slice",
  ]);
});
