import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFiles } from "../../host/fs/files.ts";
import { pluginsOf, readCniFacts } from "./cni-facts.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-cni-"));
});
afterEach(() => rm(folder, { recursive: true }));

test.each([
  [
    "a list",
    '{"plugins": [{"type": "bridge", "ipam": {"type": "host-local"}}, {"type": "portmap"}]}',
    "bridge,host-local,portmap",
  ],
  ["a single configuration", '{"type": "ptp", "ipam": {"type": "dhcp"}}', "ptp,dhcp"],
  ["text that is not JSON", "cniVersion: 1", "it is not JSON"],
  ["JSON that is not an object", "null", "it is not JSON"],
  ["an empty list", '{"plugins": []}', "it names no plugin"],
  ["a list with odd elements", '{"plugins": [null, {"type": 7}]}', "it names no plugin"],
])("the plugins of %s", (_, text, plugins) => {
  expect(String(pluginsOf(text))).toBe(plugins);
});

test("the first file by name counts, and plugins that are missing or cannot run are named", async () => {
  const [confDir, binDir] = [join(folder, "net.d"), join(folder, "bin")];
  await mkdir(confDir);
  await mkdir(binDir);
  await writeFile(join(confDir, "20-later.conflist"), "{}");
  await writeFile(join(confDir, "00-notes.txt"), "");
  const plugins = [{ type: "bridge" }, { type: "portmap" }, { type: "firewall" }];
  await writeFile(join(confDir, "10-first.conflist"), JSON.stringify({ plugins }));
  await writeFile(join(binDir, "bridge"), "", { mode: 0o755 });
  await writeFile(join(binDir, "portmap"), "", { mode: 0o644 });
  expect(await readCniFacts(createFiles("/"), { confDir, binDirs: ["/nowhere", binDir] })).toEqual({
    confDir,
    binDirs: ["/nowhere", binDir],
    file: join(confDir, "10-first.conflist"),
    plugins: ["bridge", "portmap", "firewall"],
    missingPlugins: ["portmap", "firewall"],
  });
});

test("a folder that does not exist has no configuration", async () => {
  const confDir = join(folder, "none");
  const nothing = { confDir, binDirs: [], file: undefined, plugins: [], missingPlugins: [] };
  expect(await readCniFacts(createFiles("/"), { confDir, binDirs: [] })).toEqual(nothing);
});
