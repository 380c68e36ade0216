import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFiles } from "../host/fs/files.ts";
import { loadFirstNetwork, loadNetwork, readConfDir } from "./conf-dir.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-conf-dir-"));
});
afterEach(() => rm(folder, { recursive: true }));

const files = createFiles("/");
const list = (name: string, fields: object = {}) =>
  JSON.stringify({ cniVersion: "1.0.0", name, plugins: [{ type: "bridge" }], ...fields });
const put = (name: string, text: string) => writeFile(join(folder, name), text);

/** Each file in one line: its network and plugins, or its problem. */
async function lines(): Promise<readonly string[]> {
  const found = await readConfDir(files, folder);
  return found.map((entry) => {
    const name = entry.file.slice(folder.length + 1);
    if ("problem" in entry) return `${name} ${entry.problem.code}: ${entry.problem.message.replaceAll(folder, "DIR")}`;
    return `${name} ${entry.conf.name}: ${entry.conf.plugins.map(({ type }) => type).join(" ")}`;
  });
}

test("files are read in the order of their names, and others are ignored", async () => {
  await put("20-b.conf", JSON.stringify({ name: "b", type: "ptp" }));
  await put("10-a.conflist", list("a"));
  await put("30-c.json", JSON.stringify({ name: "c", type: "macvlan" }));
  await put("05-notes.txt", "");
  await put("06-old.conflist.bak", "");
  await mkdir(join(folder, "07-folder.conf"));
  expect(await lines()).toEqual(["10-a.conflist a: bridge", "20-b.conf b: ptp", "30-c.json c: macvlan"]);
  expect((await loadNetwork(files, folder)).name).toBe("a");
  expect((await loadNetwork(files, folder, "c")).name).toBe("c");
});

test("a list gets the plugins of its own folder, unless it has all of them", async () => {
  await mkdir(join(folder, "a"));
  await put("a/20-tuning.conf", '{"type": "tuning"}');
  await put("a/10-firewall.conf", '{"type": "firewall"}');
  await put("a/30-notes.conflist", "");
  await put("10-a.conflist", list("a"));
  expect(await lines()).toEqual(["10-a.conflist a: bridge firewall tuning"]);
  await put("10-a.conflist", list("a", { loadOnlyInlinedPlugins: true }));
  expect(await lines()).toEqual(["10-a.conflist a: bridge"]);
  await put("10-a.conflist", list("a", { plugins: undefined }));
  expect(await lines()).toEqual(["10-a.conflist a: firewall tuning"]);
  await put("a/10-firewall.conf", "{}");
  expect(await lines()).toEqual([
    "10-a.conflist 7: DIR/a/10-firewall.conf: type: found nothing, must be the name of a plugin's binary",
  ]);
});

test("a list whose own folder cannot be read has a problem, and does not hide the others", async () => {
  await put("10-a.conflist", list("a"));
  await put("20-b.conflist", list("b"));
  await symlink("a", join(folder, "a"));
  expect(await lines()).toEqual([
    expect.stringMatching(/^10-a.conflist 5: DIR\/a .*symlink/),
    "20-b.conflist b: bridge",
  ]);
  await put("10-a.conflist", list("a", { loadOnlyInlinedPlugins: true }));
  expect(await lines()).toEqual(["10-a.conflist a: bridge", "20-b.conflist b: bridge"]);
});

test("a file with a problem does not hide the others, but the runtime would use it", async () => {
  await put("10-broken.conflist", "{");
  await symlink("11-loop.conflist", join(folder, "11-loop.conflist"));
  await put("12-empty.conflist", list("empty", { plugins: undefined }));
  await put("20-a.conflist", list("a"));
  await put("30-a.conflist", list("a"));
  expect(await lines()).toEqual([
    "10-broken.conflist 6: DIR/10-broken.conflist is not JSON: Expected '}'",
    expect.stringMatching(/^11-loop.conflist 5: DIR\/11-loop.conflist .*symlink/),
    "12-empty.conflist 7: DIR/12-empty.conflist: plugins: found none, must be a list of at least one plugin; DIR/empty has none either",
    "20-a.conflist a: bridge",
    '30-a.conflist 7: DIR/30-a.conflist: name: found "a", must be unique: DIR/20-a.conflist has it, too, and comes first',
  ]);
  await expect(loadNetwork(files, folder)).rejects.toThrow("10-broken.conflist is not JSON");
  expect((await loadNetwork(files, folder, "a")).plugins).toHaveLength(1);
});

test("an unknown network, an empty folder and an absent one are refused with what is there", async () => {
  const nothing = `${folder} has no network configuration: it must hold a file that ends with .conflist, .conf or .json`;
  await expect(loadNetwork(files, folder)).rejects.toThrow(nothing);
  await expect(loadNetwork(files, join(folder, "none"), "a")).rejects.toThrow("none has no network configuration");
  await put("10-a.conflist", list("a"));
  await put("20-broken.conf", "");
  await expect(loadNetwork(files, folder, "b")).rejects.toThrow(
    `${folder} has no network "b", only a; ${folder}/20-broken.conf is not JSON: Unexpected EOF`,
  );
});

describe("of two folders", () => {
  const first = async (): Promise<string> => {
    const confDirs = [folder, join(folder, "second")] as const;
    const loaded = await loadFirstNetwork(files, confDirs).catch(({ message }) => ({ problem: message as string }));
    const text = "problem" in loaded ? loaded.problem : `${loaded.conf.name} of ${loaded.confDir}`;
    return text.replaceAll(folder, "DIR");
  };
  const none = "DIR has no network configuration: it must hold a file that ends with .conflist, .conf or .json";

  test.each<[string, Readonly<Record<string, string>>, string]>([
    [
      "the first one with a file has the network",
      { "20-b.conflist": list("b"), "second/10-a.conflist": list("a") },
      "b of DIR",
    ],
    [
      "the second one has it where the first one has other files alone",
      { "notes.txt": "", "second/10-a.conflist": list("a") },
      "a of DIR/second",
    ],
    [
      "a broken file keeps the network of the second one from serving",
      { "10-b.conflist": "{", "second/10-a.conflist": list("a") },
      "DIR/10-b.conflist is not JSON: Expected '}'",
    ],
    [
      "a broken file of the second one is a problem, too",
      { "second/10-a.conflist": "{" },
      "DIR/second/10-a.conflist is not JSON: Expected '}'",
    ],
    ["the first one is named where none has a file", {}, none],
  ])("%s", async (_, texts, expected) => {
    await mkdir(join(folder, "second"));
    for (const [name, text] of Object.entries(texts)) await put(name, text);
    expect(await first()).toBe(expected);
  });

  test("neither has to exist", async () => {
    await rm(folder, { recursive: true });
    expect(await first()).toBe(none);
    await mkdir(folder);
  });
});
