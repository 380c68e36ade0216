import { expect, test } from "bun:test";
import { namespaceOf, stateOfNamespace } from "./cached-namespace.ts";

const interfaces = [{ name: "cni0" }, { name: "eth0", sandbox: "/run/netns/a" }];
const rows: readonly (readonly [
  what: string,
  netns: string,
  result: Readonly<Record<string, unknown>>,
  path: string,
])[] = [
  ["an entry of libcni from 1.1 on", "/run/netns/b", { interfaces }, "/run/netns/b"],
  ["an entry of libcni before 1.1", "", { interfaces }, "/run/netns/a"],
  ["a result of version 0.2.0, which has no interfaces", "", { ip4: { ip: "10.1.0.5/16" } }, ""],
  ["a result whose interfaces are on the host", "", { interfaces: [{ name: "cni0" }] }, ""],
  ["a result that another program has broken", "", { interfaces: [null, { sandbox: 1 }, { sandbox: "" }] }, ""],
  ["a torn entry", "", {}, ""],
];
test.each(rows)("the network namespace of %s", (_, netns, result, path) => {
  expect(namespaceOf({ netns, result })).toBe(path);
});

test("only a namespace with a path is mounted or gone", async () => {
  const isNamespace = async (path: string) => path === "/run/netns/a";
  const states = rows.map(([, netns, result]) => stateOfNamespace({ netns, result }, isNamespace));
  expect(await Promise.all(states)).toEqual(["gone", "mounted", "unknown", "unknown", "unknown", "unknown"]);
});
