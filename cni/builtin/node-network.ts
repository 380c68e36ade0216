import { fstatSync, readFileSync, statSync, writeFileSync } from "node:fs";
import type { Clock } from "../../host/clock.ts";
import type { IpPrefix } from "../../host/ip-address.ts";
import { addAddress } from "../../host/netlink/addresses.ts";
import { NetlinkError } from "../../host/netlink/error.ts";
import {
  createDeferredLinkRemoval,
  createLinkRemoval,
  type DisconnectLinks,
  type RemoveLinks,
} from "../../host/netlink/link-removal.ts";
import type { Link } from "../../host/netlink/links.ts";
import { NETLINK_NETFILTER, NETLINK_ROUTE, type Netlink, type NetworkNamespace } from "../../host/netlink/netlink.ts";
import type { NetlinkSocket } from "../../host/netlink/socket.ts";

/** The network namespace of the node, where bridges and rules are. */
export interface NodeNetwork {
  readonly netlink: Netlink;
  readonly route: NetlinkSocket;
  readonly netfilter: NetlinkSocket;
  readonly removeLinks: RemoveLinks;
  /** For the links of a pod that ends. A process that ends after the call deletes them at once, another one defers that. */
  readonly disconnectLinks: DisconnectLinks;
  /** Writes a file below /proc/sys/net of the node, unless it has the value already. */
  setSysctl(path: string, value: string): void;
  /** The value of a file below /proc/sys/net of the node. Undefined for one of IPv6 in a kernel without it. */
  readSysctl(path: string): string | undefined;
  /** Whether a namespace is the node's own. */
  isOwn(namespace: NetworkNamespace): boolean;
  close(): void;
}

/**
 * `path`: the node's namespace; undefined for that of this process. `deferredRemovalClock`: that of a process that
 * lives on after a call, and may defer the deletion of links. Throws `NetlinkError`.
 */
export function openNodeNetwork(
  netlink: Netlink,
  path: string | undefined,
  deferredRemovalClock?: Pick<Clock, "now" | "wakeAt">,
): NodeNetwork {
  const namespace = path === undefined ? undefined : netlink.openNamespace(path);
  const inside = <T>(work: () => T) => (namespace === undefined ? work() : netlink.runIn(namespace, work));
  const [route, netfilter] = inside(() => [netlink.openSocket(NETLINK_ROUTE), netlink.openSocket(NETLINK_NETFILTER)]);
  const own = statSync(path ?? "/proc/self/ns/net");
  const removeLinks = createLinkRemoval(route);
  const deferred = deferredRemovalClock && createDeferredLinkRemoval(route, removeLinks, deferredRemovalClock);
  return {
    netlink,
    route,
    netfilter,
    removeLinks,
    disconnectLinks: deferred?.disconnect ?? removeLinks,
    setSysctl: (name, value) => inside(() => setSysctl(name, value)),
    readSysctl: (name) => inside(() => readSysctl(name)),
    isOwn({ descriptor }) {
      const { dev, ino } = fstatSync(descriptor);
      return dev === own.dev && ino === own.ino;
    },
    close() {
      deferred?.stop();
      route.close();
      netfilter.close();
      namespace?.close();
    },
  };
}

const SYSCTL_FOLDER = "/proc/sys/net";

/**
 * Writes a file below /proc/sys/net of the namespace in which this thread is. Written only if it has another value: in a
 * container /proc/sys may be read-only, with the right value. A kernel without IPv6 has none of its files.
 */
export function setSysctl(name: string, value: string): void {
  const present = readSysctl(name);
  if (present !== undefined && present !== value) writeFileSync(`${SYSCTL_FOLDER}/${name}`, value);
}

function readSysctl(name: string): string | undefined {
  try {
    return readFileSync(`${SYSCTL_FOLDER}/${name}`, "utf8").trim();
  } catch (error) {
    const isAbsent = error instanceof Error && "code" in error && error.code === "ENOENT";
    if (!isAbsent || !name.startsWith("ipv6/")) throw error;
    return undefined;
  }
}

/** Adds an address to a link, on which it enables IPv6 if new links have it disabled. `writeSysctl` writes in the link's namespace. */
export function addAddressWithIpv6(
  socket: NetlinkSocket,
  link: Link,
  prefix: IpPrefix,
  writeSysctl: typeof setSysctl,
): void {
  try {
    addAddress(socket, link, prefix);
  } catch (error) {
    if (!(error instanceof NetlinkError && error.code === "EACCES")) throw error;
    writeSysctl(`ipv6/conf/${link.name}/disable_ipv6`, "0");
    addAddress(socket, link, prefix);
  }
}
