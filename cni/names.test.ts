import { expect, test } from "bun:test";
import { CniError } from "./error.ts";
import { checkParameters, isNetworkName, isPluginType } from "./names.ts";

test("a network's name and a plugin's type cannot lead out of a folder", () => {
  for (const name of ["pods", "a.b-c_d", "0"]) expect([name, isNetworkName(name)]).toEqual([name, true]);
  for (const name of ["", ".", "..", "../x", "a/b", "-a", "a b", "a\n"])
    expect([name, isNetworkName(name)]).toEqual([name, false]);
  for (const type of ["bridge", "cni-bridge-fp", ".x"]) expect([type, isPluginType(type)]).toEqual([type, true]);
  for (const type of ["", ".", "..", "/bin/sh", "a/b", "a\\b", "a\0"])
    expect([type, isPluginType(type)]).toEqual([type, false]);
});

const good = { containerId: "3f2a", ifName: "eth0", args: new Map([["K8S_POD_NAME", "web"]]) };
const idRule = "must consist of letters, digits, '_', '.' and '-', and begin with a letter or a digit";
const rows: readonly (readonly [what: string, parameters: Partial<typeof good>, failure: string])[] = [
  ["good ones", {}, "accepted"],
  ["no container id", { containerId: "" }, "3: the container id is empty"],
  ["a container id with a slash", { containerId: "../a" }, `4: container id: found "../a", ${idRule}`],
  ["no interface", { ifName: "" }, '4: interface name: found "", must be the name of an interface'],
  ["the interface ..", { ifName: ".." }, '4: interface name: found "..", must be the name of an interface'],
  [
    "a long interface",
    { ifName: "abcdefghijklmnop" },
    '4: interface name: found "abcdefghijklmnop", must have at most 15 bytes',
  ],
  ["an interface of 15 bytes", { ifName: "abcdefghijklmno" }, "accepted"],
  [
    "an interface of 8 characters and 16 bytes",
    { ifName: "ääääääää" },
    '4: interface name: found "ääääääää", must have at most 15 bytes',
  ],
  [
    "an interface with a colon",
    { ifName: "eth0:1" },
    `4: interface name: found "eth0:1", must have no '/', ':' and white space`,
  ],
  [
    "an argument that is two",
    { args: new Map([["A", "b;C=d"]]) },
    `4: CNI_ARGS: found "A=b;C=d", must be KEY=VALUE without further '=' and ';'`,
  ],
  [
    "an argument without a key",
    { args: new Map([["", "b"]]) },
    `4: CNI_ARGS: found "=b", must be KEY=VALUE without further '=' and ';'`,
  ],
];
for (const [what, parameters, failure] of rows)
  test(`${what}: ${failure}`, () => {
    let found = "accepted";
    try {
      checkParameters({ ...good, ...parameters });
    } catch (error) {
      found = error instanceof CniError ? `${error.code}: ${error.message}` : String(error);
    }
    expect(found).toBe(failure);
  });
