import { expect, test } from "bun:test";
import { ownCgroupError } from "../../../cgroups/error.ts";
import { kubepods, qosParents } from "../../../proto/cgroup/cgroup-name.ts";
import type { NodeCgroup } from "../../decide/node/cgroup-rule.ts";
import { performNodeAction } from "./node-performers.ts";

const failure = ownCgroupError("EDBUS", "system.slice", undefined, "cannot reach systemd");

/** The events of a write of limits, as `kubectl get events` shows them. */
async function eventsOf(cgroup: NodeCgroup, outcome: "succeeds" | "fails"): Promise<readonly string[]> {
  const events: string[] = [];
  const written = performNodeAction(
    {
      runtime: { removeImage: () => Promise.reject(new Error("no image is removed")) },
      onImagesChanged: () => {},
      cgroups: { write: () => (outcome === "fails" ? Promise.reject(failure) : Promise.resolve()) },
      onCgroupsChanged: () => {},
      recordEvent: ({ type, reason, message }) => events.push(`${type} ${reason}: ${message}`),
    },
    { kind: "writeCgroup", cgroup, limits: { cpuWeight: 10 }, why: "it does not exist" },
    new AbortController().signal,
  );
  await (outcome === "fails" ? expect(written).rejects.toBe(failure) : written);
  return events;
}

test.each<[string, NodeCgroup, readonly string[]]>([
  [
    "kubepods",
    { of: "own", name: kubepods },
    [
      'Warning FailedNodeAllocatableEnforcement: Failed to update Node Allocatable Limits ["kubepods"]: cannot reach systemd',
    ],
  ],
  [
    "the cgroup of the operating system",
    { of: "reserved", owner: "system", path: "/system.slice" },
    [
      'Warning FailedNodeAllocatableEnforcement: Failed to enforce System Reserved Cgroup Limits on "/system.slice": cannot reach systemd',
    ],
  ],
  [
    "the cgroup of Kubernetes' daemons",
    { of: "reserved", owner: "kube", path: "/kube.slice" },
    [
      'Warning FailedNodeAllocatableEnforcement: Failed to enforce Kube Reserved Cgroup Limits on "/kube.slice": cannot reach systemd',
    ],
  ],
  ["the cgroup of a QoS class", { of: "own", name: qosParents.Burstable }, []],
])("a write to %s that fails causes the kubelet's event, and one that succeeds none", async (_, cgroup, expected) => {
  expect([...(await eventsOf(cgroup, "succeeds")), ...(await eventsOf(cgroup, "fails"))]).toEqual([...expected]);
});
