import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFiles } from "../../host/fs/files.ts";
import { formatDelegateList } from "./delegate-conf.ts";
import { findRuntimeFolderProblem } from "./runtime-folder.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-folder-"));
  for (const name of ["delegate.d", "net.d"]) await mkdir(join(folder, name));
  await symlink("delegate.d", join(folder, "link.d"));
});
afterEach(() => rm(folder, { recursive: true }));

const paths = { socket: "/r/cni.sock", confDir: "/etc/cni/net.d", binDirs: ["/opt/cni/bin"], cacheDir: "/var/lib/cni" };
const delegate = formatDelegateList({ ...paths, timeoutMs: 1_000 });
const chain = JSON.stringify({ cniVersion: "1.0.0", name: "pods", plugins: [{ type: "bridge" }] });
const installed = { "delegate.d/10-berth.conflist": delegate };

const reads = (confDir: string) =>
  `the container runtime reads its networks from DIR/${confDir}, but the list of berth-cni is in DIR/delegate.d: set conf_dir = "DIR/delegate.d" in its configuration and restart it`;
const earlier = (file: string) =>
  `the container runtime uses DIR/delegate.d/${file}, which comes before the list of berth-cni: remove that file`;

test.each<[string, string, Readonly<Record<string, string>>, string | undefined]>([
  ["the folder of the delegate", "delegate.d", installed, undefined],
  ["the same folder with a slash at its end", "delegate.d/", installed, undefined],
  ["a link to it", "link.d", installed, undefined],
  ["a later file beside it", "delegate.d", { ...installed, "delegate.d/20-pods.conflist": chain }, undefined],
  ["another folder", "net.d", { ...installed, "net.d/10-pods.conflist": chain }, reads("net.d")],
  ["another folder with a copy of the list", "net.d", { ...installed, "net.d/10-berth.conflist": delegate }, reads("net.d")], // biome-ignore format: a table
  ["a folder that does not exist", "none", installed, reads("none")],
  ["an earlier file", "delegate.d", { ...installed, "delegate.d/05-pods.conflist": chain }, earlier("05-pods.conflist")], // biome-ignore format: a table
  ["an earlier file that is broken", "delegate.d", { ...installed, "delegate.d/05-pods.conf": "{" }, earlier("05-pods.conf")], // biome-ignore format: a table
  ["another folder, after the list was removed", "net.d", { "net.d/10-pods.conflist": chain }, undefined],
])("a runtime that reads %s", async (_, confDir, files, expected) => {
  for (const [path, text] of Object.entries(files)) await writeFile(join(folder, path), text);
  const problem = await findRuntimeFolderProblem(createFiles("/"), `${folder}/${confDir}`, join(folder, "delegate.d"));
  const line = problem && `${problem.found}: ${problem.cure}`;
  expect(line?.replaceAll(folder, "DIR")).toBe(expected);
});
