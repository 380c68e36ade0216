import { expect, test } from "bun:test";
import { observedNode, observedRuntime } from "../../../test/fakes/observed-node.ts";
import { driverMismatch } from "./cgroup-drivers.ts";
import type { ObservedNode, ObservedRuntime } from "./observed-node.ts";

type Row = readonly [own: ObservedNode["ownCgroups"], runtime: ObservedRuntime["cgroupDriver"]];
const shown = (name: "cgroupfs" | "systemd") => ({ name, isReported: false });
const reported = (name: "cgroupfs" | "systemd") => ({ name, isReported: true });

const text = ([own, cgroupDriver]: Row) => {
  const found = driverMismatch({ ...observedNode, ownCgroups: own, runtime: { ...observedRuntime, cgroupDriver } });
  return found && `${found.isFatal ? "fatal" : "not fatal"}: ${found.message}`;
};

const agreeing: readonly Row[] = [
  ["systemd", shown("systemd")],
  ["cgroupfs", reported("cgroupfs")],
  ["none", shown("cgroupfs")],
  ["none", reported("systemd")],
  ["cgroupfs", undefined],
  [undefined, shown("systemd")],
];
for (const row of agreeing)
  test(`an agent with ${row[0]} and a runtime with ${row[1]?.name} are no mismatch`, () => {
    expect(text(row)).toBeUndefined();
  });

test("a mismatch has both sides, what follows, and the cure", () => {
  const rows: readonly Row[] = [
    ["cgroupfs", shown("systemd")],
    ["systemd", shown("cgroupfs")],
    ["cgroupfs", reported("systemd")],
    ["systemd", reported("cgroupfs")],
    ["none", shown("systemd")],
  ];
  expect(`\n${rows.map(text).join("\n")}\n`).toMatchInlineSnapshot(`
    "
    fatal: the container runtime uses the cgroup driver systemd and this agent cgroupfs, so no pod can start: set cgroupDriver: systemd and restart this agent, or set SystemdCgroup = false in the runtime's configuration and restart the runtime
    not fatal: the container runtime uses the cgroup driver cgroupfs and this agent systemd, so the limits of pods and of the node hold for no container: set cgroupDriver: cgroupfs and restart this agent, or set SystemdCgroup = true in the runtime's configuration and restart the runtime
    fatal: the container runtime uses the cgroup driver systemd and this agent cgroupfs, so no pod can start: restart this agent, which takes the runtime's driver when it starts
    not fatal: the container runtime uses the cgroup driver cgroupfs and this agent systemd, so the limits of pods and of the node hold for no container: restart this agent, which takes the runtime's driver when it starts
    fatal: the container runtime uses the cgroup driver systemd, which needs a slice for each pod, and cgroupsPerQOS is false, so no pod can start: set cgroupsPerQOS: true and restart this agent, or set SystemdCgroup = false in the runtime's configuration and restart the runtime
    "
  `);
});
