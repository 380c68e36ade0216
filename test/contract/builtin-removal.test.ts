import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { type AttachmentLocks, shareNoLocks } from "../../cni/attachment-locks.ts";
import { removeIdleNetworks, removeNetwork } from "../../cni/builtin/remove-network.ts";
import type { CniError } from "../../cni/error.ts";
import type { CniVerb } from "../../cni/plugin-call.ts";
import { createBridge, listLinks, readLink } from "../../host/netlink/links.ts";
import type { Netlink } from "../../host/netlink/netlink.ts";
import { change, listChains, newChain, newTable } from "../../host/netlink/nftables.ts";
import { hasNetwork } from "../bed/cleanup/bed-resources.ts";
import { noAbandonedLocks } from "../fakes/attachment-locks.ts";
import { type CallInput, type Conf, createNode, NOTHING } from "./builtin-fixture.ts";
import { outputIn } from "./network-namespaces.ts";

const isRoot = process.getuid?.() === 0;
if (!isRoot) console.warn("skipped: removal of the built-in network, since only root may make network namespaces");

let node: ReturnType<typeof createNode>;
beforeEach(() => {
  if (isRoot) node = createNode();
});
afterEach(() => {
  if (isRoot) node.close();
});

const other: Conf = { name: "other", bridge: "berth1", ranges: [[{ subnet: "10.89.0.0/24" }]] };
const options = () => ({ netlink: node.netlink, folder: node.folder, nodeNamespace: node.namespace.path });
const { signal } = new AbortController();
/** Removes the networks without pods; `before` runs before the lock of each is taken, which is in the cache. */
const removeIdle = (before = async () => {}, cacheDir = "/cache") => {
  const withNetwork: AttachmentLocks["withNetwork"] = async (_network, work) => {
    await before();
    return await work(shareNoLocks, noAbandonedLocks);
  };
  return removeIdleNetworks({ ...options(), cacheDir, locks: { withNetwork } }, signal);
};
const keeping = (name: string, containerId: string) => ({
  removed: [],
  kept: [{ name, attachments: [{ containerId, ifName: "eth0" }] }],
});
/** What the node has of built-in networks: links, chains but those that all share, and records. */
const remains = () => ({
  links: listLinks(node.route)
    .map(({ name }) => name)
    .filter((name) => /^(berth|bifb|veth)/.test(name))
    .map((name) => name.replace(/^(veth|bifb).*/, "$1"))
    .toSorted(),
  chains: listChains(node.netfilter)
    .filter(({ table }) => table === "berth")
    .map(({ chain }) => chain)
    .filter((chain) => !/^(guard|host-ports|prerouting|output)$/.test(chain)),
  tables: new Set(listChains(node.netfilter).map(({ table }) => table)).size,
  records: readdirSync(node.folder).toSorted(),
});
const NO_NETWORK = { links: [], chains: [], tables: 0, records: [] };

test.skipIf(!isRoot)("a network without pods is removed, with its bridge, its rules and its record", async () => {
  const pod = await node.addPod("c1");
  expect(await removeIdle()).toEqual(keeping("pods", "c1"));
  expect(remains()).toEqual({ links: ["berth0", "veth"], chains: ["masquerade-pods"], tables: 1, records: ["pods"] });
  await node.call("DEL", pod.id);
  expect(await removeIdle()).toEqual({ removed: ["pods"], kept: [] });
  expect(remains()).toEqual(NO_NETWORK);
  expect(await removeIdle()).toEqual({ removed: [], kept: [] });
  // The process that has made it makes it again.
  await node.addPod("c2");
  expect(remains().chains).toEqual(["masquerade-pods"]);
});

test.skipIf(!isRoot)("a network that gets a pod while its lock is awaited stays", async () => {
  const pod = await node.addPod("c1");
  await node.call("DEL", pod.id);
  expect(await removeIdle(async () => void (await node.addPod("c2")))).toEqual(keeping("pods", "c2"));
  expect(remains()).toEqual({ links: ["berth0", "veth"], chains: ["masquerade-pods"], tables: 1, records: ["pods"] });
});

test.skipIf(!isRoot)("a network stays while an address is reserved whose record is gone", async () => {
  const pod = await node.addPod("c1");
  rmSync(join(node.folder, "pods/attachments"), { recursive: true });
  expect(await removeIdle()).toEqual(keeping("pods", "c1"));
  await node.call("DEL", pod.id);
  expect(await removeIdle()).toEqual({ removed: ["pods"], kept: [] });
});

test.skipIf(!isRoot)("a network with pods keeps its bridge, its rules and its record", async () => {
  const pod = await node.addPod("c1");
  await node.addPod("c2", other);
  await node.call("DEL", pod.id);
  expect(await removeIdle()).toEqual({ ...keeping("other", "c2"), removed: ["pods"] });
  expect(remains()).toEqual({ links: ["berth1", "veth"], chains: ["masquerade-other"], tables: 1, records: ["other"] });
});

test.skipIf(!isRoot)("a network is removed together with its pods, and again without effect", async () => {
  const runtimeConfig = {
    portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }],
    bandwidth: { egressRate: 1e9, egressBurst: 1e9 },
  };
  await node.addPod("c1", { runtimeConfig });
  await node.addPod("c2", { ...other, runtimeConfig: { ...runtimeConfig, portMappings: [] } });
  expect(hasNetwork(options(), "pods")).toBe(true);
  await removeNetwork(options(), "pods");
  expect(hasNetwork(options(), "pods")).toBe(false);
  expect(node.leftovers()).toMatchObject({ hostPorts: 0, attachments: [], addresses: [] });
  for (const name of ["other", "other", "never-there"]) await removeNetwork(options(), name);
  expect(remains()).toEqual(NO_NETWORK);
});

const THREE_DONE = ["done", "done", "done"];

test.skipIf(!isRoot).each([
  ["another network makes its rules", [newTable("berth"), newChain("berth", "masquerade-other")], ["masquerade-other"]],
  ["another program changes its own rules", [newTable("theirs")], []],
])("rules are removed when %s between the look and the removal", async (_what, requests, chains) => {
  const pod = await node.addPod("c1");
  await node.call("DEL", pod.id);
  let looks = 0;
  const netlink: Netlink = {
    ...node.netlink,
    openSocket(protocol) {
      const socket = node.netlink.openSocket(protocol);
      return {
        ...socket,
        dump(request) {
          const found = socket.dump(request);
          if (request.what === "list the nftables chains" && looks++ === 0) change(node.netfilter, requests);
          return found;
        },
      };
    },
  };
  await removeNetwork({ ...options(), netlink }, "pods");
  expect(looks).toBe(2);
  expect(remains()).toMatchObject({ chains, records: [], links: [] });
});

/** Two executors with caches of their own, and what a call of each ends with. */
function createExecutors() {
  const [first, second] = ["first", "second"].map((name) => {
    const cacheDir = join(node.folder, "..", `${basename(node.folder)}-${name}`);
    mkdirSync(cacheDir);
    const plugin = node.createPlugin(node.netlink, undefined, undefined, cacheDir);
    const call = (verb: CniVerb, input: CallInput = {}) =>
      node.call(verb, input, plugin).then(
        () => "done",
        ({ code, message }: CniError) => `${code}: ${message}`,
      );
    return { cacheDir, call, plugin };
  });
  if (first === undefined || second === undefined) throw new Error("there are two");
  const close = () => {
    for (const { plugin, cacheDir } of [first, second]) {
      plugin.close();
      rmSync(cacheDir, { recursive: true, force: true });
    }
  };
  return { first, second, close };
}

test.skipIf(!isRoot)("a network belongs to one cache until it is removed, or until that cache is gone", async () => {
  const { first, second, close } = createExecutors();
  try {
    const [c1, c2, c3] = ["c1", "c2", "c3"].map((containerId) => ({
      ...{ containerId, netns: node.namespaces.create().path },
    }));
    expect([await second.call("STATUS"), await first.call("ADD", c1), await first.call("STATUS")]).toEqual(THREE_DONE);
    const before = node.leftovers();
    expect(before.attachments).toEqual(["c1"]);
    const words = `the built-in network pods belongs to the cache ${first.cacheDir}, as ${node.folder}/pods/claimed-by says`;
    const valid = { conf: { "cni.dev/valid-attachments": [] } };
    expect(await second.call("STATUS")).toStartWith(`50: ${words}`);
    for (const refused of [await second.call("ADD", c2), await second.call("GC", valid)])
      expect(refused).toStartWith(`106: ${words}`);
    // The runtime calls it after the ADD.
    expect(await second.call("DEL", c2)).toBe("done");
    expect(node.leftovers()).toEqual(before);
    expect(await first.call("DEL", c1)).toBe("done");
    const kept = { name: "pods", claimedBy: first.cacheDir, attachments: [] };
    expect(await removeIdle(undefined, second.cacheDir)).toEqual({ removed: [], kept: [kept] });
    expect(await removeIdle(undefined, first.cacheDir)).toEqual({ removed: ["pods"], kept: [] });
    expect(remains()).toEqual(NO_NETWORK);
    expect(await second.call("ADD", c3)).toBe("done");
    expect(await first.call("STATUS")).toStartWith("50: ");
    rmSync(second.cacheDir, { recursive: true });
    expect([await first.call("STATUS"), await first.call("ADD", c1), await first.call("GC", valid)]).toEqual(
      THREE_DONE,
    );
    expect(node.leftovers()).toEqual(NOTHING);
  } finally {
    close();
  }
});

test.skipIf(!isRoot)("a bridge that the network has not made stays", async () => {
  createBridge(node.route, { name: "berth0", mtu: 1420, mac: Uint8Array.of(2, 0, 0, 0, 0, 1) });
  await node.addPod("c1");
  await removeNetwork(options(), "pods");
  expect(remains()).toEqual({ ...NO_NETWORK, links: ["berth0"] });
});

test.skipIf(!isRoot).each(["bridge", "ifb"])(
  "a link of the kind %s that another program makes in the moment in which the network makes its bridge stays, without the alias",
  async (kind) => {
    const plugin = node.createPlugin({
      ...node.netlink,
      openSocket(protocol) {
        const socket = node.netlink.openSocket(protocol);
        return {
          ...socket,
          batch(begin, requests, end) {
            if (requests[0]?.what === "create the bridge berth0")
              outputIn(node.namespace, "ip", "link", "add", "berth0", "type", kind);
            socket.batch(begin, requests, end);
          },
        };
      },
    });
    const netns = node.namespaces.create().path;
    const added = await node.call("ADD", { netns }, plugin).then(
      () => "added",
      ({ message }: Error) => message,
    );
    expect(added).toMatch(kind === "bridge" ? /^added$/ : /the link berth0 is of the kind ifb/);
    expect(readLink(node.route, "berth0")).toMatchObject({ kind, alias: "" });
    plugin.close();
    await removeNetwork(options(), "pods");
    expect(remains()).toEqual({ ...NO_NETWORK, links: ["berth0"] });
  },
);

test.skipIf(!isRoot)("rules that have outlived their record are found, and removed", async () => {
  const pod = await node.addPod("c1");
  await node.call("DEL", pod.id);
  mkdirSync(join(node.folder, "unused"));
  await removeNetwork(options(), "unused");
  expect(hasNetwork(options(), "unused")).toBe(false);
  const elsewhere = { ...options(), folder: join(node.folder, "absent") };
  expect(hasNetwork(elsewhere, "pods")).toBe(true);
  await removeNetwork(elsewhere, "pods");
  expect(remains()).toEqual({ ...NO_NETWORK, records: ["pods"] });
});
