import { expect, test } from "bun:test";
import type { PodUid, SandboxId } from "../../../proto/ids.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { emptyObservedPod } from "../../../test/fakes/observed-pod.ts";
import { addressesOf, podIPsOf } from "./pod-ips.ts";

const rows: readonly [name: string, addresses: readonly string[], hostIPs: readonly string[], expected: string][] = [
  ["one", ["10.0.0.2"], ["192.0.2.1"], "10.0.0.2"],
  ["none", [], ["192.0.2.1"], ""],
  [
    "two addresses, in the order of the node's families",
    ["fd00::2", "10.0.0.2"],
    ["192.0.2.1", "2001:db8::1"],
    "10.0.0.2,fd00::2",
  ],
  [
    "two addresses, on a node that prefers IPv6",
    ["10.0.0.2", "fd00::2"],
    ["2001:db8::1", "192.0.2.1"],
    "fd00::2,10.0.0.2",
  ],
  ["two addresses, on a node without addresses", ["fd00::2", "10.0.0.2"], [], "10.0.0.2,fd00::2"],
  ["one address of the other family", ["fd00::2"], ["192.0.2.1"], "fd00::2"],
  [
    "several addresses of one family",
    ["10.0.0.2", "10.9.0.2", "fd00::2", "fd00::3"],
    ["192.0.2.1"],
    "10.0.0.2,fd00::2",
  ],
];
for (const [name, addresses, hostIPs, expected] of rows)
  test(`the IPs of a pod with ${name}: ${expected}`, () => {
    expect(podIPsOf(addresses, hostIPs).join()).toBe(expected);
  });

test("the primary address of a pod is its own of the node's family, or the node's with host networking", () => {
  const ips = ["2001:db8::5", "10.0.0.5"];
  const sandbox = { id: "s" as SandboxId, attempt: 0, ready: true, createdAt: 0, hostNetwork: false, ips, crashes: 0 };
  const pod = (hostNetwork: boolean): Pod => ({ metadata: {}, spec: { containers: [], hostNetwork } });
  const observed = { ...emptyObservedPod("u" as PodUid, "default", "web"), sandboxes: [sandbox] };
  expect(addressesOf(pod(false), observed, ["192.0.2.1"])[0]).toBe("10.0.0.5");
  expect(addressesOf(pod(false), observed, ["2001:db8::1"])[0]).toBe("2001:db8::5");
  expect(addressesOf(pod(true), observed, ["192.0.2.1"])[0]).toBe("192.0.2.1");
  expect(addressesOf(pod(false), { sandboxes: [] }, ["192.0.2.1"])[0]).toBeUndefined();
});
