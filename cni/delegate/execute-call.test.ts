import { describe, expect, test } from "bun:test";
import { FilesError } from "../../host/fs/files.ts";
import { type CacheEntry, cacheFileName } from "../cache-entry.ts";
import type { Attachment } from "../chain.ts";
import type { ConfDirs } from "../conf-dir.ts";
import type { Cni } from "../network.ts";
import { unlimited } from "../time-limit.ts";
import type { DelegateVerb } from "./delegate-call.ts";
import { createDeletedAttachments } from "./deleted-attachments.ts";
import { executeCall } from "./execute-call.ts";

const attachment: Attachment = {
  containerId: "3f2a",
  netns: "/run/netns/blue",
  ifName: "eth0",
  args: new Map(),
  capabilityArgs: {},
};
const listOf = (name: string, type = "bridge") => JSON.stringify({ cniVersion: "1.1.0", name, plugins: [{ type }] });
const entryOf = (network: string): CacheEntry => ({
  ...{ network, ...attachment, result: {} },
  config: listOf(network),
});
const result = {
  interfaces: [{ name: "eth0", sandbox: "/run/netns/blue" }],
  ips: [{ address: "10.1.0.5/16", interface: 0 }],
  routes: [],
  dns: {},
};

interface More {
  readonly deleted?: ReturnType<typeof createDeletedAttachments>;
  /** The names of the files that hold no entry. */
  readonly torn?: readonly string[];
  /** A folder that cannot be read. */
  readonly unreadable?: string;
  /** The list of a second folder. */
  readonly second?: string;
  /** The folders of the network that is executed. */
  readonly confDirs?: ConfDirs;
  /** The built-in network that has a record of the attachment. */
  readonly recorded?: string;
}

/** Executes a verb with one file in the folder, and these entries in the cache. Returns what was called of the chain. */
async function run(verb: DelegateVerb, list: string | undefined, entries: readonly CacheEntry[] = [], more: More = {}) {
  const { deleted = createDeletedAttachments(), torn = [], unreadable, second, recorded } = more;
  const { confDirs = second === undefined ? ["/c"] : ["/c", "/d"] } = more;
  const calls: string[] = [];
  const cni = {
    add: async ({ name }) => {
      calls.push(`ADD ${name}`);
      return { result, isCached: false };
    },
    del: async (network, _attachment, conf) => void calls.push(`DEL ${network} with ${conf?.name ?? "the cache"}`),
    check: async ({ name }) => {
      calls.push(`CHECK ${name}`);
      return "checked";
    },
  } as Pick<Cni, "add" | "del" | "check"> as Cni;
  const files = {
    async list(path: string) {
      if (path === unreadable) throw new FilesError("EIO", path, `${path} has an input/output error`);
      const found = path === "/c" ? list : path === "/d" ? second : undefined;
      return found === undefined ? undefined : [{ name: "10.conflist", kind: "file" as const }];
    },
    read: async (path: string) => (path.startsWith("/c/") ? list : second) ?? "",
  };
  const cache = {
    read: async (key: Parameters<typeof cacheFileName>[0]) =>
      entries.find((entry) => cacheFileName(entry) === cacheFileName(key)),
    write: async () => {},
    list: async () => ({
      entries,
      unreadable: torn.map((fileName) => ({ fileName, asideName: `${fileName}.unreadable`, reason: "it is empty" })),
    }),
    pathOf: (fileName: string) => `/v/results/${fileName}`,
  };
  const { signal } = new AbortController();
  const definitions = { read: () => Promise.reject(new Error("read")), publishStatus: async () => {} };
  const locks = { withAttachment: () => Promise.reject(new Error("locked")) };
  const ages = { resetAge: (containerId: string) => void calls.push(`reset age of ${containerId}`) };
  const timeLimit = unlimited;
  const deps = {
    cni,
    cache,
    locks,
    timeLimit,
    files,
    confDirs,
    chainDir: "/c",
    recordedAttachments: () =>
      [
        { network: "other", containerId: "77aa", ifName: "eth0", writtenAt: 0 },
        ...(recorded === undefined ? [] : [{ network: recorded, containerId: "3f2a", ifName: "eth0", writtenAt: 0 }]),
      ] as const,
    definitions,
    deleted,
    ages,
    setDefaultRoute: () => {},
  };
  const output = await executeCall(deps, { verb, attachment }, signal);
  return { calls, output };
}

test("ADD takes the network of the folder, and answers in the delegate's version", async () => {
  expect(await run("ADD", listOf("pods"))).toEqual({
    calls: ["reset age of 3f2a", "ADD pods", "reset age of 3f2a"],
    output: { cniVersion: "1.0.0", interfaces: result.interfaces, ips: result.ips },
  });
});

test("a network that contains the delegate is refused", async () => {
  await expect(run("ADD", listOf("loop", "berth-cni"))).rejects.toMatchObject({
    code: 7,
    message: expect.stringContaining("/c: the network loop contains berth-cni, which would call itself without end"),
  });
});

test("ADD without a network says which folder has none", async () => {
  await expect(run("ADD", undefined)).rejects.toMatchObject({
    code: 7,
    message: expect.stringContaining("/c has no network configuration"),
  });
});

describe("with two folders", () => {
  const second = listOf("builtin");
  const add = (list: string | undefined, more: More = {}) => run("ADD", list, [], { second, ...more });

  test.each<[string, string | undefined, string]>([
    ["the second one where the first one is empty", undefined, "builtin"],
    ["the first one", listOf("pods"), "pods"],
  ])("ADD takes the network of %s", async (_, list, network) => {
    expect((await add(list)).calls).toContain(`ADD ${network}`);
  });

  test.each<[string, string, More, string]>([
    ["is broken", "{", {}, "/c/10.conflist is not JSON"],
    ["contains the delegate", listOf("loop", "berth-cni"), {}, "/c: the network loop contains berth-cni"],
    ["is in a folder that cannot be read", "", { unreadable: "/c" }, "/c has an input/output error"],
  ])("ADD does not take the second one where the first list %s", async (_, list, more, message) => {
    await expect(add(list, more)).rejects.toThrow(message);
  });

  test("DEL deletes from the network of ADD when the other folder decides by now", async () => {
    const del = async (list: string | undefined, cached: string) =>
      (await run("DEL", list, [entryOf(cached)], { second })).calls;
    expect(await del(listOf("pods"), "builtin")).toEqual(["DEL builtin with the cache"]);
    expect(await del(undefined, "pods")).toEqual(["DEL pods with the cache"]);
    expect(await del(undefined, "builtin")).toEqual(["DEL builtin with builtin"]);
  });
});

const dels: readonly (readonly [string, string | undefined, readonly string[], readonly string[]])[] = [
  ["deletes from the network of the folder", listOf("pods"), ["pods"], ["DEL pods with pods"]],
  ["tries the network of the folder without an entry in the cache", listOf("pods"), [], ["DEL pods with pods"]],
  [
    "deletes from the network of ADD when the folder has another one",
    listOf("new"),
    ["old"],
    ["DEL old with the cache"],
  ],
  ["deletes from the network of ADD when the folder is empty", undefined, ["old"], ["DEL old with the cache"]],
  ["deletes from the network of ADD when the file is broken", "{", ["old"], ["DEL old with the cache"]],
  ["deletes nothing where neither a network nor an attachment exists", undefined, [], []],
  ["leaves the runtime's own entry alone", undefined, ["berth-delegate"], []],
  ["never calls the delegate", listOf("loop", "berth-cni"), [], []],
];
for (const [name, list, cached, calls] of dels)
  test(`DEL ${name}`, async () =>
    expect(await run("DEL", list, cached.map(entryOf))).toEqual({ calls: [...calls], output: undefined }));

for (const unreadable of ["/c", "/c/pods"])
  test(`DEL deletes by the cache when ${unreadable} cannot be read`, async () =>
    expect((await run("DEL", listOf("pods"), [entryOf("pods")], { unreadable })).calls).toEqual([
      "DEL pods with the cache",
    ]));

test("DEL without an entry fails as long as the folder cannot be read, since it may hold the network of ADD", async () => {
  const deleted = createDeletedAttachments();
  const del = (more: More, ...cached: readonly string[]) =>
    run("DEL", listOf("pods"), cached.map(entryOf), { deleted, ...more });
  const failure = { name: "FilesError", message: "/c has an input/output error" };
  for (let time = 0; time < 2; time++) await expect(del({ unreadable: "/c" })).rejects.toMatchObject(failure);
  expect((await del({})).calls).toEqual(["DEL pods with pods"]);
  // The runtime's second DEL.
  expect((await del({ unreadable: "/c" })).calls).toEqual([]);
});

test("a second DEL of an attachment calls nothing, unless the attachment was added again", async () => {
  const deleted = createDeletedAttachments();
  const callsOf = async (verb: DelegateVerb, ...cached: readonly string[]) =>
    (await run(verb, listOf("pods"), cached.map(entryOf), { deleted })).calls;
  expect(await callsOf("DEL", "pods")).toEqual(["DEL pods with pods"]);
  expect(await callsOf("DEL")).toEqual([]);
  // Another process has added it.
  expect(await callsOf("DEL", "pods")).toEqual(["DEL pods with pods"]);
  expect(await callsOf("ADD")).toEqual(["reset age of 3f2a", "ADD pods", "reset age of 3f2a"]);
  expect(await callsOf("DEL")).toEqual(["DEL pods with pods"]);
});

test("DEL with a broken list deletes nothing, and the next one with a usable list calls its plugins", async () => {
  const deleted = createDeletedAttachments();
  expect((await run("DEL", "{", [], { deleted })).calls).toEqual([]);
  expect((await run("DEL", listOf("pods"), [], { deleted })).calls).toEqual(["DEL pods with pods"]);
});

const [put, correct] = ["put the list of its network first in /c again", "correct the list"];
const none = "/c has no network configuration: it must hold a file that ends with .conflist, .conf or .json";
const ofDelegate = "/c: the network loop contains berth-cni";
const unusable: readonly (readonly [
  what: string,
  list: string | undefined,
  code: number,
  words: string,
  cure: string,
])[] = [
  ["no list", undefined, 7, none, put],
  ["a broken list", "{", 6, "/c/10.conflist is not JSON", correct],
  ["a list that contains the delegate", listOf("loop", "berth-cni"), 7, ofDelegate, correct],
];
for (const [what, list, code, words, cure] of unusable)
  test(`DEL of a torn entry with ${what} fails, and says what to do`, async () => {
    const del = () => run("DEL", list, [], { torn: ["pods-3f2a-eth0"] });
    await expect(del()).rejects.toMatchObject({ name: "CniError", code, message: expect.stringContaining(words) });
    await expect(del()).rejects.toThrow(
      "; /v/results/pods-3f2a-eth0.unreadable does not say which network eth0 of 3f2a has: it is empty; " +
        `${cure}, or delete that file: then what the network has made for the pod, such as its address, stays`,
    );
  });

test("DEL of a torn entry fails when the folder has another network now, and says what to do", async () => {
  const deleted = createDeletedAttachments();
  const del = (list: string) => run("DEL", list, [], { torn: ["old-3f2a-eth0"], deleted });
  for (let time = 0; time < 2; time++)
    await expect(del(listOf("pods"))).rejects.toMatchObject({
      ...{ name: "CniError", code: 7 },
      message:
        "/c has another network now, pods; /v/results/old-3f2a-eth0.unreadable does not say which network eth0 of 3f2a has: it is empty; " +
        "put the list of its network first in /c again, or delete that file: then what the network has made for the pod, such as its address, stays",
    });
  expect((await del(listOf("old"))).calls).toEqual(["DEL old with old"]);
});

test.each<[string, ConfDirs, string, string]>([
  [
    "in the chain's folder, when the agent's own decides",
    ["/c", "/d"],
    "/d has another network now, berth",
    "put the list of its network first in /c again, or",
  ],
  [
    "in the chain's folder, which --network=builtin ignores",
    ["/d"],
    "/d has another network now, berth",
    "put the list of its network first in /c again and start the agent without --network=builtin, or",
  ],
  [
    "in the chain's folder, also where the agent's own has no list",
    ["/e"],
    "/e has no network configuration",
    "put the list of its network first in /c again and start the agent without --network=builtin, or",
  ],
])("DEL of a torn entry of an unknown network fails, and wants its list %s", async (_, confDirs, problem, cure) => {
  const more = { torn: ["old-3f2a-eth0"], second: listOf("berth"), confDirs };
  const del = () => run("DEL", undefined, [], more);
  await expect(del()).rejects.toThrow(problem);
  await expect(del()).rejects.toThrow(`; ${cure} delete that file`);
});

describe("DEL without an entry that can be read deletes by the record of the built-in network", () => {
  const torn = ["berth-3f2a-eth0"];
  test.each<[string, string | undefined, More, readonly string[]]>([
    ["after a list has appeared", listOf("pods"), { torn }, ["DEL berth with berth"]],
    ["after a broken list has appeared", "{", { torn }, ["DEL berth with berth"]],
    ["after the list has gone", undefined, { torn }, ["DEL berth with berth"]],
    ["also where the entry is lost", listOf("pods"), {}, ["DEL berth with berth"]],
    ["with the list of the folder if it is that network's", listOf("berth"), { torn }, ["DEL berth with berth"]],
  ])("%s", async (_, list, more, calls) => {
    expect((await run("DEL", list, [], { ...more, recorded: "berth" })).calls).toEqual([...calls]);
  });

  test("but not by that of another network than the torn entry's", async () => {
    await expect(run("DEL", listOf("pods"), [], { torn: ["old-3f2a-eth0"], recorded: "berth" })).rejects.toThrow(
      "old-3f2a-eth0.unreadable does not say which network eth0 of 3f2a has",
    );
  });

  test("an entry that can be read comes first", async () => {
    expect((await run("DEL", listOf("pods"), [entryOf("old")], { recorded: "berth" })).calls).toEqual([
      "DEL old with the cache",
    ]);
  });
});

test("DEL takes an entry that can be read, whatever file of another network is torn", async () => {
  const torn = ["older-3f2a-eth0"];
  expect((await run("DEL", listOf("pods"), [entryOf("pods")], { torn })).calls).toEqual(["DEL pods with pods"]);
  expect((await run("DEL", listOf("pods"), [entryOf("old")], { torn })).calls).toEqual(["DEL old with the cache"]);
});

const enough: readonly (readonly [what: string, list: string | undefined, torn: string, calls: readonly string[]])[] = [
  ["a usable list deletes a torn entry", listOf("pods"), "pods-3f2a-eth0", ["DEL pods with pods"]],
  ["the delegate's entry is the runtime's own", undefined, "berth-delegate-3f2a-eth0", []],
  [
    "the delegate's entry is that of no other network",
    listOf("pods"),
    "berth-delegate-3f2a-eth0",
    ["DEL pods with pods"],
  ],
  ["the torn entry of another pod does not matter", undefined, "pods-77aa-eth0", []],
];
for (const [what, list, torn, calls] of enough)
  test(`DEL succeeds: ${what}`, async () =>
    expect(await run("DEL", list, [], { torn: [torn] })).toEqual({ calls: [...calls], output: undefined }));

test("CHECK takes the configuration of ADD, and fails with code 3 without one", async () => {
  expect((await run("CHECK", listOf("new"), [entryOf("old")])).calls).toEqual(["CHECK old"]);
  await expect(run("CHECK", listOf("pods"))).rejects.toMatchObject({ code: 3 });
});

test("CHECK succeeds without a call for a network of ADD before 0.4.0", async () => {
  const config = JSON.stringify({ ...JSON.parse(listOf("old")), cniVersion: "0.3.1" });
  expect(await run("CHECK", listOf("new"), [{ ...entryOf("old"), config }])).toEqual({ calls: [], output: undefined });
});
