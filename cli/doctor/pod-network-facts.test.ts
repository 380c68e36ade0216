import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Config } from "../../agent/config/config.ts";
import { formatBuiltinList } from "../../cni/delegate/builtin-list.ts";
import { formatDelegateList } from "../../cni/delegate/delegate-conf.ts";
import { createFiles } from "../../host/fs/files.ts";
import { readPodNetworkFacts } from "./pod-network-facts.ts";

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "berth-pod-network-"));
});
afterEach(() => rm(root, { recursive: true }));

async function put(path: string, content: string, mode = 0o644): Promise<void> {
  await mkdir(dirname(join(root, path)), { recursive: true });
  await writeFile(join(root, path), content, { mode });
}

const delegateList = (socket: string) =>
  formatDelegateList({ socket, confDir: "/net.d", binDirs: ["/bin"], cacheDir: "/cache", timeoutMs: 1_000 });
const install = (socket = "/root/cni.sock") => put("delegate.d/10-berth.conflist", delegateList(socket));
const putChain = (...types: readonly string[]) =>
  put("net.d/10-pods.conflist", JSON.stringify({ name: "pods", plugins: types.map((type) => ({ type })) }));

const inCluster = { kind: "kubeconfig", path: "/k" } as const;

/** `runtimeDir` is empty for a runtime that does not say which folder it reads. */
async function read(
  network: Partial<Config["network"]> = {},
  runtimeDir = "/delegate.d",
  clusterConfigSource?: Config["clusterConfigSource"],
) {
  const own = { source: "auto", owner: "auto", delegateDir: "/delegate.d", podCIDRs: [], ...network } as const;
  const config = { network: own, rootDir: "/root", clusterConfigSource };
  // Absolute paths start from the test's folder, and so do those of the kernel.
  const files = createFiles(root);
  return await readPodNetworkFacts({ ...files, realPath: async (path) => path }, config, runtimeDir || undefined);
}

test("the agent executes the chain of the delegate with the delegate's plugins; berth needs no binary", async () => {
  await install();
  await putChain("berth", "portmap", "firewall");
  await put("bin/portmap", "", 0o755);
  const { owner, folderProblem, executed } = await read();
  expect([owner.by, folderProblem]).toEqual(["agent", undefined]);
  expect(executed).toEqual({
    confDir: "/net.d",
    binDirs: ["/bin"],
    file: "/net.d/10-pods.conflist",
    plugins: ["berth", "portmap", "firewall"],
    missingPlugins: ["firewall"],
    notExecutable: [],
    bridges: [{ name: "berth0", families: [4, 6] }],
  });
});

test("without a delegate the runtime executes the network", async () => {
  await putChain("bridge");
  expect(await read({}, "/net.d")).toEqual({
    owner: { by: "runtime" },
    folderProblem: undefined,
    executed: undefined,
    builtinRanges: undefined,
    isStandalone: true,
    isBuiltinFallback: true,
  });
});

describe("where the folder of the chain is empty", () => {
  const builtin = { file: "/root/network-fallback.d/10-builtin.conflist", plugins: ["berth"], missingPlugins: [] };
  const none = { confDir: "/net.d", file: undefined };

  test.each<[string, Partial<Config["network"]>, Config["clusterConfigSource"], object]>([
    ["a standalone agent executes the built-in network", {}, undefined, builtin],
    ["an agent of a cluster has no network", {}, inCluster, none],
    ["an agent with --network=chain has no network", { source: "chain" }, undefined, none],
  ])("%s", async (_, network, cluster, expected) => {
    await install();
    const { executed, builtinRanges, isBuiltinFallback } = await read(network, "/delegate.d", cluster);
    expect(executed).toMatchObject(expected);
    expect(builtinRanges).toEqual(expected === builtin ? ["10.241.0.0/24"] : undefined);
    expect(isBuiltinFallback).toBe(expected === builtin);
  });

  test("a broken list keeps the built-in network from being executed", async () => {
    await install();
    await put("net.d/10-pods.conflist", "{");
    expect((await read()).executed).toMatchObject({ problem: "/net.d/10-pods.conflist is not JSON: Expected '}'" });
  });

  test("the delegate of another standalone agent executes that agent's built-in network", async () => {
    await install("/other/cni.sock");
    await put("other/network-fallback.d/10-builtin.conflist", formatBuiltinList(["10.9.0.0/24"]));
    expect((await read()).executed).toMatchObject({ confDir: "/other/network-fallback.d", plugins: ["berth"] });
    await putChain("bridge");
    expect((await read()).executed?.bridges).toEqual([{ name: "cni0", families: [4, 6] }]);
  });
});

test("the delegate of another agent is followed, to the built-in network that this one keeps", async () => {
  await install("/other/cni.sock");
  await putChain("bridge");
  expect(await read()).toMatchObject({ owner: { by: "runtime" }, executed: { bridges: [{ name: "cni0" }] } });
  const list = formatBuiltinList(["10.9.0.0/24"], { name: "pods", bridge: "pods7" });
  await put("other/network.d/10-builtin.conflist", list);
  expect((await read()).executed?.bridges).toEqual([{ name: "pods7", families: [4] }]);
});

test("a runtime that reads another folder is a problem, and one that does not say its folder is none", async () => {
  await install();
  await putChain("bridge");
  const { folderProblem } = await read({}, "/net.d");
  expect(folderProblem?.found).toBe(
    "the container runtime reads its networks from /net.d, but the list of berth-cni is in /delegate.d",
  );
  expect(await read({}, "")).toMatchObject({ owner: { by: "agent" }, folderProblem: undefined });
});

test("a chain that contains the delegate is a problem", async () => {
  await install();
  await putChain("berth-cni");
  expect((await read()).executed?.problem).toBe(
    "/net.d/10-pods.conflist contains berth-cni, which would call itself without end",
  );
});

test.each<[string, Partial<Config["network"]>, Config["clusterConfigSource"], readonly (4 | 6)[]]>([
  ["on a standalone node has a range of IPv4", {}, undefined, [4]],
  ["has the families of podCIDR", { podCIDRs: ["fd00::/64"] }, undefined, [6]],
  ["in a cluster may have both families", { podCIDRs: ["10.7.0.0/24"] }, inCluster, [4, 6]],
])("--network=builtin %s, also before its first start", async (_, network, cluster, families) => {
  await install();
  const { owner, executed, builtinRanges } = await read({ source: "builtin", ...network }, "/delegate.d", cluster);
  expect(owner.by).toBe("agent");
  expect(builtinRanges).toEqual(cluster === undefined ? (network.podCIDRs ?? ["10.241.0.0/24"]) : []);
  expect(executed).toMatchObject({ plugins: ["berth"], missingPlugins: [], bridges: [{ name: "berth0", families }] });
});

test("--network=builtin in a cluster has the pod CIDRs of the earlier start", async () => {
  await install();
  await put("root/network.d/10-builtin.conflist", formatBuiltinList(["10.9.0.0/24"]));
  const { executed } = await read({ source: "builtin" }, "/delegate.d", inCluster);
  expect(executed?.bridges).toEqual([{ name: "berth0", families: [4] }]);
});

test("--network=builtin and --network-owner=agent without a delegate are what keeps the agent from starting", async () => {
  await putChain("bridge");
  const cure = `berth cni install --conf-dir /delegate.d --root-dir /root, then conf_dir = "/delegate.d" in the runtime's configuration, and restart it and the agent; for a list in another folder set --network-delegate-dir`;
  const problems = [await read({ source: "builtin" }, "/net.d"), await read({ owner: "agent" }, "/net.d")].map(
    ({ owner }) => owner.by === "none" && [owner.problem, owner.cure],
  );
  expect(problems).toEqual([
    ["--network=builtin: /delegate.d has no list with berth-cni", `${cure}; or leave out --network=builtin`],
    ["--network-owner=agent: /delegate.d has no list with berth-cni", `${cure}; or set --network-owner=runtime`],
  ]);
});

test.each<[string, Partial<Config["network"]>]>([
  ["auto", {}],
  ["--network=builtin", { source: "builtin" }],
])(
  "with %s, a runtime that calls a delegate of this agent in another folder needs the agent's flag",
  async (_, network) => {
    await put("mine.d/10-berth.conflist", delegateList("/root/cni.sock"));
    expect((await read(network, "/mine.d")).folderProblem).toEqual({
      found: "the container runtime calls the berth-cni of /mine.d for this agent, which looks for it in /delegate.d",
      cure: "set --network-delegate-dir=/mine.d for berth run, and restart the agent",
    });
    await put("mine.d/10-berth.conflist", delegateList("/other/cni.sock"));
    expect((await read(network, "/mine.d")).folderProblem).toBeUndefined();
  },
);

test("with --network-owner=runtime a delegate of this agent in the runtime's folder is no problem", async () => {
  await put("mine.d/10-berth.conflist", delegateList("/root/cni.sock"));
  expect((await read({ owner: "runtime" }, "/mine.d")).folderProblem).toBeUndefined();
});
