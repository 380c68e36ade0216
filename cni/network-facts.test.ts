import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFiles } from "../host/fs/files.ts";
import { cniProblemOf, readCniFacts } from "./network-facts.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-cni-"));
});
afterEach(() => rm(folder, { recursive: true }));

test("the first file by name counts, and plugins that are missing or cannot run are named", async () => {
  const [confDir, binDir] = [join(folder, "net.d"), join(folder, "bin")];
  await mkdir(confDir);
  await mkdir(binDir);
  await writeFile(join(confDir, "20-later.conflist"), "{}");
  await writeFile(join(confDir, "00-notes.txt"), "");
  const plugins = [{ type: "bridge", ipam: { type: "portmap" } }, { type: "portmap" }, { type: "firewall" }];
  await writeFile(join(confDir, "10-first.conflist"), JSON.stringify({ name: "pods", plugins }));
  await writeFile(join(binDir, "bridge"), "", { mode: 0o755 });
  await writeFile(join(binDir, "portmap"), "", { mode: 0o644 });
  expect(await readCniFacts(createFiles("/"), { confDir, binDirs: ["/nowhere", binDir] })).toEqual({
    confDir,
    binDirs: ["/nowhere", binDir],
    file: join(confDir, "10-first.conflist"),
    plugins: ["bridge", "portmap", "firewall"],
    missingPlugins: ["firewall"],
    notExecutable: [join(binDir, "portmap")],
    bridges: [{ name: "cni0", families: [4, 6] }],
  });
});

test("a folder that does not exist has no configuration", async () => {
  const confDir = join(folder, "none");
  const nothing = {
    confDir,
    binDirs: [],
    file: undefined,
    plugins: [],
    missingPlugins: [],
    notExecutable: [],
    bridges: [],
  };
  expect(await readCniFacts(createFiles("/"), { confDir, binDirs: [] })).toEqual(nothing);
});

test("a first file that is no network is a problem, even if later ones are networks", async () => {
  await writeFile(join(folder, "10-broken.conf"), '{"name": "pods", "type": "../sh"}');
  await writeFile(join(folder, "20-later.conf"), '{"name": "pods", "type": "ptp"}');
  const file = join(folder, "10-broken.conf");
  expect(await readCniFacts(createFiles("/"), { confDir: folder, binDirs: [] })).toMatchObject({
    file,
    problem: `${file}: type: found "../sh", must be the name of a plugin's binary`,
  });
});

const [four, six] = [{ subnet: "10.88.0.0/24" }, { subnet: "fd00:88::/64" }];

test.each([
  [{ type: "berth", ranges: [[four]] }, "berth0", [4]],
  [{ type: "berth", bridge: "pods0", ranges: [[four], [six]] }, "pods0", [4, 6]],
  [{ type: "bridge", ipam: { type: "host-local", ...four } }, "cni0", [4]],
  [{ type: "bridge", bridge: "br1", ipam: { type: "host-local", ranges: [[six]] } }, "br1", [6]],
  [{ type: "flannel", delegate: { isDefaultGateway: true } }, "cni0", [4, 6]],
  [{ type: "flannel", delegate: { type: "ptp" } }, undefined, []],
  [{ type: "calico" }, undefined, []],
])("the bridge of the pods: %j", async (plugin, name, families) => {
  await writeFile(join(folder, "10-pods.conflist"), JSON.stringify({ name: "pods", plugins: [plugin] }));
  const { bridges } = await readCniFacts(createFiles("/"), { confDir: folder, binDirs: [] });
  expect(bridges).toEqual(name === undefined ? [] : [{ name, families: families as (4 | 6)[] }]);
});

const facts = {
  confDir: "/c",
  binDirs: ["/b", "/d"],
  file: "/c/10.conflist",
  plugins: [],
  missingPlugins: [],
  notExecutable: [],
  bridges: [],
};
const problems = [
  ["no file", { ...facts, file: undefined }, "/c has no network configuration"],
  ["a broken file", { ...facts, problem: "/c/10.conflist: it is not JSON" }, "/c/10.conflist: it is not JSON"],
  [
    "one missing program",
    { ...facts, missingPlugins: ["bridge"] },
    "/c/10.conflist needs bridge, and it is not in /b and /d",
  ],
  [
    "two missing programs",
    { ...facts, missingPlugins: ["bridge", "portmap"] },
    "/c/10.conflist needs bridge and portmap, and they are not in /b and /d",
  ],
  [
    "a program without the permission",
    { ...facts, notExecutable: ["/b/bridge"] },
    "/c/10.conflist needs /b/bridge, and it is not executable",
  ],
  [
    "one missing program and one without the permission",
    { ...facts, missingPlugins: ["portmap"], notExecutable: ["/b/bridge"] },
    "/c/10.conflist needs portmap, and it is not in /b and /d; /b/bridge, and it is not executable",
  ],
  ["nothing that is wrong", facts, undefined],
] as const;
for (const [what, given, expected] of problems)
  test(`the problem of ${what} is: ${expected ?? "none"}`, () => {
    expect(cniProblemOf(given)).toBe(expected);
  });
