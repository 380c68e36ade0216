import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type AttachmentStore, createAttachmentStore } from "../../cni/builtin/attachment-store.ts";
import { BUILTIN_TYPE } from "../../cni/builtin/network-conf.ts";
import { createBuiltinNetwork } from "../../cni/builtin/plugin.ts";
import type { CniError } from "../../cni/error.ts";
import type { CniVerb } from "../../cni/plugin-call.ts";
import { parsePrefix } from "../../host/ip-address.ts";
import { addAddress } from "../../host/netlink/addresses.ts";
import { createBridge, createVeth, listLinks, readLink, setUp } from "../../host/netlink/links.ts";
import { createNetlink, NETLINK_NETFILTER, NETLINK_ROUTE, type Netlink } from "../../host/netlink/netlink.ts";
import { listEntries } from "../../host/netlink/nftables.ts";
import type { NetlinkSocket } from "../../host/netlink/socket.ts";
import type { FakeClock } from "../fakes/clock.ts";
import { createTestNamespaces, type TestNamespace } from "./network-namespaces.ts";

/** A configuration, or what is changed of it. */
export type Conf = Readonly<Record<string, unknown>>;

/** Both families, and an MTU that no default has. */
export const conf: Conf = {
  cniVersion: "1.1.0",
  name: "pods",
  type: BUILTIN_TYPE,
  bridge: "berth0",
  mtu: 1420,
  ranges: [[{ subnet: "10.88.0.0/24" }], [{ subnet: "fd00:88::/64" }]],
};

/** What the kernel and the record have of a network; empty after all pods are gone. */
export interface Leftovers {
  readonly links: readonly string[];
  readonly hostPorts: number;
  readonly attachments: readonly string[];
  readonly addresses: readonly string[];
}

export interface CallInput {
  readonly containerId?: string;
  readonly ifName?: string;
  readonly netns?: string;
  readonly conf?: Conf;
}

/** The addresses of the result of ADD, without the length of their prefix. */
export const ipsOf = (result: Conf | undefined): readonly string[] =>
  ((result?.["ips"] ?? []) as { address: string }[]).map(({ address }) => address.replace(/\/\d+$/, ""));

/** The built-in network on a node of its own: a namespace in which nothing else is. */
export function createNode() {
  const namespaces = createTestNamespaces();
  const netlink = createNetlink();
  const namespace = namespaces.create();
  const folder = mkdtempSync("/dev/shm/berth-network-");
  const [route, netfilter] = namespace.run(() => [
    netlink.openSocket(NETLINK_ROUTE),
    netlink.openSocket(NETLINK_NETFILTER),
  ]);
  setUp(route, readLink(route, "lo"));
  const opened: NetlinkSocket[] = [route, netfilter];
  const createPlugin = (
    through: Netlink = netlink,
    openStore: (path: string) => AttachmentStore = createAttachmentStore,
    deferredRemovalClock?: FakeClock,
    cacheDir?: string,
  ) =>
    createBuiltinNetwork({
      ...{ netlink: through, folder, nodeNamespace: namespace.path, openStore, deferredRemovalClock },
      ...(cacheDir !== undefined && { cacheDir }),
    });
  const plugin = createPlugin();
  const store = () => createAttachmentStore(join(folder, "pods"));

  const call = async (verb: CniVerb, input: CallInput = {}, by = plugin) =>
    await by.call(
      {
        verb,
        containerId: input.containerId ?? "c1",
        netns: input.netns ?? "",
        ifName: input.ifName ?? "eth0",
        args: new Map(),
        conf: { ...conf, ...input.conf },
      },
      new AbortController().signal,
    );

  return {
    namespace,
    namespaces,
    netlink,
    route,
    netfilter,
    folder,
    store,
    createPlugin,
    call,
    /** A socket in another namespace, open until the node is closed. */
    openIn(other: TestNamespace): NetlinkSocket {
      const socket = other.run(() => netlink.openSocket(NETLINK_ROUTE));
      opened.push(socket);
      return socket;
    },
    /** Adds a pod in a new namespace. */
    async addPod(containerId: string, change: Conf = {}) {
      const pod = namespaces.create();
      const result = await call("ADD", { containerId, netns: pod.path, conf: change });
      const [ipv4 = "", ipv6 = ""] = ipsOf(result);
      return { namespace: pod, result, ipv4, ipv6, id: { containerId, netns: pod.path, conf: change } };
    },
    /** The code and the message with which a call fails. */
    async failureOf(verb: CniVerb, input: CallInput = {}) {
      try {
        await call(verb, input);
      } catch (error) {
        const { code, message, details } = error as CniError;
        return { code, message, details };
      }
      throw new Error(`${verb} has succeeded`);
    },
    leftovers: (): Leftovers => ({
      links: listLinks(route)
        .map(({ name }) => name)
        .filter((name) => /^(veth|bifb)/.test(name)),
      hostPorts: ["host-ports-4", "host-ports-6"].flatMap((map) => listEntries(netfilter, "berth", map)).length,
      attachments: store()
        .list()
        .map(({ containerId }) => containerId),
      addresses: [...store().reservedAddresses()],
    }),
    close() {
      plugin.close();
      for (const socket of opened) socket.close();
      namespaces.closeAll();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

export const NOTHING: Leftovers = { links: [], hostPorts: 0, attachments: [], addresses: [] };

/**
 * Connects another machine with the node: 192.0.2.2 and fd02::2, while the node has 192.0.2.1 and fd02::1. It has no route
 * to the pods.
 */
export function connectMachine({ namespaces, netlink, route, openIn }: ReturnType<typeof createNode>): TestNamespace {
  const machine = namespaces.create();
  const inside = openIn(machine);
  const opened = netlink.openNamespace(machine.path);
  createBridge(route, { name: "lan0", mtu: 1500, mac: Uint8Array.of(2, 0, 0, 0, 0, 1) });
  createVeth(route, {
    name: "lan1",
    mtu: 1500,
    master: readLink(route, "lan0").index,
    peer: { name: "eth0", descriptor: opened.descriptor },
  });
  opened.close();
  setUp(route, readLink(route, "lan1"));
  setUp(inside, readLink(inside, "eth0"));
  for (const [socket, link, host] of [
    [route, "lan0", 1],
    [inside, "eth0", 2],
  ] as const)
    for (const text of [`192.0.2.${host}/24`, `fd02::${host}/64`])
      addAddress(socket, readLink(socket, link), parsePrefix(text) ?? { bytes: new Uint8Array(4), bits: 0 });
  return machine;
}
