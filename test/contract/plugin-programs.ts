import { join } from "node:path";
import { execa } from "execa";
import { unpackPackages } from "../bed/packages.ts";
import type { Conf } from "./builtin-fixture.ts";
import type { TestNamespace } from "./network-namespaces.ts";

/** The folder of the plugins' programs. Downloads them if they are absent. */
export const pluginFolder = async (): Promise<string> => join((await unpackPackages("bookworm")).root, "usr/lib/cni");

/** The network of `createNode` in the words of bridge and host-local, which keeps its addresses in `dataDir`. */
export const bridgeConf = (dataDir: string): Conf => ({
  type: "bridge",
  bridge: "cni0",
  mtu: 1420,
  isDefaultGateway: true,
  ipMasq: true,
  hairpinMode: true,
  ipam: { type: "host-local", dataDir, ranges: [[{ subnet: "10.88.0.0/24" }], [{ subnet: "fd00:88::/64" }]] },
});

interface AddInput {
  readonly binDir: string;
  /** The namespace of the node. */
  readonly node: TestNamespace;
  readonly containerId: string;
  readonly netns: string;
  /** `eth0` unless given. */
  readonly ifName?: string;
}

/** Executes ADD of these plugins, one after the other, and returns the result of the last one. Rejects with the words of one that fails. */
export async function addByPrograms(
  { binDir, node, containerId, netns, ifName = "eth0" }: AddInput,
  plugins: readonly Conf[],
): Promise<Conf> {
  const env = {
    CNI_COMMAND: "ADD",
    CNI_CONTAINERID: containerId,
    CNI_NETNS: netns,
    CNI_IFNAME: ifName,
    CNI_PATH: binDir,
    // ip6tables and iptables.
    PATH: process.env["PATH"] ?? "/usr/sbin:/usr/bin",
  };
  let prevResult: Conf | undefined;
  for (const plugin of plugins) {
    const conf = { cniVersion: "1.0.0", name: "pods", ...plugin, ...(prevResult !== undefined && { prevResult }) };
    const argv = [`--net=${node.path}`, "--", join(binDir, String(plugin["type"]))];
    const { exitCode, stdout } = await execa("nsenter", argv, {
      ...{ env, extendEnv: false, input: JSON.stringify(conf), reject: false },
    });
    if (exitCode !== 0) throw new Error(`${String(plugin["type"])}: ${stdout}`);
    prevResult = JSON.parse(stdout) as Conf;
  }
  return prevResult ?? {};
}
