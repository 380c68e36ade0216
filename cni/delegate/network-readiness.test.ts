import { expect, test } from "bun:test";
import { CniError } from "../error.ts";
import { createNetworkReadiness } from "./network-readiness.ts";

const { signal } = new AbortController();
const listOf = (...types: readonly string[]) =>
  JSON.stringify({ cniVersion: "1.1.0", name: "pods", plugins: types.map((type) => ({ type })) });

/** The node of a test, which a test may change between two looks. */
function createFixture() {
  const node = {
    list: listOf("berth", "bridge") as string | undefined,
    binaries: ["bridge"],
    statuses: 0,
    failure: "",
  };
  const look = createNetworkReadiness({
    files: {
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
    cni: {
      async status() {
        node.statuses += 1;
        if (node.failure !== "") throw new CniError(50, node.failure, { plugin: "bridge" });
        return "ready";
      },
    },
  });
  return { node, look: () => look(signal) };
}

test("a network whose binaries exist and whose plugins are ready can serve ADD; its plugins are asked once", async () => {
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
