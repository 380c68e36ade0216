import { afterEach, describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { type AttachmentLocks, shareNoLocks } from "../../cni/attachment-locks.ts";
import type { AttachmentStore } from "../../cni/builtin/attachment-store.ts";
import { createAttachmentStore } from "../../cni/builtin/attachment-store.ts";
import { removeIdleNetworks } from "../../cni/builtin/remove-network.ts";
import { listLinks } from "../../host/netlink/links.ts";
import type { Netlink } from "../../host/netlink/netlink.ts";
import { listChains } from "../../host/netlink/nftables.ts";
import type { NetlinkSocket } from "../../host/netlink/socket.ts";
import { noAbandonedLocks } from "../fakes/attachment-locks.ts";
import { FakeClock } from "../fakes/clock.ts";
import { createNode, NOTHING } from "./builtin-fixture.ts";

const isRoot = process.getuid?.() === 0;
if (!isRoot) console.warn("skipped: deaths of the built-in network, since only root may make network namespaces");

let nodes: ReturnType<typeof createNode>[] = [];
afterEach(() => {
  for (const each of nodes) each.close();
  nodes = [];
});

class Killed extends Error {}

/** Lets `count` calls through. Then the process is dead: this call and all later ones do nothing. */
function createDeath(count: number) {
  let calls = 0;
  const passes = <T>(work: () => T): T => {
    calls += 1;
    if (calls > count) throw new Killed();
    return work();
  };
  const socketOf = (socket: NetlinkSocket): NetlinkSocket => ({
    request: (request) => passes(() => socket.request(request)),
    dump: (request) => passes(() => socket.dump(request)),
    batch: (...batch) => passes(() => socket.batch(...batch)),
    close: () => socket.close(),
  });
  return {
    isOver: () => calls > count,
    netlinkOf: (netlink: Netlink): Netlink => ({
      openSocket: (protocol) => socketOf(netlink.openSocket(protocol)),
      openNamespace: (path) => netlink.openNamespace(path),
      runIn: (namespace, work) => passes(() => netlink.runIn(namespace, work)),
    }),
    openStore(folder: string): AttachmentStore {
      const store = createAttachmentStore(folder);
      return {
        ...store,
        makeFolders: () => passes(() => store.makeFolders()),
        write: (attachment) => passes(() => store.write(attachment)),
        remove: (id) => passes(() => store.remove(id)),
        reserve: (address, id) => passes(() => store.reserve(address, id)),
        release: (address, id) => passes(() => store.release(address, id)),
        writeLastAddresses: (addresses) => passes(() => store.writeLastAddresses(addresses)),
      };
    },
  };
}

const change = {
  runtimeConfig: {
    portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }],
    bandwidth: { egressRate: 8e6, egressBurst: 8e5, ingressRate: 8e6, ingressBurst: 8e5 },
  },
};
const id = { containerId: "c1", conf: change };
const valid = (...ids: readonly string[]) => ({
  conf: { "cni.dev/valid-attachments": ids.map((containerID) => ({ containerID, ifname: "eth0" })) },
});

/** Calls `verb` in a process that dies after n calls, on a node for each n, until it does not die; then calls `after`. */
async function dieAnywhere<T>(
  verb: "ADD" | "DEL",
  before: (node: ReturnType<typeof createNode>) => Promise<T>,
  after: (node: ReturnType<typeof createNode>, netns: string, made: T) => Promise<void>,
  isDaemon = false,
): Promise<number> {
  for (let count = 0; ; count++) {
    const node = createNode();
    nodes.push(node);
    const made = await before(node);
    const death = createDeath(count);
    const deferredRemovalClock = isDaemon ? new FakeClock() : undefined;
    const plugin = node.createPlugin(death.netlinkOf(node.netlink), death.openStore, deferredRemovalClock);
    const netns = node.namespaces.create().path;
    const outcome = await node.call(verb, { ...id, netns }, plugin).then(
      () => "done",
      () => "dead",
    );
    plugin.close();
    expect(outcome).toBe(death.isOver() ? "dead" : "done");
    await after(node, netns, made);
    node.close();
    nodes = [];
    if (!death.isOver()) return count;
  }
}

/** What the node has of networks without pods after a removal of all of them; `[]` if nothing. */
async function remainsAfterRemoval({ netlink, route, netfilter, folder, namespace }: ReturnType<typeof createNode>) {
  const withNetwork: AttachmentLocks["withNetwork"] = (_network, work) => work(shareNoLocks, noAbandonedLocks);
  const locks = { withNetwork };
  const options = { netlink, folder, nodeNamespace: namespace.path, locks, cacheDir: "/cache" };
  await removeIdleNetworks(options, new AbortController().signal);
  const links = listLinks(route).map(({ name }) => name);
  return [
    ...links.filter((name) => name !== "lo"),
    ...listChains(netfilter).map(({ table, chain }) => `${table} ${chain}`),
    ...readdirSync(folder),
  ];
}

const nothing = async () => undefined;
/** Each test repeats its calls for every one that the process may be killed after. */
const TIMEOUT_MS = 600_000;

describe.skipIf(!isRoot)("a process that dies within", () => {
  test(
    "ADD: ADD again is complete, and nothing is doubled",
    async () => {
      const deaths = await dieAnywhere("ADD", nothing, async (node, netns) => {
        await node.call("ADD", { ...id, netns });
        await node.call("CHECK", { ...id, netns });
        const { links, hostPorts, attachments, addresses } = node.leftovers();
        expect({ links: links.length, hostPorts, attachments, addresses: addresses.length }).toEqual({
          links: 2,
          hostPorts: 2,
          attachments: ["c1"],
          addresses: 2,
        });
        await node.call("DEL", { ...id, netns });
        expect(node.leftovers()).toEqual(NOTHING);
      });
      expect(deaths).toBeGreaterThan(20);
    },
    TIMEOUT_MS,
  );

  test(
    "ADD: DEL leaves nothing",
    async () => {
      await dieAnywhere("ADD", nothing, async (node) => {
        await node.call("DEL", { containerId: "c1" });
        expect(node.leftovers()).toEqual(NOTHING);
        // The bridge and the rules stay for the next pod, even if the network has never had one.
        expect(await remainsAfterRemoval(node)).toEqual([]);
      });
    },
    TIMEOUT_MS,
  );

  test(
    "ADD: GC leaves nothing of it, and all of the others",
    async () => {
      await dieAnywhere(
        "ADD",
        (node) => node.addPod("c2"),
        async (node) => {
          await node.call("GC", valid("c2"));
          expect(node.leftovers()).toMatchObject({ attachments: ["c2"], hostPorts: 0 });
          expect(node.leftovers().links).toHaveLength(1);
          expect(node.leftovers().addresses).toHaveLength(2);
        },
      );
    },
    TIMEOUT_MS,
  );
});

describe.skipIf(!isRoot).each([
  ["DEL", false],
  ["DEL of an agent that deletes links later", true],
])("a process that dies within", (del, isDaemon) => {
  test(
    `${del}: ADD again is complete, and stays so when other pods are removed`,
    async () => {
      await dieAnywhere(
        "DEL",
        // Without host ports, which would show that DEL has started.
        (node) => node.addPod("c1"),
        async (node, _netns, pod) => {
          const other = await node.addPod("c2");
          await node.call("ADD", pod.id);
          await node.call("DEL", other.id);
          await node.call("CHECK", pod.id);
          expect(node.leftovers()).toMatchObject({ attachments: ["c1"], hostPorts: 0 });
          expect(node.leftovers().links).toHaveLength(1);
        },
        isDaemon,
      );
    },
    TIMEOUT_MS,
  );

  test(
    `${del}: DEL again leaves nothing, and not what another pod has taken meanwhile`,
    async () => {
      const deaths = await dieAnywhere(
        "DEL",
        (node) => node.addPod("c1", change),
        async (node) => {
          // The port is free as soon as the first pod's is closed.
          const isTaken = await node.addPod("c2", change).then(
            () => true,
            () => false,
          );
          await node.call("DEL", { containerId: "c1" });
          const { links, hostPorts, attachments, addresses } = node.leftovers();
          expect({ links: links.length, hostPorts, attachments, addresses: addresses.length }).toEqual(
            isTaken
              ? { links: 2, hostPorts: 2, attachments: ["c2"], addresses: 2 }
              : { links: 0, hostPorts: 0, attachments: [], addresses: 0 },
          );
        },
        isDaemon,
      );
      expect(deaths).toBeGreaterThan(5);
    },
    TIMEOUT_MS,
  );
});
