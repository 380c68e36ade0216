import { expect, test } from "bun:test";
import { parseNetworkConf } from "../conf.ts";
import { loadDefinition } from "./network-definition.ts";

const files = {
  list: async (path: string) => (path === "/c" ? [{ name: "20-lan.conflist", kind: "file" as const }] : undefined),
  read: async () => JSON.stringify({ cniVersion: "1.0.0", name: "lan", plugins: [{ type: "macvlan" }] }),
};
const defaultText = '{"cniVersion":"1.0.0","name":"pods","plugins":[{"type":"bridge","bridge":"br0"}]}';
const load = (config: string, cniArgs?: object, name = "lan", defaultNetwork = defaultText) =>
  loadDefinition(
    files,
    { chainDir: "/c", confDir: "/d" },
    { namespace: "infra", name, config },
    cniArgs as Readonly<Record<string, unknown>>,
    parseNetworkConf(defaultNetwork, "the default network"),
  );

test("a list and a single plugin without a name have that of the definition", async () => {
  const single = await load('{"cniVersion":"1.0.0","type":"macvlan"}');
  expect(single).toMatchObject({ name: "lan", plugins: [{ type: "macvlan" }] });
  expect(JSON.parse(single.text)).toMatchObject({ name: "lan", plugins: [{ type: "macvlan" }] });
  expect(await load('{"cniVersion":"1.0.0","name":"","plugins":[{"type":"ptp"}]}')).toMatchObject({ name: "lan" });
  expect(await load('{"cniVersion":"1.0.0","name":"own","plugins":[{"type":"ptp"}]}')).toMatchObject({ name: "own" });
});

test("the name of a definition may end like that of a file", async () => {
  const [list, single] = ['{"plugins":[{"type":"ptp"}]}', '{"type":"ptp"}'];
  for (const name of ["lan.conf", "lan.conflist"])
    for (const config of [list, single])
      expect(await load(config, undefined, name)).toMatchObject({ name, plugins: [{ type: "ptp" }] });
});

test("the default network itself may be selected, as a whole or by its name", async () => {
  const same = '{"name":"pods","plugins":[{"bridge":"br0","type":"bridge"}]}';
  expect(await load(same, { y: 2 })).toMatchObject({ name: "pods" });
  expect(await load('{"type":"bridge","bridge":"br0"}', undefined, "pods")).toMatchObject({ name: "pods" });
  const lan = '{"cniVersion":"1.0.0","name":"lan","plugins":[{"type":"macvlan"}]}';
  expect(await load("", undefined, "lan", lan)).toMatchObject({ name: "lan" });
});

test("without a configuration it is the network of that name on the node", async () => {
  expect(await load(" ")).toMatchObject({ name: "lan", plugins: [{ type: "macvlan" }] });
  await expect(load("", undefined, "wan")).rejects.toMatchObject({
    code: 7,
    message: '/c has no network "wan", only lan',
  });
});

test("cni-args go to each plugin beside what it has there, and into the cache", async () => {
  const config = {
    cniVersion: "1.0.0",
    plugins: [{ type: "a", args: { cni: { x: 1, y: 1 }, other: 1 } }, { type: "b" }],
  };
  const conf = await load(JSON.stringify(config), { y: 2 });
  const expected = [
    { type: "a", args: { cni: { x: 1, y: 2 }, other: 1 } },
    { type: "b", args: { cni: { y: 2 } } },
  ];
  expect(conf.plugins.map(({ fields }) => fields)).toEqual(expected);
  expect(JSON.parse(conf.text)).toEqual({ ...config, name: "lan", plugins: expected });
});

const refused: readonly (readonly [what: string, config: string, code: number, message: string])[] = [
  ["text that is not JSON", "{", 6, "the NetworkAttachmentDefinition infra/lan is not JSON: "],
  [
    "a plugin without a type",
    '{"plugins":[{}]}',
    7,
    "the NetworkAttachmentDefinition infra/lan: plugins[0].type: found nothing",
  ],
  [
    "a list without plugins",
    '{"cniVersion":"1.0.0"}',
    7,
    "the NetworkAttachmentDefinition infra/lan: plugins: found none",
  ],
  [
    "a name with a slash",
    '{"name":"a/b","type":"ptp"}',
    7,
    'the NetworkAttachmentDefinition infra/lan: name: found "a/b"',
  ],
  [
    "the delegate",
    '{"type":"berth-cni"}',
    7,
    "the NetworkAttachmentDefinition infra/lan contains berth-cni, which would call itself",
  ],
  [
    "the delegate's name",
    '{"name":"berth-delegate","type":"ptp"}',
    7,
    'the NetworkAttachmentDefinition infra/lan: name: found "berth-delegate"',
  ],
  [
    "the default network's name with another configuration",
    '{"name":"pods","type":"bridge","bridge":"br1"}',
    7,
    'the NetworkAttachmentDefinition infra/lan: name: found "pods", must be another one: the default network in /d has it with another configuration',
  ],
  [
    "the default network's name with one plugin more",
    '{"name":"pods","plugins":[{"type":"bridge","bridge":"br0"},{"type":"portmap"}]}',
    7,
    'name: found "pods", must be another one',
  ],
];
for (const [what, config, code, message] of refused)
  test(`${what} is refused`, async () => {
    await expect(load(config)).rejects.toMatchObject({ code, message: expect.stringContaining(message) });
  });
