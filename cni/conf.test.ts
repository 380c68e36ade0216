import { expect, test } from "bun:test";
import { binariesOf, type ConfForm, parseNetworkConf, parsePluginConf, withPlugins } from "./conf.ts";
import { CniError } from "./error.ts";

const FILE = "/etc/cni/net.d/10-pods.conflist";
const list = {
  cniVersion: "1.0.0",
  name: "pods",
  plugins: [
    { type: "bridge", ipam: { type: "host-local", subnet: "10.1.0.0/16" } },
    { type: "portmap", capabilities: { portMappings: true, bandwidth: false } },
    { type: "host-local", snat: true },
  ],
};

/** The failure of the list with these fields replaced, as `code: message`. */
function failureOf(text: string, where = FILE, form: ConfForm = "list"): string {
  try {
    parseNetworkConf(text, where, form);
    return "accepted";
  } catch (error) {
    return error instanceof CniError ? `${error.code}: ${error.message}` : String(error);
  }
}

test("a list has a name, a version, and plugins with their capabilities", () => {
  const conf = parseNetworkConf(JSON.stringify(list), FILE);
  const { name, cniVersion, disableCheck, disableGC, loadOnlyInlinedPlugins, plugins, text } = conf;
  expect({ name, cniVersion, disableCheck, disableGC, loadOnlyInlinedPlugins }).toEqual({
    name: "pods",
    cniVersion: "1.0.0",
    disableCheck: false,
    disableGC: false,
    loadOnlyInlinedPlugins: false,
  });
  expect(plugins.map(({ type, capabilities, ipamType }) => [type, capabilities, ipamType])).toEqual([
    ["bridge", [], "host-local"],
    ["portmap", ["portMappings"], undefined],
    ["host-local", [], undefined],
  ]);
  expect(plugins[2]?.fields).toEqual({ type: "host-local", snat: true });
  expect(JSON.parse(text)).toEqual(list);
  expect(binariesOf(conf)).toEqual(["bridge", "host-local", "portmap"]);
});

test("a single plugin is a list of one, for readers of the cache, too", () => {
  const fields = { cniVersion: "0.3.1", name: "one", type: "ptp" };
  for (const form of ["single plugin", "by type"] as const) {
    const conf = parseNetworkConf(JSON.stringify(fields), "/c/10-one.conf", form);
    expect(conf).toMatchObject({ name: "one", cniVersion: "0.3.1", plugins: [{ type: "ptp" }] });
    expect(JSON.parse(conf.text)).toEqual({ cniVersion: "0.3.1", name: "one", plugins: [fields] });
    expect(parseNetworkConf(conf.text, "the cache")).toEqual(conf);
  }
});

test("booleans may be texts, as in libcni", () => {
  const fields = { ...list, disableCheck: "True", disableGC: "false", loadOnlyInlinedPlugins: true };
  const { disableCheck, disableGC, loadOnlyInlinedPlugins } = parseNetworkConf(JSON.stringify(fields), FILE);
  expect([disableCheck, disableGC, loadOnlyInlinedPlugins]).toEqual([true, false, true]);
});

const versionRows: readonly (readonly [cniVersion: unknown, cniVersions: unknown, selected: string])[] = [
  [undefined, undefined, "0.1.0"],
  ["", [], "0.1.0"],
  ["0.3.1", undefined, "0.3.1"],
  ["0.4.0", ["0.3.1", "1.0.0"], "1.0.0"],
  ["1.1.0", ["0.4.0"], "1.1.0"],
  [undefined, ["1.0.0", "0.4.0"], "1.0.0"],
  ["2.0.0", ["1.2.0", "1.0.0"], "1.0.0"],
];
for (const [cniVersion, cniVersions, selected] of versionRows)
  test(`cniVersion ${cniVersion} with cniVersions ${JSON.stringify(cniVersions)} speaks ${selected}`, () => {
    const text = JSON.stringify({ ...list, cniVersion, cniVersions });
    expect(parseNetworkConf(text, FILE).cniVersion).toBe(selected as never);
  });

const withFields = (fields: object) => JSON.stringify({ ...list, ...fields });
const withPlugin = (plugin: unknown) => withFields({ plugins: [{ type: "ptp" }, plugin] });
const nameRule = "must be a text of letters, digits, '_', '.' and '-', and begin with a letter or a digit";
const refusals: readonly (readonly [what: string, text: string, failure: string])[] = [
  ["an empty file", "", `6: ${FILE} is not JSON: Unexpected EOF`],
  ["broken JSON", '{"name": ', `6: ${FILE} is not JSON: Unexpected EOF`],
  ["JSON that is no object", "[]", `6: ${FILE}: found [], must be a JSON object`],
  ["no name", withFields({ name: undefined }), `7: ${FILE}: name: found nothing, ${nameRule}`],
  ["a name that leads out of a folder", withFields({ name: "../x" }), `7: ${FILE}: name: found "../x", ${nameRule}`],
  ["a name with a slash", withFields({ name: "a/b" }), `7: ${FILE}: name: found "a/b", ${nameRule}`],
  [
    "an unknown version",
    withFields({ cniVersion: "2.0.0" }),
    `1: ${FILE}: cniVersion: found 2.0.0, must include one of 0.1.0, 0.2.0, 0.3.0, 0.3.1, 0.4.0, 1.0.0, 1.1.0`,
  ],
  [
    "a version that is no text",
    withFields({ cniVersion: 1 }),
    `7: ${FILE}: cniVersion: found 1, must be a text such as "1.0.0"`,
  ],
  [
    "versions that are no list",
    withFields({ cniVersions: "1.0.0" }),
    `7: ${FILE}: cniVersions: found "1.0.0", must be a list of texts such as "1.0.0"`,
  ],
  [
    "a boolean that is none",
    withFields({ disableGC: "yes" }),
    `7: ${FILE}: disableGC: found "yes", must be true or false`,
  ],
  [
    "an empty list of plugins",
    withFields({ plugins: [] }),
    `7: ${FILE}: plugins: found [], must be a list of at least one plugin`,
  ],
  [
    "plugins that are no list",
    withFields({ plugins: {} }),
    `7: ${FILE}: plugins: found {}, must be a list of at least one plugin`,
  ],
  ["a plugin that is no object", withPlugin(null), `7: ${FILE}: plugins[1]: found null, must be an object with a type`],
  [
    "a plugin without a type",
    withPlugin({}),
    `7: ${FILE}: plugins[1].type: found nothing, must be the name of a plugin's binary`,
  ],
  [
    "a type that leads out of the folder",
    withPlugin({ type: "../sh" }),
    `7: ${FILE}: plugins[1].type: found "../sh", must be the name of a plugin's binary`,
  ],
  [
    "a plugin for addresses that leads out of the folder",
    withPlugin({ type: "ptp", ipam: { type: ".." } }),
    `7: ${FILE}: plugins[1].ipam.type: found "..", must be the name of a plugin's binary`,
  ],
  [
    "capabilities that are no booleans",
    withPlugin({ type: "portmap", capabilities: { portMappings: "yes" } }),
    `7: ${FILE}: plugins[1].capabilities: found {"portMappings":"yes"}, must be an object of booleans, such as {"portMappings": true}`,
  ],
  [
    "loadOnlyInlinedPlugins without plugins",
    withFields({ plugins: undefined, loadOnlyInlinedPlugins: true }),
    `7: ${FILE}: loadOnlyInlinedPlugins: found true, must be false in a list without plugins`,
  ],
];
for (const [what, text, failure] of refusals)
  test(`${what} is refused with the file, what was found and what would be right`, () => {
    expect(failureOf(text)).toBe(failure);
  });

test("a list in a file of a single plugin is refused", () => {
  const cure = "rename the file so that it ends with .conflist";
  const message = `7: /c/a.conf: plugins: found in a file of a single plugin; ${cure}`;
  expect(failureOf(JSON.stringify(list), "/c/a.conf", "single plugin")).toBe(message);
});

test("a network with further plugins has a text that contains them", () => {
  const conf = parseNetworkConf(JSON.stringify(list), FILE);
  const more = parsePluginConf('{"type": "tuning", "mtu": 1400}', "/etc/cni/net.d/pods/a.conf");
  const whole = withPlugins(conf, [more]);
  expect(whole.plugins.map(({ type }) => type)).toEqual(["bridge", "portmap", "host-local", "tuning"]);
  expect(parseNetworkConf(whole.text, "the cache")).toEqual(
    whole.text === conf.text ? conf : { ...whole, loadOnlyInlinedPlugins: true },
  );
  expect(withPlugins(conf, [])).toBe(conf);
});
