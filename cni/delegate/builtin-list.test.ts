import { describe, expect, test } from "bun:test";
import { type BuiltinUse, builtinUseOf, confDirsOf, findConfDirs, unusedBuiltinFolders } from "./builtin-list.ts";
import type { NetworkOwnerOptions } from "./installed-delegate.ts";

const delegate = { socket: "/r/cni.sock", confDir: "/etc/cni/net.d" };

describe("the use of the built-in network", () => {
  test.each<[NetworkOwnerOptions["source"], "standalone" | "cluster", BuiltinUse]>([
    ["auto", "standalone", "asFallback"],
    ["auto", "cluster", "never"],
    ["chain", "standalone", "never"],
    ["chain", "cluster", "never"],
    ["builtin", "standalone", "insteadOfChain"],
    ["builtin", "cluster", "insteadOfChain"],
  ])("--network=%s on a %s node: %s", (source, node, use) => {
    expect(builtinUseOf(source, node === "cluster")).toBe(use);
  });
});

describe("a delegate without its agent executes the network of the folders that the agent has executed", () => {
  test.each<[BuiltinUse, readonly string[]]>([
    ["insteadOfChain", ["/r/network.d"]],
    ["asFallback", ["/etc/cni/net.d", "/r/network-fallback.d"]],
    ["never", ["/etc/cni/net.d"]],
  ])("%s", async (use, folders) => {
    const kept = ["/r/network.d", "/r/network-fallback.d"].filter(
      (folder) => !unusedBuiltinFolders(delegate.socket, use).includes(folder),
    );
    const found = await findConfDirs({ list: async (path) => (kept.includes(path) ? [] : undefined) }, delegate);
    expect([[...found], [...confDirsOf(delegate, use)]]).toEqual([[...folders], [...folders]]);
  });

  test("those of --network=builtin, where an agent was killed while it removed the other folder", async () => {
    expect(await findConfDirs({ list: async () => [] }, delegate)).toEqual(["/r/network.d"]);
  });
});
