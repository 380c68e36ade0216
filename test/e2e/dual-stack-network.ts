import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { ownProcessGroup } from "../bed/cleanup/processes.ts";
import { cniConflist } from "../bed/containerd/containerd-config.ts";
import type { TestNode } from "./node.ts";

/** The bridge of a node's pods, with an address of each family, which the tests use as the node's own. */
export interface DualStackNetwork {
  readonly ipv4: string;
  readonly ipv6: string;
  /** The ranges of the pods' addresses. */
  readonly range4: string;
  readonly range6: string;
  /** The addresses of the pod that starts first. */
  readonly podIPv4: string;
  readonly podIPv6: string;
  /** Gives the pods that start from now on an address of each range, and the default route. */
  use(ranges: readonly string[], route: string): Promise<void>;
}

/** The address as the runtime writes it, without leading zeros (RFC 5952). */
const canonicalIPv6 = (address: string) => new URL(`http://[${address}]`).hostname.slice(1, -1);

/** Makes the bridge itself: as a gateway, the plugin would switch on the machine's IPv6 forwarding. */
export async function makeDualStackBridge({ containerd, paths }: TestNode): Promise<DualStackNetwork> {
  const { bridge, subnet, record } = containerd;
  const ipv4 = subnet.replace("0/24", "1");
  const ipv6 = canonicalIPv6(`fd00:${record.id.slice(0, 4)}:${record.id.slice(4)}::1`);
  const ip = (...args: readonly string[]) => execa("ip", args, ownProcessGroup);
  await ip("link", "add", bridge, "type", "bridge");
  await ip("address", "add", `${ipv4}/24`, "dev", bridge);
  await ip("-6", "address", "add", `${ipv6}/64`, "dev", bridge, "nodad");
  await ip("link", "set", bridge, "up");
  return {
    ...{ ipv4, ipv6, range4: subnet, range6: `${ipv6.replace(/1$/, "")}/64` },
    ...{ podIPv4: ipv4.replace(/1$/, "2"), podIPv6: ipv6.replace(/1$/, "2") },
    async use(ranges, route) {
      const network = { name: record.network, bridge, subnet, leases: paths.cniLeases };
      const config = JSON.parse(cniConflist(network));
      const [plugin] = config.plugins;
      plugin.isGateway = false;
      plugin.ipam.ranges = ranges.map((range) => [{ subnet: range }]);
      plugin.ipam.routes = [{ dst: route }];
      await writeFile(join(paths.cniConfDir, "10-berth.conflist"), JSON.stringify(config));
      await containerd.restart();
    },
  };
}

/** Addresses as `podIPs` and `hostIPs` list them. */
export const ips = (all: readonly string[]) => all.map((ip) => ({ ip }));

/** The addresses that a pod sees of itself and of its node. */
export const addressEnv = ["podIP", "podIPs", "hostIP", "hostIPs"].map((field) => ({
  name: field,
  valueFrom: { fieldRef: { fieldPath: `status.${field}` } },
}));
export const printAddresses = 'cat /etc/hosts; echo "$podIP $podIPs $hostIP $hostIPs"';
