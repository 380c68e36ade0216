import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFiles } from "../../host/fs/files.ts";
import type { Container, Pod } from "../../proto/kubernetes/gen/types.ts";
import { readEnvFiles } from "./env-files.ts";

const pod: Pod = {
  metadata: { name: "web", uid: "u-1" },
  spec: { containers: [], volumes: [{ name: "config", emptyDir: {} }] },
};
const containerOf = (...paths: readonly string[]): Container => ({
  name: "a",
  env: paths.map((path) => ({
    name: "V",
    valueFrom: { fileKeyRef: { volumeName: "config", path, key: "A" } },
  })),
});

let folder: string;
let volume: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-env-files-"));
  volume = join(folder, "pods/u-1/volumes/kubernetes.io~empty-dir/config");
  await mkdir(join(volume, "v2"), { recursive: true });
  await writeFile(join(volume, "v2/app.env"), Buffer.from("A='f\xfcr'", "latin1"));
  await symlink("v2", join(volume, "now"));
  await writeFile(join(folder, "secret.env"), "A='of the node'");
  await symlink(join(folder, "secret.env"), join(volume, "absolute"));
  await symlink("../../../../../secret.env", join(volume, "upwards"));
  await symlink("/etc", join(volume, "system"));
  await writeFile(join(volume, "large"), "x".repeat(1024 * 1024 + 1));
  for (let n = 0; n < 7; n++) await writeFile(join(volume, `full-${n}`), `A='1'\n#${"x".repeat(1024 * 1024 - 8)}`);
});
afterAll(() => rm(folder, { recursive: true }));
const read = async (...paths: readonly string[]) => {
  const files = await readEnvFiles(createFiles(folder), pod, containerOf(...paths));
  return [...files].map(([key, file]) => [
    key,
    file === "absent" ? file : "unreadable" in file ? file.unreadable : Object.fromEntries(file.variables),
  ]);
};

test("a file is read through symlinks within its volume, whatever its bytes", async () => {
  expect(await read("now/app.env", "now/app.env")).toEqual([["config/now/app.env", { A: "f\udcfcr" }]]);
});

test("neither a container's symlink nor a path leads out of the volume to the node's files", async () => {
  for (const path of [
    "absolute",
    "upwards",
    "system/passwd",
    "../../../../../secret.env",
    "/etc/passwd",
    "v2/app.env/x",
  ])
    expect(await read(path)).toEqual([[`config/${path}`, "absent"]]);
});

test("a directory and a file that is too large are returned as unreadable", async () => {
  expect(await read("v2", "large")).toEqual([
    ["config/v2", `${volume}/v2 is a directory, not a regular file`],
    ["config/large", `${volume}/large is larger than 1048576 bytes`],
  ]);
});

test("the files of one container together are limited too", async () => {
  const files = await read(...Array.from({ length: 7 }, (_, n) => `full-${n}`));
  expect(files.slice(0, 6).map(([, file]) => file)).toEqual(Array.from({ length: 6 }, () => ({ A: "1" })));
  expect(files[6]?.[1]).toMatch(/full-6 is larger than \d+ bytes$/);
});
