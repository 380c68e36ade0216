import { expect, test } from "bun:test";
import { FakeClock } from "../../test/fakes/clock.ts";
import { CniError } from "../error.ts";
import type { Cni } from "../network.ts";
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
      list: async () => (node.list === undefined ? undefined : [{ name: "10.conflist", kind: "file" as const }]),
      read: async () => node.list ?? "",
    },
    confDir: "/c",
    inProcess: new Map([["berth", { call: async () => undefined }]]),
    binaries: {
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
  return { node, clock, look: () => readiness.findProblem(cni, signal), onCall: readiness.onCall };
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
