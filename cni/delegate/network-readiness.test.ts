import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { chmod, mkdir, mkdtemp, rename, rm, symlink, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createExec } from "../../host/exec.ts";
import { createFiles, type Files } from "../../host/fs/files.ts";
import type { Mounts } from "../../host/fs/mounts.ts";
import { statSync } from "../../host/fs/stat-sync.ts";
import { FakeClock } from "../../test/fakes/clock.ts";
import { CniError } from "../error.ts";
import type { Cni } from "../network.ts";
import { createPluginBinaries } from "../plugin-binaries.ts";
import { createNetworkReadiness } from "./network-readiness.ts";

const { signal } = new AbortController();
const listOf = (...types: readonly string[]) =>
  JSON.stringify({ cniVersion: "1.1.0", name: "pods", plugins: types.map((type) => ({ type })) });

const stat = { kind: "file", sizeBytes: 1, modifiedMs: 1, inode: 1, mode: 0o755, user: 0, group: 0 } as const;

/** The node of a test, which a test may change between two looks. */
function createFixture() {
  const node = {
    list: listOf("berth", "bridge") as string | undefined,
    binaries: ["bridge"],
    statuses: 0,
    failure: "",
    inode: 1,
    onStatus: () => {},
  };
  const clock = new FakeClock();
  const readiness = createNetworkReadiness({
    clock,
    files: {
      stat: async () => ({ ...stat, inode: node.inode }),
      readLink: async () => undefined,
      list: async () => (node.list === undefined ? undefined : [{ name: "10.conflist", kind: "file" as const }]),
      read: async () => node.list ?? "",
    },
    statSync: () => stat,
    mounts: { list: async () => [] },
    confDirs: ["/c"],
    inProcess: new Map([["berth", { call: async () => undefined }]]),
    binaries: {
      pathsOf: (type) => [`/b/${type}`],
      async find(type) {
        if (node.binaries.includes(type)) return `/b/${type}`;
        throw new CniError(50, "its binary is in none of the folders /b", { plugin: type });
      },
    },
  });
  const cni: Pick<Cni, "status"> = {
    async status() {
      node.statuses += 1;
      node.onStatus();
      if (node.failure !== "") throw new CniError(50, node.failure, { plugin: "bridge" });
      return "ready";
    },
  };
  return { node, clock, look: () => readiness.findProblem(cni, signal), ...readiness };
}

test("a network whose binaries exist and whose plugins are ready can serve ADD; its plugins are asked once while nothing changes", async () => {
  const { node, look } = createFixture();
  expect([await look(), await look(), node.statuses]).toEqual([undefined, undefined, 1]);
  node.list = listOf("bridge");
  expect([await look(), await look(), node.statuses]).toEqual([undefined, undefined, 2]);
});

test("a problem is named as long as it lasts, and the plugins are asked again after it", async () => {
  const { node, look } = createFixture();
  const rows: readonly (readonly [Partial<typeof node>, string])[] = [
    [
      { list: undefined },
      "/c has no network configuration: it must hold a file that ends with .conflist, .conf or .json (code 7)",
    ],
    [{ list: "{" }, "/c/10.conflist is not JSON"],
    [{ list: listOf("berth-cni") }, "contains berth-cni, which would call itself without end"],
    [{ binaries: [] }, "bridge: its binary is in none of the folders /b (code 50)"],
    [{ failure: "no address is left", list: listOf("bridge") }, "bridge: no address is left (code 50)"],
  ];
  const usable = { ...node };
  for (const [change, problem] of rows) {
    Object.assign(node, change);
    for (let time = 0; time < 2; time++) expect(await look()).toContain(problem);
    Object.assign(node, usable, { statuses: 0 });
    expect([await look(), await look(), node.statuses]).toEqual([undefined, undefined, 1]);
  }
});

const failed = {
  verb: "ADD",
  network: "pods",
  error: new CniError(100, "no address is left", { plugin: "bridge" }),
} as const;

test("plugins that were ready are asked again after an ADD that has failed, and when they recover their network is ready", async () => {
  const { node, look, onCall } = createFixture();
  expect(await look()).toBeUndefined();
  for (const call of [
    { ...failed, error: undefined },
    { ...failed, verb: "DEL" as const },
    { ...failed, network: "lan" },
  ])
    onCall(call);
  expect([await look(), node.statuses]).toEqual([undefined, 1]);
  onCall(failed);
  onCall(failed);
  // An ADD may fail for a reason of its own.
  expect([await look(), await look(), node.statuses]).toEqual([undefined, undefined, 2]);
  onCall(failed);
  node.failure = "the daemon is away";
  const problem = "bridge: the daemon is away (code 50)";
  expect([await look(), await look(), node.statuses]).toEqual([problem, problem, 4]);
  node.failure = "";
  expect([await look(), await look(), node.statuses]).toEqual([undefined, undefined, 5]);
});

test("an ADD that fails while the plugins are asked makes the next look ask them again", async () => {
  const { node, look, onCall } = createFixture();
  node.list = listOf("bridge");
  await look();
  onCall(failed);
  node.onStatus = () => {
    node.onStatus = () => {};
    onCall(failed);
  };
  expect([await look(), await look(), await look(), node.statuses]).toEqual([undefined, undefined, undefined, 3]);
});

test("plugins that were ready are asked again when a binary is replaced, and every five minutes", async () => {
  const { node, clock, look } = createFixture();
  await look();
  node.inode = 2;
  expect([await look(), await look(), node.statuses]).toEqual([undefined, undefined, 2]);
  await clock.advance(299_999);
  clock.stepWallClock(3_600_000);
  expect([await look(), node.statuses]).toEqual([undefined, 2]);
  await clock.advance(1);
  expect([await look(), await look(), node.statuses]).toEqual([undefined, undefined, 3]);
});

describe("whether the network is still ready", () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "berth-readiness-"));
    for (const name of ["net.d", "net.d/pods", "early", "late", "elsewhere"]) await mkdir(at(name));
    await writeFile(at("net.d/10-pods.conflist"), listOf("berth", "bridge"));
    await writeFile(at("net.d/20-more.conflist"), "{}");
    await writeFile(at("net.d/pods/tuning.conf"), JSON.stringify({ type: "tuning" }));
    for (const type of ["bridge", "tuning"]) await writeFile(at(`late/${type}`), "", { mode: 0o755 });
  });
  afterEach(() => rm(folder, { recursive: true }));
  const at = (path: string) => join(folder, path);

  /** A network that was ready at the last look. Counts the asynchronous calls on files, and how often plugins were asked. */
  async function createReady(mounted: readonly { mountPoint: string; fsType: string }[] = []) {
    const counts = { fileCalls: 0, statuses: 0 };
    const counted =
      <Args extends readonly unknown[], Result>(call: (...args: Args) => Result) =>
      (...args: Args) => {
        counts.fileCalls += 1;
        return call(...args);
      };
    const real = createFiles("/");
    const files: Pick<Files, "list" | "read" | "stat" | "readLink"> = {
      list: counted(real.list),
      read: counted(real.read),
      stat: counted(real.stat),
      readLink: counted(real.readLink),
    };
    const clock = new FakeClock();
    const binDirs = [at("early"), at("late")];
    const mounts: Pick<Mounts, "list"> = {
      list: counted(async () =>
        mounted.map((mount) => ({ device: "0:1", root: "/", source: "nas:/", options: [], isShared: false, ...mount })),
      ),
    };
    const readiness = createNetworkReadiness({
      ...{ clock, files, statSync, mounts, confDirs: [at("net.d"), at("fallback.d")] },
      inProcess: new Map([["berth", { call: async () => undefined }]]),
      binaries: createPluginBinaries({ exec: createExec(), files, binDirs, env: {}, timeoutMs: 1_000 }),
    });
    const cni: Pick<Cni, "status"> = {
      async status() {
        counts.statuses += 1;
        return "ready";
      },
    };
    expect(await readiness.findProblem(cni, signal)).toBeUndefined();
    Object.assign(counts, { fileCalls: 0, statuses: 0 });
    return { readiness, counts, clock, findProblem: () => readiness.findProblem(cni, signal) };
  }

  /** The agent looks at everything again, and asks no plugin. */
  const same = "same";
  test.each<[string, () => Promise<unknown>, "still ready" | "same" | "asked again" | RegExp]>([
    ["nothing", () => Promise.resolve(), "still ready"],
    ["a file of another folder", () => writeFile(at("elsewhere/file"), ""), "still ready"],
    ["another plugin's binary", () => writeFile(at("late/portmap"), "", { mode: 0o755 }), "still ready"],
    ["an earlier folder gets another plugin's binary", () => writeFile(at("early/portmap"), ""), "still ready"],
    ["the list is written in place", () => writeFile(at("net.d/10-pods.conflist"), listOf("bridge")), "asked again"],
    ["the list is touched", () => utimes(at("net.d/10-pods.conflist"), 1, 1), same],
    ["another list is written", () => writeFile(at("net.d/20-more.conflist"), "{ }"), same],
    ["a later list comes", () => writeFile(at("net.d/30-last.conflist"), "{}"), same],
    ["an earlier list comes", () => writeFile(at("net.d/00-first.conflist"), listOf("bridge")), "asked again"],
    ["the list goes", () => rm(at("net.d/10-pods.conflist")), /20-more\.conflist/],
    ["the folder of lists goes", () => rm(at("net.d"), { recursive: true }), /has no network configuration/],
    ["a plugin is added beside the list", () => writeFile(at("net.d/pods/a.conf"), '{"type":"bridge"}'), "asked again"],
    [
      "a plugin beside the list changes",
      () => writeFile(at("net.d/pods/tuning.conf"), '{"type":"tuning","mtu":1}'),
      "asked again",
    ],
    ["a binary goes", () => rm(at("late/bridge")), /bridge: its binary is in none of the folders/],
    ["a binary loses its bit", () => chmod(at("late/tuning"), 0o644), /late\/tuning is not executable/],
    ["a binary is replaced", () => replaceBinary("late/bridge"), "asked again"],
    ["an earlier folder gets the binary", () => writeFile(at("early/tuning"), "", { mode: 0o755 }), "asked again"],
    ["the list becomes a symlink", () => replaceByLink("net.d/10-pods.conflist", "elsewhere/list"), same],
    ["the folder of binaries becomes a symlink to itself", () => replaceByLink("late", "elsewhere/bin"), "still ready"],
  ])("after this change: %s", async (_what, change, expected) => {
    const { readiness, counts, findProblem } = await createReady();
    await change();
    expect(readiness.isStillReady()).toBe(expected === "still ready");
    expect(counts.fileCalls).toBe(0);
    if (expected === "still ready") return;
    const problem = await findProblem();
    expect(counts.fileCalls).toBeGreaterThan(0);
    if (expected instanceof RegExp) expect(problem).toMatch(expected);
    else expect([problem, counts.statuses]).toEqual([undefined, expected === "asked again" ? 1 : 0]);
    // From then on nothing changes.
    expect(readiness.isStillReady()).toBe(problem === undefined);
  });

  const replaceBinary = async (path: string) => {
    await writeFile(at("elsewhere/new"), "", { mode: 0o755 });
    await rename(at("elsewhere/new"), at(path));
  };
  const replaceByLink = async (path: string, target: string) => {
    await rename(at(path), at(target));
    await symlink(at(target), at(path));
  };

  test("an ADD that has failed, and five minutes, make the agent ask the plugins again", async () => {
    const { readiness, clock, findProblem } = await createReady();
    readiness.onCall({ ...failed, error: undefined });
    expect(readiness.isStillReady()).toBe(true);
    readiness.onCall(failed);
    expect(readiness.isStillReady()).toBe(false);
    await findProblem();
    await clock.advance(299_999);
    expect(readiness.isStillReady()).toBe(true);
    await clock.advance(1);
    expect(readiness.isStillReady()).toBe(false);
  });

  test("a list that appears in an earlier folder serves from the next look on, and one that goes leaves the later folder's", async () => {
    await rm(at("net.d/20-more.conflist"));
    const { readiness, findProblem } = await createReady();
    const [chain, aside] = [at("net.d/10-pods.conflist"), at("pods.conflist")];
    await mkdir(at("fallback.d"));
    await writeFile(at("fallback.d/10-builtin.conflist"), listOf("berth"));
    expect(readiness.isStillReady()).toBe(true);
    await rename(chain, aside);
    expect([readiness.isStillReady(), await findProblem(), readiness.isStillReady()]).toEqual([false, undefined, true]);
    await rename(aside, chain);
    expect(readiness.isStillReady()).toBe(false);
    expect([await findProblem(), readiness.isStillReady()]).toEqual([undefined, true]);
    await writeFile(chain, "{");
    expect(readiness.isStillReady()).toBe(false);
    expect([await findProblem(), readiness.isStillReady()]).toEqual([
      expect.stringContaining(`${chain} is not JSON`),
      false,
    ]);
  });

  test("before the first look, and after one that has found a problem, the network is not still ready", async () => {
    const { node, look, isStillReady } = createFixture();
    expect(isStillReady()).toBe(false);
    node.failure = "no address is left";
    await look();
    expect(isStillReady()).toBe(false);
  });

  test("files of a server that may stop answering are never looked at by the agent's own thread", async () => {
    const server = { mountPoint: at("late"), fsType: "nfs4" };
    const { readiness, counts, findProblem } = await createReady([server]);
    expect(readiness.isStillReady()).toBe(false);
    expect([await findProblem(), counts.statuses]).toEqual([undefined, 0]);
    const local = await createReady([{ mountPoint: at("late"), fsType: "ext4" }]);
    expect(local.readiness.isStillReady()).toBe(true);
  });
});
