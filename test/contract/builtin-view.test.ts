import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { unpackPackages } from "../bed/packages.ts";
import { createNode } from "./builtin-fixture.ts";
import { outputIn, type TestNamespace } from "./network-namespaces.ts";

const canRun = process.getuid?.() === 0;
if (!canRun) console.warn("skipped: the view of a pod, since only root may make network namespaces");

/** The same network in the words of bridge and host-local. */
const bridgeConf = (folder: string) => ({
  cniVersion: "1.0.0",
  name: "pods",
  type: "bridge",
  bridge: "cni0",
  mtu: 1420,
  isDefaultGateway: true,
  ipMasq: true,
  hairpinMode: true,
  ipam: { type: "host-local", dataDir: folder, ranges: [[{ subnet: "10.88.0.0/24" }], [{ subnet: "fd00:88::/64" }]] },
});

/** Executes a plugin's program in the namespace of a node. */
function executePlugin(binDir: string, node: TestNamespace, conf: { readonly type: string }, netns: string): void {
  const env = {
    CNI_COMMAND: "ADD",
    CNI_CONTAINERID: "c1",
    CNI_NETNS: netns,
    CNI_IFNAME: "eth0",
    CNI_PATH: binDir,
    // ip6tables and iptables.
    PATH: process.env["PATH"] ?? "/usr/sbin:/usr/bin",
  };
  const argv = ["nsenter", `--net=${node.path}`, "--", join(binDir, conf.type)];
  const { exitCode, stdout } = Bun.spawnSync(argv, { env, stdin: Buffer.from(JSON.stringify(conf)) });
  if (exitCode !== 0) throw new Error(`${conf.type}: ${stdout.toString()}`);
}

let nodes: ReturnType<typeof createNode>[] = [];
let ours: TestNamespace;
let theirs: TestNamespace;
beforeAll(async () => {
  if (!canRun) return;
  nodes = [createNode(), createNode()];
  const [node, other] = nodes;
  if (node === undefined || other === undefined) return;
  ours = (await node.addPod("c1")).namespace;
  theirs = other.namespaces.create();
  const { root } = await unpackPackages("bookworm");
  executePlugin(join(root, "usr/lib/cni"), other.namespace, bridgeConf(other.folder), theirs.path);
}, 600_000);
afterAll(() => {
  for (const each of nodes) each.close();
});

/** Rows of `ip -j`, without what differs from pod to pod: hardware and link-local addresses, indexes, lifetimes. */
function rows(namespace: TestNamespace, ...argv: readonly string[]): readonly Readonly<Record<string, unknown>>[] {
  const all = JSON.parse(outputIn(namespace, "ip", "-j", ...argv)) as Record<string, unknown>[];
  return all.map((row) => {
    const { ifname, mtu, dst, gateway, dev, scope, protocol, prefsrc, addr_info } = row;
    const addresses = (addr_info as Record<string, unknown>[] | undefined)
      ?.filter(({ scope: of }) => of !== "link")
      .map(({ family, local, prefixlen, broadcast, scope: of }) => ({
        family,
        local,
        prefixlen,
        broadcast,
        scope: of,
      }));
    return { ifname, mtu, dst, gateway, dev, scope, protocol, prefsrc, addresses };
  });
}

describe.skipIf(!canRun)("a pod of the built-in network sees what one of bridge and host-local sees", () => {
  test.each<[string, string[]]>([
    ["its addresses and the MTU", ["addr", "show", "eth0"]],
    ["its routes", ["-4", "route"]],
    ["its routes of IPv6", ["-6", "route"]],
  ])("%s", (_name, argv) => {
    const [seen, expected] = [rows(ours, ...argv), rows(theirs, ...argv)];
    expect(expected.length).toBeGreaterThan(0);
    expect(seen).toEqual(expected);
  });

  test("and the node has the same addresses and routes", () => {
    const [node, other] = nodes;
    if (node === undefined || other === undefined) throw new Error("no nodes");
    const text = (namespace: TestNamespace, ...argv: readonly string[]) =>
      JSON.stringify(rows(namespace, ...argv).filter(({ dst }) => dst !== "fe80::/64")).replaceAll("cni0", "berth0");
    for (const argv of [
      ["addr", "show", "type", "bridge"],
      ["-4", "route"],
      ["-6", "route"],
    ])
      expect(text(node.namespace, ...argv)).toBe(text(other.namespace, ...argv));
  });
});
