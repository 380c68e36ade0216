import { makeWithinUse, writeWithinUse } from "../../../agent/act/performers/cgroup-limits.ts";
import { ifPresent } from "../../../agent/observed/read-cgroup.ts";
import type { NodeCgroupAccess } from "../../../agent/wiring/local-node.ts";
import type { AwaitedCgroups } from "../../../cgroups/awaited-cgroups.ts";
import { createSerialQueue } from "../../../host/async/serial-queue.ts";
import type { FakeCgroups } from "../../fakes/cgroups.ts";
import type { VerbsOf } from "./adapter-verbs.ts";
import type { AgentLifetime } from "./deaths.ts";

const cgroupsVerbs = {
  make: "mutates",
  write: "mutates",
  exists: "reads",
  children: "reads",
  remove: "mutates",
  read: "reads",
  stats: "reads",
  criParent: "computes",
} as const satisfies VerbsOf<AwaitedCgroups>;

/** The cgroups of the pods and of the node, as one agent uses them. */
export function cgroupSeam(
  cgroups: FakeCgroups,
  lifetime: AgentLifetime,
): { readonly pods: AwaitedCgroups; readonly node: NodeCgroupAccess } {
  const pods = lifetime.wrap<AwaitedCgroups>({
    name: "cgroups",
    adapter: cgroups,
    verbs: cgroupsVerbs,
    subjectOf: (_, [name]) => String(name).replaceAll(",", "/"),
  });
  const inOrder = createSerialQueue();
  const nameOf = (cgroup: Parameters<NodeCgroupAccess["read"]>[0]) =>
    cgroup.of === "own" ? cgroup.name : cgroup.path.split("/").slice(1);
  return {
    pods,
    node: {
      driver: Promise.resolve(cgroups.driver),
      read: (cgroup) => ifPresent(() => pods.read(nameOf(cgroup))),
      write: (cgroup, limits) =>
        inOrder(() => (cgroup.of === "own" ? makeWithinUse : writeWithinUse)(pods, nameOf(cgroup), limits)),
    },
  };
}
