import { mkdir, readdir, rename, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { formatBuiltinList } from "../../../cni/delegate/builtin-list.ts";
import { bedPaths } from "../../bed/cleanup/bed-record.ts";
import { unpackPackages } from "../../bed/packages.ts";
import type { ApiWatch } from "../cluster/api-watch.ts";
import {
  type ComparedNode,
  type ComparedNodeOptions,
  createBerthNode,
  createKubeletNode,
  nodeNameFor,
} from "../cluster/compared-node.ts";

/**
 * The nodes of the comparison. `kubelet` and `chain`: the runtime executes loopback, bridge, host-local and portmap. `delegate`:
 * the agent executes the same chain. `builtin`: the agent has its built-in network.
 */
export const NETWORK_SIDES = ["kubelet", "chain", "delegate", "builtin"] as const;
export type NetworkSide = (typeof NETWORK_SIDES)[number];

/** Creates and starts the nodes, one after the other; each is Ready before the next one. Adds to `cleanUps` the functions that remove them, in the order of their creation. */
export async function startNetworkNodes(
  options: ComparedNodeOptions,
  binary: string,
  watch: Pick<ApiWatch, "nodeReady">,
  cleanUps: (() => Promise<unknown>)[],
): Promise<Readonly<Record<NetworkSide, ComparedNode>>> {
  const create: Readonly<Record<NetworkSide, () => Promise<ComparedNode>>> = {
    kubelet: () => createKubeletNode(options),
    chain: () => createBerthNode(options, binary, { program: "chain" }),
    delegate: () => createDelegatingNode(options, binary, "delegate"),
    builtin: () => createDelegatingNode(options, binary, "builtin"),
  };
  const nodes = new Map<NetworkSide, ComparedNode>();
  for (const side of NETWORK_SIDES) {
    const node = await create[side]();
    cleanUps.push(() => node.end());
    const ready = watch.nodeReady(node.nodeName);
    await node.start();
    await ready;
    nodes.set(side, node);
  }
  return Object.fromEntries(nodes) as Record<NetworkSide, ComparedNode>;
}

/** Creates a node whose agent executes the network of pods: the chain, or the built-in network. */
async function createDelegatingNode(
  options: ComparedNodeOptions,
  binary: string,
  side: "delegate" | "builtin",
): Promise<ComparedNode> {
  const stateDir = join(options.folder, nodeNameFor(side, options.version));
  const { cni, cniBinDir, cniCache, cniConfDir, agentRoot } = bedPaths(stateDir);
  const chainDir = join(cni, "chain.d");
  for (const folder of [cniBinDir, chainDir]) await mkdir(folder, { recursive: true });
  const packaged = join((await unpackPackages("bookworm")).root, "usr/lib/cni");
  for (const name of await readdir(packaged)) await symlink(join(packaged, name), join(cniBinDir, name));
  const flags = ["--network-owner=agent", "--network-delegate-dir", cniConfDir];
  const node = await createBerthNode(options, binary, { program: side, flags, cniBinDir });
  const [listOfRuntime, listOfAgent] = [cniConfDir, chainDir].map((folder) => join(folder, "10-berth.conflist"));
  await rename(listOfRuntime!, listOfAgent!);
  if (side === "builtin") await writeFile(listOfAgent!, builtinList(node));
  // containerd watches its folder of networks.
  const dirs = ["--conf-dir", cniConfDir, "--bin-dir", cniBinDir, "--chain-dir", chainDir, "--cache-dir", cniCache];
  await execa(binary, ["cni", "install", ...dirs, "--root-dir", agentRoot]);
  return node;
}

function builtinList({ runtime: { containerd } }: ComparedNode): string {
  const { bridge, subnet, record } = containerd;
  return formatBuiltinList([subnet], { name: builtinNetworkOf(record.network), bridge });
}

/** The name of the built-in network of a bed, whose chain has the bed's own name. */
export const builtinNetworkOf = (network: string) => `${network}-builtin`;
