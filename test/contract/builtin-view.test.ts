import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createNode } from "./builtin-fixture.ts";
import { outputIn, type TestNamespace } from "./network-namespaces.ts";
import { addByPrograms, bridgeConf, pluginFolder } from "./plugin-programs.ts";

const canRun = process.getuid?.() === 0;
if (!canRun) console.warn("skipped: the view of a pod, since only root may make network namespaces");

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
  const input = { binDir: await pluginFolder(), node: other.namespace, containerId: "c1", netns: theirs.path };
  await addByPrograms(input, [bridgeConf(other.folder)]);
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
