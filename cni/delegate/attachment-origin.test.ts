import { expect, test } from "bun:test";
import type { CacheEntry } from "../cache-entry.ts";
import { originOf } from "./attachment-origin.ts";
import { formatDelegateList } from "./delegate-conf.ts";

const socket = "/var/lib/kubelet/cni.sock";
const entryOf = (network: string, containerId: string, change: Partial<CacheEntry> = {}): CacheEntry => ({
  ...{ network, containerId, ifName: "eth0", netns: "/run/netns/a", args: new Map(), capabilityArgs: {}, result: {} },
  config: JSON.stringify({ cniVersion: "1.0.0", name: network, plugins: [{ type: "bridge" }] }),
  ...change,
});
const ofPod = { args: new Map([["K8S_POD_INFRA_CONTAINER_ID", "3f2a"]]) };
const delegate = entryOf("berth-delegate", "3f2a", {
  ...ofPod,
  config: formatDelegateList({ socket, confDir: "/c", binDirs: ["/b"], cacheDir: "/v", timeoutMs: 1 }),
});

const rows: readonly (readonly [what: string, entry: CacheEntry, origin: ReturnType<typeof originOf>])[] = [
  ["what the runtime keeps of the delegate", delegate, { by: "runtimeViaAgent", socket }],
  ["the network that an agent has executed", entryOf("pods", "3f2a", ofPod), { by: "agent", socket }],
  ["a secondary network of it", entryOf("lan", "3f2a", { ...ofPod, ifName: "net1" }), { by: "agent", socket }],
  ["its loopback", entryOf("cni-loopback", "3f2a", { ...ofPod, ifName: "lo" }), { by: "runtime" }],
  ["the network of a pod without a delegate", entryOf("pods", "77aa", ofPod), { by: "runtime" }],
  ["an id of cnitool", entryOf("pods", "cnitool-0a1b"), { by: "cnitool" }],
  ["another id", entryOf("podman", "9c01"), { by: "other" }],
  ["a torn delegate entry", entryOf("berth-delegate", "5d4c", { ...ofPod, config: "{" }), { by: "runtime" }],
];
test.each(rows)("the origin of %s", (_, entry, origin) => {
  expect(originOf(entry, [delegate, ...rows.map(([, each]) => each)])).toEqual(origin);
});
