import { expect, test } from "bun:test";
import type { IdleRemoval } from "../../cni/builtin/remove-network.ts";
import type { CacheEntry } from "../../cni/cache-entry.ts";
import { formatDelegateList } from "../../cni/delegate/delegate-conf.ts";
import type { Cni } from "../../cni/network.ts";
import type { FileEntry } from "../../host/fs/files.ts";
import { type CniVerbDeps, runVerb } from "./verbs.ts";

const conf = JSON.stringify({ cniVersion: "1.1.0", name: "pods", plugins: [{ type: "berth" }] });
const settings = {
  verb: "status",
  network: undefined,
  confDir: "/c",
  binDirs: ["/b"],
  cacheDir: "/v",
  chainDir: "/n",
  socket: "/s/cni.sock",
  netns: "",
  ifName: "eth0",
  containerId: "web",
  args: new Map<string, string>(),
  capabilityArgs: {},
  isOfAll: false,
  isJson: false,
} as const;

const FILE: FileEntry = { name: "10-pods.conflist", kind: "file" };

test("a plugin of this process needs no binary", async () => {
  const deps = {
    files: { list: async (path: string) => (path === "/c" ? [FILE] : undefined), read: async () => conf },
    inProcess: new Map([["berth", { call: async () => undefined }]]),
    binaries: { find: () => Promise.reject(new Error("a binary was searched")) },
    cni: { status: async () => "ready" },
    columns: Number.POSITIVE_INFINITY,
    programName: "berth",
  } as Pick<CniVerbDeps, "inProcess" | "columns"> as CniVerbDeps;
  const { text, isGood } = await runVerb.status(settings, deps);
  expect({ isGood, text: text.replaceAll(/ {2,}/g, " | ") }).toEqual({
    isGood: true,
    text: `PLUGIN | BINARY | VERSIONS | STATE
berth | built in | 0.1.0 0.2.0 0.3.0 0.3.1 0.4.0 1.0.0 1.1.0 | ok

pods: ready
`,
  });
});

test("list names the networks that there are if it does not know one", async () => {
  const deps = {
    files: { list: async (path: string) => (path === "/c" ? [FILE] : undefined), read: async () => conf },
    cache: { list: async () => ({ entries: [], unreadable: [] }) },
    columns: Number.POSITIVE_INFINITY,
    findDelegateDirs: async () => ["/etc/berth/cni/net.d", "/d"],
    programName: "berth",
  } as unknown as CniVerbDeps;
  const unknown = runVerb.list({ ...settings, verb: "list", network: "zzz" }, deps);
  await expect(unknown).rejects.toThrow('/c has no network "zzz", only pods');
});

test("list shows the files of the cache that are unreadable", async () => {
  const of = (network: string) => ({
    ...{ fileName: `${network}-3f2a-eth0`, asideName: `${network}-3f2a-eth0.unreadable` },
    reason: "it is not a JSON object",
  });
  const deps = {
    files: { list: async (path: string) => (path === "/c" ? [FILE] : undefined), read: async () => conf },
    cache: { list: async () => ({ entries: [], unreadable: [of("pods"), of("other")] }) },
    columns: Number.POSITIVE_INFINITY,
    findDelegateDirs: async () => ["/etc/berth/cni/net.d", "/d"],
    programName: "berth",
  } as unknown as CniVerbDeps;
  const { text, json, isGood } = await runVerb.list({ ...settings, verb: "list", network: "pods" }, deps);
  expect({ isGood, text: text.replaceAll(/ {2,}/g, " | ").split("\n").slice(2) }).toEqual({
    isGood: true,
    text: [
      "",
      "UNREADABLE CACHE FILE | REASON",
      "pods-3f2a-eth0.unreadable | it is not a JSON object",
      "when the pod of NETWORK-ID-NAME.unreadable is gone, delete its attachment by berth cni del NETWORK --container-id ID --ifname NAME --conf-dir /c --bin-dir /b --cache-dir /v",
      "",
    ],
  });
  const unreadable = [{ file: "pods-3f2a-eth0.unreadable", reason: "it is not a JSON object" }];
  expect(json).toMatchObject({ attachments: [], unreadable });
  const all = await runVerb.list({ ...settings, verb: "list" }, deps);
  expect(all.text).toContain("other-3f2a-eth0.unreadable");
});

test("list finds the namespace of an entry of libcni before 1.1 in its result", async () => {
  const entryOf = (containerId: string, result: CacheEntry["result"]): CacheEntry => ({
    ...{ network: "pods", containerId, ifName: "eth0", netns: "", config: "", result },
    ...{ args: new Map(), capabilityArgs: {} },
  });
  const entries = [entryOf("runs", resultIn("/a")), entryOf("ended", resultIn("/b")), entryOf("bare", {})];
  const deps = {
    files: { list: async () => undefined },
    cache: { list: async () => ({ entries, unreadable: [] }) },
    isNamespace: async (path: string) => path === "/a",
    columns: Number.POSITIVE_INFINITY,
    findDelegateDirs: async () => ["/etc/berth/cni/net.d", "/d"],
    programName: "berth",
  } as unknown as CniVerbDeps;
  const { json } = await runVerb.list({ ...settings, verb: "list" }, deps);
  expect(json).toMatchObject({
    attachments: [
      { containerId: "runs", netns: "/a", netnsState: "in use" },
      { containerId: "ended", netns: "/b", netnsState: "gone" },
      { containerId: "bare", netns: "", netnsState: "unknown" },
    ],
  });
});

test("list says which agent executes the networks of pods, and which attachments are its own", async () => {
  const delegateOf = (confDir: string) =>
    formatDelegateList({ socket: "/r/cni.sock", confDir, binDirs: ["/b"], cacheDir: "/v", timeoutMs: 1 });
  const entryOf = (network: string, netns: string, config = ""): CacheEntry => ({
    ...{ network, containerId: "3f2a", ifName: "eth0", netns, args: new Map(), capabilityArgs: {}, result: {}, config },
  });
  const listOn = (
    confDir: string,
    delegateDir = "/etc/berth/cni/net.d",
    { cacheDir }: { readonly cacheDir: string } = settings,
    builtinDir?: string,
  ) =>
    runVerb.list({ ...settings, cacheDir, verb: "list" }, {
      files: {
        list: async (path: string) => (["/c", delegateDir, builtinDir].includes(path) ? [FILE] : undefined),
        read: async (path: string) => (path.startsWith("/c/") ? conf : delegateOf(confDir)),
      },
      cache: {
        list: async () => ({
          entries: [
            entryOf("berth-delegate", "/gone", delegateOf(confDir)),
            entryOf("pods", "/gone"),
            entryOf("old", ""),
            { ...entryOf("pods", "/gone"), containerId: "77aa" },
          ],
          unreadable: [],
        }),
      },
      isNamespace: async () => false,
      columns: Number.POSITIVE_INFINITY,
      findDelegateDirs: async () => ["/etc/berth/cni/net.d", "/d"],
      programName: "my berth",
    } as unknown as CniVerbDeps);
  const { text, json } = await listOn("/c");
  expect(text.replaceAll(/ {2,}/g, " | ").split("\n").slice(2)).toEqual([
    "the agent on /r/cni.sock executes the first network above for pods",
    "",
    "NETWORK | POD | INTERFACE | NETNS | MADE BY | CONTAINER",
    "berth-delegate | - | eth0 | gone | the runtime, through the agent on /r/cni.sock | 3f2a",
    "pods | - | eth0 | gone | the agent on /r/cni.sock | 3f2a",
    "old | - | eth0 | unknown | the agent on /r/cni.sock | 3f2a",
    "pods | - | eth0 | gone | another program | 77aa",
    "'my berth' cni gc pods --conf-dir /c --bin-dir /b --cache-dir /v deletes the attachments of the network pods whose network namespace is gone",
    "the agent on /r/cni.sock deletes its own when it starts, and after an outage of the runtime",
    "",
  ]);
  expect(json).toMatchObject({
    attachments: [
      { network: "berth-delegate", netnsState: "gone", madeBy: "runtimeViaAgent", socket: "/r/cni.sock" },
      { network: "pods", netnsState: "gone", madeBy: "agent", socket: "/r/cni.sock" },
      { network: "old", netnsState: "unknown", madeBy: "agent" },
      { network: "pods", netnsState: "gone", madeBy: "other" },
    ],
  });
  // The agent was started with another folder of its delegate.
  expect((await listOn("/c", "/d")).text).toBe(text);
  expect((await listOn("/my nets")).text).toContain(
    "\nthe agent on /r/cni.sock executes the first network of /my nets for pods: 'my berth' cni list --conf-dir '/my nets' --bin-dir /b --cache-dir /v\n",
  );
  expect((await listOn("/none", undefined, settings, "/r/network-fallback.d")).text).toContain(
    "executes the first network of /r/network-fallback.d for pods: 'my berth' cni list --conf-dir /r/network-fallback.d ",
  );
  expect((await listOn("/c", undefined, settings, "/r/network-fallback.d")).text).toBe(text);
  // The attachments of the agent are in its own cache.
  const ofOtherCache = await listOn("/c", undefined, { ...settings, cacheDir: "/other" });
  expect(ofOtherCache.text).toContain("for pods: 'my berth' cni list --conf-dir /c --bin-dir /b --cache-dir /v\n");
});

test.each(["status", "gc", "add", "check", "del"] as const)(
  "%s without a network says in which folder the agent's network is, and the flags that name it",
  async (verb) => {
    const delegate = { socket: "/r/cni.sock", confDir: "/etc/cni/net.d", binDirs: ["/opt/cni/bin"], cacheDir: "/v" };
    const errorIn = async (confDir: string, ...folders: readonly string[]) => {
      const deps = {
        files: {
          list: async (path: string) => (folders.includes(path) ? [FILE] : undefined),
          read: async (path: string) =>
            path.startsWith("/d/") ? formatDelegateList({ ...delegate, timeoutMs: 1 }) : conf,
        },
        findDelegateDirs: async () => ["/etc/berth/cni/net.d", "/d"],
        isNamespace: async () => true,
      } as unknown as CniVerbDeps;
      return await runVerb[verb]({ ...settings, verb, confDir }, deps).then(
        () => undefined,
        (error: unknown) => error,
      );
    };
    const none = (confDir: string) =>
      `${confDir} has no network configuration: it must hold a file that ends with .conflist, .conf or .json`;
    expect(await errorIn("/etc/cni/net.d", "/d", "/r/network-fallback.d")).toMatchObject({
      ...{ name: "CniError", code: 7 },
      message: `${none("/etc/cni/net.d")}; the agent on /r/cni.sock executes the first network of /r/network-fallback.d for pods: repeat this command with --conf-dir /r/network-fallback.d --cache-dir /v`,
    });
    // No agent has a network, or none is installed.
    expect(await errorIn("/etc/cni/net.d", "/d")).toMatchObject({ message: none("/etc/cni/net.d") });
    expect(await errorIn("/c")).toMatchObject({ message: none("/c") });
  },
);

test("list suggests gc with the folders of the call, and only for attachments that no agent deletes", async () => {
  const ofAgent = { socket: "/r/cni.sock", confDir: "/c", binDirs: ["/b"], cacheDir: "/v", timeoutMs: 1 };
  const entryOf = (network: string, config: string): CacheEntry => ({
    ...{ network, containerId: network === "old" ? "9c01" : "3f2a", ifName: "eth0", netns: "/gone", config },
    ...{ args: new Map(), capabilityArgs: {}, result: {} },
  });
  const hintsOf = async (folders: object, entries: readonly CacheEntry[]) => {
    const deps = {
      files: { list: async () => undefined },
      cache: { list: async () => ({ entries, unreadable: [] }) },
      isNamespace: async () => false,
      columns: Number.POSITIVE_INFINITY,
      findDelegateDirs: async () => ["/etc/berth/cni/net.d", "/d"],
      programName: "dist/berth",
    } as unknown as CniVerbDeps;
    const { text } = await runVerb.list({ ...settings, verb: "list", ...folders }, deps);
    return text.split("\n").filter((line) => / deletes /.test(line));
  };
  const usual = { confDir: "/etc/cni/net.d", binDirs: ["/opt/cni/bin"], cacheDir: "/var/lib/cni" };
  const own = [entryOf("berth-delegate", formatDelegateList(ofAgent)), entryOf("pods", "")];
  const byAgent = "the agent on /r/cni.sock deletes its own when it starts, and after an outage of the runtime";
  const those = "deletes the attachments of the network old whose network namespace is gone";
  expect(await hintsOf(usual, own)).toEqual([byAgent]);
  expect(await hintsOf(usual, [...own, entryOf("old", "")])).toEqual([`dist/berth cni gc old ${those}`, byAgent]);
  expect(await hintsOf({ ...usual, cacheDir: "/my cache" }, [entryOf("old", "")])).toEqual([
    `dist/berth cni gc old --cache-dir '/my cache' ${those}`,
  ]);
});

/** The result of ADD in the network namespace at this path. */
const resultIn = (sandbox: string) => ({ interfaces: [{ name: "cni0" }, { name: "eth0", sandbox }] });

/** gc of a cache with these network namespaces, and with entries of libcni before 1.1, where only the results name them. */
async function collect(
  netnses: readonly string[],
  early: readonly string[] = [],
  { isOfAll = false, killed = [] }: { readonly isOfAll?: boolean; readonly killed?: readonly string[] } = {},
) {
  const of = (name: string, netns: string, result: CacheEntry["result"]) => ({
    ...{ network: "pods", containerId: `of-${name}`, ifName: "eth0", netns },
    ...{ args: new Map<string, string>(), capabilityArgs: {}, result },
  });
  const cached = [
    ...netnses.map((netns) => of(netns, netns, {})),
    ...early.map((netns) => of(`early-${netns}`, "", resultIn(netns))),
    ...killed.map((name) => ({ ...of(name, "", {}), isOfKilledAdd: true as const })),
  ];
  const deps = {
    files: { list: async (path: string) => (path === "/c" ? [FILE] : undefined), read: async () => conf },
    isNamespace: async (path: string) => path === "mounted",
    cni: {
      async gc(_conf, chooseValid) {
        const valid = await chooseValid(cached);
        return cached.filter((attachment) => !valid.includes(attachment));
      },
    } as Pick<Cni, "gc">,
    columns: Number.POSITIVE_INFINITY,
    findDelegateDirs: async () => ["/etc/berth/cni/net.d", "/d"],
    programName: "berth",
  } as Pick<CniVerbDeps, "isNamespace" | "columns"> as CniVerbDeps;
  return await runVerb.gc({ ...settings, verb: "gc", isOfAll }, deps);
}

test("gc deletes the attachments whose network namespace is gone, by the entry or by its result", async () => {
  const { text, json } = await collect(["mounted", "unmounted"], ["mounted", "unmounted"]);
  expect(json).toMatchObject({
    deleted: [{ containerId: "of-unmounted" }, { containerId: "of-early-unmounted" }],
    inUse: [{ containerId: "of-mounted" }, { containerId: "of-early-mounted" }],
    unknownNamespace: [],
  });
  expect(text).toEndWith("pods: 2 attachments deleted, whose network namespaces are gone; 2 in use\n");
});

test("gc keeps an attachment whose namespace nothing names, as of a torn file, and says how to delete it", async () => {
  const { text, json } = await collect(["mounted", ""]);
  expect(json).toMatchObject({
    deleted: [],
    inUse: [{ containerId: "of-mounted" }, { containerId: "of-" }],
    unknownNamespace: [{ containerId: "of-" }],
  });
  const folders = "--conf-dir /c --bin-dir /b --cache-dir /v";
  expect(text).toBe(
    "pods: no attachment deleted, 2 in use\n1 of them counts as in use because the cache does not name its network namespace; " +
      `berth cni list pods ${folders} shows which, and berth cni del pods --container-id ID --ifname NAME ${folders} deletes one\n`,
  );
  expect((await collect(["", ""])).text).toContain(
    "\n2 of them count as in use because the cache does not name their network namespace; ",
  );
});

test("gc deletes an attachment whose ADD was killed, although nothing names its network namespace", async () => {
  const { text, json } = await collect(["mounted"], [], { killed: ["one"] });
  expect(json).toMatchObject({ deleted: [{ containerId: "of-one" }], unknownNamespace: [] });
  expect(text).toEndWith(
    "pods: 1 attachment deleted, whose network namespace is gone or whose ADD was killed; 1 in use\n",
  );
});

test("gc of a cache without attachments is refused without --all", async () => {
  await expect(collect([])).rejects.toMatchObject({ code: 4, message: expect.stringContaining("--all does so") });
  expect((await collect([], [], { isOfAll: true })).text).toBe("pods: no attachment deleted, 0 in use\n");
});

/** Runs install with this folder for the delegate's list. */
async function install(confDir: string) {
  const deps = {
    files: {
      ...{ list: async () => undefined, stat: async () => undefined, readLink: async () => undefined },
      ...{ write: async () => undefined, link: async () => undefined, rename: async () => undefined },
      makeFolder: async () => undefined,
    },
    program: "/usr/bin/berth",
  } as unknown as CniVerbDeps;
  const paths = { confDir, chainDir: "/etc/cni/net.d", socket: "/r/cni.sock" };
  return (await runVerb.install({ ...settings, verb: "install", ...paths }, deps)).text.split("\n");
}

test("install names the plugin that the container runtime executes itself", async () => {
  expect(await install("/etc/berth/cni/net.d")).toContain(
    "the container runtime also needs its plugin loopback in its bin_dir, which berth doctor checks",
  );
});

test("install names the flag that the agent needs for another folder than the default", async () => {
  const [usual, other] = [await install("/etc/berth/cni/net.d"), await install("/my net.d")];
  expect(usual[0]).toEndWith('; restart the agent, and the container runtime with conf_dir = "/etc/berth/cni/net.d"');
  expect(other[0]).toEndWith(
    `; restart the agent with --network-delegate-dir='/my net.d', and the container runtime with conf_dir = "/my net.d"`,
  );
});

/** Runs uninstall on a machine with the plugin, or without it; `outcome` is that of the built-in networks. */
async function uninstall(isInstalled: boolean, outcome: IdleRemoval) {
  const deps = {
    files: {
      ...{ list: async () => undefined, stat: async () => undefined, remove: async () => undefined },
      readLink: async () => (isInstalled ? "/usr/bin/berth" : undefined),
    },
    cache: { list: async () => ({ entries: [], unreadable: [] }) },
    recordedAttachments: () => [],
    removeIdleNetworks: async () => outcome,
  } as unknown as CniVerbDeps;
  const { text, json } = await runVerb.uninstall({ ...settings, verb: "uninstall" }, deps);
  return { lines: text.split("\n"), json };
}

const attachments = [
  { containerId: "3f2a", ifName: "eth0" },
  { containerId: "9c01", ifName: "net1" },
];
const lan = { name: "lan", attachments };

test("uninstall names the built-in networks that it removes, and those that it keeps, with the attachments that they have", async () => {
  const { lines, json } = await uninstall(false, { removed: ["berth", "store"], kept: [lan] });
  expect(lines).toEqual([
    expect.stringMatching(/^nothing was installed: /),
    "the built-in network berth is removed, with its bridge and its rules",
    "the built-in network store is removed, with its bridge and its rules",
    "the built-in network lan is kept, with its bridge and its rules: it has the attachments eth0 of 3f2a, net1 of 9c01",
    "the agent that owns a kept network deletes its attachments when their sandboxes are gone and the container runtime has been restarted; " +
      "then uninstall again, and restart the agent after that. The next boot removes the attachments too",
    "",
  ]);
  expect(json).toMatchObject({ wasInstalled: false, removedNetworks: ["berth", "store"], keptNetworks: [lan] });
});

test("uninstall names the cache of a built-in network that it keeps since it belongs to another one", async () => {
  const theirs = { name: "lan", claimedBy: "/var/lib/other", attachments };
  const { lines, json } = await uninstall(true, { removed: [], kept: [theirs] });
  expect(lines).toEqual([
    expect.stringMatching(restartBoth),
    "the built-in network lan is kept: it belongs to the cache /var/lib/other; berth cni uninstall --cache-dir /var/lib/other removes it",
    "",
  ]);
  expect(json).toMatchObject({ keptNetworks: [theirs] });
});

const restartBoth = /; restart the agent, and the container runtime with its former conf_dir$/;
const restartRuntime = /; restart the container runtime with its former conf_dir, but not yet the agent$/;

test.each([
  ["advises to restart the agent and the runtime", true, ["berth"], [], restartBoth],
  ["advises the same when it removes the networks that an earlier one has kept", false, ["lan"], [], restartBoth],
  ["advises nothing where there is nothing", false, [], [], /^nothing was installed: there is neither \S+ nor \S+$/],
  [
    "advises to restart the runtime, and not yet the agent that still has to delete attachments of a kept network",
    true,
    ["berth"],
    [lan],
    restartRuntime,
  ],
  ["advises the same as long as it keeps the network", false, [], [lan], restartRuntime],
])("uninstall %s", async (_, isInstalled, removed, kept, advice) => {
  expect((await uninstall(isInstalled, { removed, kept })).lines[0]).toMatch(advice);
});
