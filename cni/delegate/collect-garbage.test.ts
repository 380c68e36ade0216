import { expect, test } from "bun:test";
import { FilesError } from "../../host/fs/files.ts";
import { secondaryNetworksKey } from "../../proto/kubernetes/well-known-names.ts";
import { FakeClock } from "../../test/fakes/clock.ts";
import { YOUNG_FOR_MS } from "../attachment-state.ts";
import { type CacheEntry, cacheFileName } from "../cache-entry.ts";
import { DELEGATE_NETWORK } from "../delegate-network.ts";
import { CniError } from "../error.ts";
import type { Cni } from "../network.ts";
import { createAttachmentAges } from "./attachment-ages.ts";
import { type CollectGarbageDeps, collectGarbage } from "./collect-garbage.ts";
import { formatDelegateList } from "./delegate-conf.ts";

const listedAt = FakeClock.start;
const socket = "/berth/cni.sock";
const { signal } = new AbortController();

const listOf = (name: string) => JSON.stringify({ cniVersion: "1.1.0", name, plugins: [{ type: "bridge" }] });
const delegateList = (own: string) =>
  formatDelegateList({ socket: own, confDir: "/c", binDirs: ["/b"], cacheDir: "/v", timeoutMs: 1_000 });

/** What the cache has of a pod's sandbox. */
const entryOf = (containerId: string, network: string, config = listOf(network)): CacheEntry => ({
  ...{ network, containerId, ifName: "eth0", netns: `/run/netns/${containerId}`, config },
  ...{ args: new Map([["K8S_POD_INFRA_CONTAINER_ID", containerId]]), capabilityArgs: {}, result: {} },
});
const besideOf = (containerId: string, own = socket) => entryOf(containerId, DELEGATE_NETWORK, delegateList(own));

interface Given {
  readonly entries: readonly CacheEntry[];
  /** The sandboxes that are ready. */
  readonly ready?: readonly string[];
  /** The sandboxes that the runtime has stopped. */
  readonly stopped?: readonly string[];
  /** The sandboxes whose ADD ended right before the list. */
  readonly young?: readonly string[];
  /** The network namespaces that are gone. */
  readonly gone?: readonly string[];
  /** The chain's list; undefined for an empty folder. */
  readonly list?: string | undefined;
  /** A folder that cannot be read. */
  readonly unreadable?: string;
  readonly failing?: "GC" | "DEL" | undefined;
  /** The names of the files that hold no entry. */
  readonly torn?: readonly string[];
  /** The recorded attachments of built-in networks: network and container of each. */
  readonly recorded?: readonly (readonly [network: string, containerId: string])[];
}

/** Collects the garbage of a cache. Returns the outcome, which plugins were called for, and the entries that are left. */
async function collect({
  entries,
  ready = [],
  stopped = [],
  young = [],
  gone = [],
  failing,
  recorded = [],
  torn = [],
  ...given
}: Given) {
  const list = "list" in given ? given.list : listOf("pods");
  const kept = new Map(entries.map((entry) => [cacheFileName(entry), entry]));
  const tornFiles = new Set(torn);
  const calls: string[] = [];
  const call = (verb: "GC" | "DEL", text: string) => {
    calls.push(`${verb} ${text}`);
    if (failing === verb) throw new CniError(100, "busy", { plugin: "bridge" });
  };
  const cni = {
    async gc({ name }, chooseValid) {
      const own = [...kept.values()].filter(({ network }) => network === name);
      const valid = await chooseValid(own);
      call("GC", `${name} with ${valid.map(({ containerId }) => containerId).join(", ") || "none"}`);
      const deleted = own.filter((entry) => !valid.includes(entry));
      for (const entry of deleted) kept.delete(cacheFileName(entry));
      return deleted;
    },
    async del(network, attachment) {
      call("DEL", `${network} ${attachment.containerId}`);
      kept.delete(cacheFileName({ network, ...attachment }));
    },
  } satisfies Pick<Cni, "gc" | "del">;
  const deps: CollectGarbageDeps = {
    youngForMs: YOUNG_FOR_MS,
    ...{ cni, confDirs: ["/c"], socket, ages: createAttachmentAges(new FakeClock()) },
    isNamespace: async (path) => !gone.includes(path),
    files: {
      async list(path) {
        if (path === given.unreadable) throw new FilesError("EIO", path, `${path} has an input/output error`);
        return path === "/c" && list !== undefined ? [{ name: "10.conflist", kind: "file" }] : undefined;
      },
      read: async () => list ?? "",
    },
    recordedAttachments: () =>
      recorded.map(([network, containerId]) => ({
        ...{ network, containerId, ifName: "eth0" },
        writtenAt: listedAt - (young.includes(containerId) ? 1_000 : YOUNG_FOR_MS),
      })),
    cache: {
      list: async () => ({
        entries: [...kept.values()],
        unreadable: [...tornFiles].map((fileName) => ({
          fileName,
          asideName: `${fileName}.unreadable`,
          reason: "torn",
        })),
      }),
      async remove(key) {
        kept.delete(cacheFileName(key));
        tornFiles.delete(cacheFileName(key));
      },
      addedAt: async ({ containerId }) => listedAt - (young.includes(containerId) ? 1_000 : YOUNG_FOR_MS),
    },
  };
  const isReady = new Map([...ready.map((id) => [id, true] as const), ...stopped.map((id) => [id, false] as const)]);
  const outcome = await collectGarbage(deps, { isReady, listedAtMs: 0 }, signal).then(
    ({ deleted, againAfterMs }) => ({ deleted: deleted.map(cacheFileName), againAfterMs }),
    (error: unknown) => error,
  );
  return { outcome, calls, left: [...kept.keys(), ...tornFiles] };
}

test("what has no sandbox any more is deleted, beside what the runtime has cached of it; the rest is untouched", async () => {
  const entries = ["web", "gone"].flatMap((id) => [entryOf(id, "pods"), besideOf(id)]);
  expect(await collect({ entries: [...entries, entryOf("other", "another")], ready: ["web"] })).toEqual({
    outcome: { deleted: ["pods-gone-eth0"], againAfterMs: undefined },
    calls: ["GC pods with web"],
    left: ["pods-web-eth0", "berth-delegate-web-eth0", "another-other-eth0"],
  });
});

test("an entry of the delegate that the runtime has left torn is removed when its sandbox is gone", async () => {
  const torn = ["berth-delegate-web-eth0", "berth-delegate-gone-eth0", "another-gone-eth0"];
  expect(await collect({ entries: [], ready: ["web"], torn })).toMatchObject({
    outcome: { deleted: [] },
    left: ["berth-delegate-web-eth0", "another-gone-eth0"],
  });
});

const secondary = { ...entryOf("web", "pods"), ifName: "net1" };
const valids: readonly (readonly [what: string, given: Given, valid: string])[] = [
  ["ready, with an entry", { entries: [entryOf("web", "pods")], ready: ["web"] }, "web"],
  ["ready, without an entry", { entries: [], ready: ["web"] }, "web"],
  ["ready, with an entry of another interface alone", { entries: [secondary], ready: ["web"] }, "web, web"],
  ["ready, with the entry of an earlier chain", { entries: [entryOf("web", "former")], ready: ["web"] }, "web"],
  ["stopped, with an entry", { entries: [entryOf("web", "pods")], stopped: ["web"] }, "web"],
  ["stopped, without an entry", { entries: [], stopped: ["web"] }, "none"],
];
test.each(valids)("plugins learn which attachments exist; a sandbox is %s", async (_, given, valid) => {
  const { outcome, calls, left } = await collect(given);
  expect({ outcome, calls, left }).toEqual({
    outcome: { deleted: [], againAfterMs: undefined },
    calls: [`GC pods with ${valid}`],
    left: given.entries.map(cacheFileName),
  });
});

test("what is too young counts as in use, until it can be decided", async () => {
  const entries = [entryOf("web", "pods"), besideOf("web")];
  expect(await collect({ entries, young: ["web"] })).toEqual({
    outcome: { deleted: [], againAfterMs: YOUNG_FOR_MS - 1_000 },
    calls: ["GC pods with web"],
    left: ["pods-web-eth0", "berth-delegate-web-eth0"],
  });
});

test("what is too young is deleted if its network namespace is gone, which libcni before 1.1 names in the result alone", async () => {
  const gone = ["/run/netns/new", "/run/netns/early"];
  const early = { netns: "", result: { interfaces: [{ name: "eth0", sandbox: "/run/netns/early" }] } };
  const entries = [entryOf("new", "pods"), { ...entryOf("early", "pods"), ...early }];
  expect(await collect({ entries, young: ["new", "early"], gone })).toMatchObject({
    outcome: { deleted: ["pods-new-eth0", "pods-early-eth0"], againAfterMs: undefined },
  });
});

test("an attachment of an earlier chain is deleted if this agent's delegate has made it", async () => {
  const entries = [
    ...[entryOf("gone", "former"), besideOf("gone")],
    ...[entryOf("web", "former"), besideOf("web")],
    ...[entryOf("foreign", "former"), besideOf("foreign", "/other/cni.sock")],
  ];
  for (const list of [listOf("pods"), undefined, "{"])
    expect(await collect({ entries, ready: ["web"], list })).toEqual({
      outcome: { deleted: ["former-gone-eth0"], againAfterMs: undefined },
      calls: [...(list === listOf("pods") ? ["GC pods with web"] : []), "DEL former gone"],
      left: [
        ...["former-web-eth0", "berth-delegate-web-eth0"],
        ...["former-foreign-eth0", "berth-delegate-foreign-eth0"],
      ],
    });
});

test("attachments are deleted by the cache when the folder of the list's own name cannot be read", async () => {
  const entries = ["web", "gone"].flatMap((id) => [entryOf(id, "pods"), besideOf(id)]);
  expect(await collect({ entries, ready: ["web"], unreadable: "/c/pods" })).toEqual({
    outcome: { deleted: ["pods-gone-eth0"], againAfterMs: undefined },
    calls: ["DEL pods gone"],
    left: ["pods-web-eth0", "berth-delegate-web-eth0"],
  });
  // The list may have disableGC.
  expect(await collect({ entries, ready: ["web"], unreadable: "/c" })).toMatchObject({
    outcome: { name: "FilesError" },
    calls: [],
  });
});

test("the secondary networks of a pod whose sandbox is gone are deleted before the network that names them", async () => {
  const podOf = (id: string) => {
    const secondaries = [{ config: listOf("storage"), ifName: "net1", capabilityArgs: {} }];
    const named = { ...entryOf(id, "pods"), capabilityArgs: { [secondaryNetworksKey]: secondaries } };
    return [named, besideOf(id), { ...entryOf(id, "storage"), ifName: "net1" }];
  };
  expect(await collect({ entries: [...podOf("gone"), ...podOf("web")], ready: ["web"] })).toEqual({
    outcome: { deleted: ["storage-gone-net1", "pods-gone-eth0"], againAfterMs: undefined },
    calls: ["DEL storage gone", "GC pods with web"],
    left: ["pods-web-eth0", "berth-delegate-web-eth0", "storage-web-net1"],
  });
});

test("without the entry that names them, the secondary networks are found beside the delegate's entry, which stays until they are deleted", async () => {
  const podOf = (id: string) => [besideOf(id), { ...entryOf(id, "storage"), ifName: "net1" }];
  const loopback = { ...entryOf("gone", "cni-loopback"), ifName: "lo" };
  const entries = [...podOf("gone"), loopback, ...podOf("web")];
  const ofWeb = ["berth-delegate-web-eth0", "storage-web-net1"];
  const collectWith = (failing?: "DEL") => collect({ entries, ready: ["web"], failing });
  expect(await collectWith()).toEqual({
    outcome: { deleted: ["storage-gone-net1"], againAfterMs: undefined },
    calls: ["DEL storage gone", "GC pods with web"],
    left: ["cni-loopback-gone-lo", ...ofWeb],
  });
  expect(await collectWith("DEL")).toMatchObject({
    outcome: { name: "CniError", message: "busy" },
    left: ["berth-delegate-gone-eth0", "storage-gone-net1", "cni-loopback-gone-lo", ...ofWeb],
  });
});

test("a failure of a plugin is the outcome, after the others; what is not deleted stays in the cache", async () => {
  const entries = [entryOf("gone", "pods"), besideOf("gone"), entryOf("old", "former"), besideOf("old")];
  const failure = { name: "CniError", code: 100, plugin: "bridge", message: "busy" };
  expect(await collect({ entries, failing: "GC" })).toMatchObject({
    outcome: failure,
    calls: ["GC pods with none", "DEL former old"],
    left: ["pods-gone-eth0", "berth-delegate-gone-eth0"],
  });
  expect(await collect({ entries, failing: "DEL" })).toMatchObject({
    outcome: failure,
    left: ["former-old-eth0", "berth-delegate-old-eth0"],
  });
});

test("what an ADD of a built-in network that was killed has left is deleted, whatever the list is now", async () => {
  const recorded = [["renamed", "gone"], ["renamed", "web"], ["pods", "killed"], ["pods", "known"], ["hand", "made"]] as const; // biome-ignore format: one row
  const entries = [entryOf("known", "pods"), { ...entryOf("made", "hand"), args: new Map() }];
  for (const list of [listOf("pods"), undefined])
    expect(await collect({ entries, ready: ["web", "known"], recorded, list })).toEqual({
      outcome: { deleted: ["renamed-gone-eth0", "pods-killed-eth0"], againAfterMs: undefined },
      calls: [...(list === undefined ? [] : ["GC pods with known, web"]), "DEL renamed gone", "DEL pods killed"],
      left: ["pods-known-eth0", "hand-made-eth0"],
    });
  expect(await collect({ entries: [], recorded: [["renamed", "gone"]], young: ["gone"] })).toMatchObject({
    outcome: { deleted: [], againAfterMs: YOUNG_FOR_MS - 1_000 },
    calls: ["GC pods with none"],
  });
  expect(await collect({ entries: [], recorded: recorded.slice(0, 3), failing: "DEL" })).toMatchObject({
    outcome: { name: "CniError", message: expect.stringContaining("busy") },
    calls: ["GC pods with none", "DEL renamed gone", "DEL renamed web", "DEL pods killed"],
  });
});

test("a record of the current network stays if its list has disableGC", async () => {
  const list = JSON.stringify({ ...JSON.parse(listOf("pods")), disableGC: true });
  const recorded = [
    ["renamed", "gone"],
    ["pods", "killed"],
  ] as const;
  expect(await collect({ entries: [], recorded, list })).toMatchObject({ outcome: { deleted: ["renamed-gone-eth0"] } });
});
