import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFiles } from "../../../host/fs/files.ts";
import { loadConfig } from "../load.ts";
import { findDropIns } from "./drop-ins.ts";

const files = createFiles("/");
const dropIn = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
let folder = "";

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "drop-ins-"));
});
afterAll(() => rm(folder, { recursive: true }));

async function put(path: string, text = dropIn): Promise<string> {
  await mkdir(join(folder, path, ".."), { recursive: true });
  await writeFile(join(folder, path), text);
  return join(folder, path);
}

function loadFrom(...argv: readonly string[]) {
  return loadConfig({ argv, files, workingDirectory: folder, hostname: "node" });
}

test("findDropIns walks the directory in lexical order and keeps .conf files only", async () => {
  for (const name of ["walk/20.conf", "walk/10/b.conf", "walk/10/a.conf", "walk/9.conf", "walk/README", "walk/30.yaml"])
    await put(name);
  const { files: found, skipped, problems } = await findDropIns(join(folder, "walk"), files);
  const below = (path: string) => path.slice(folder.length + 6);
  expect(found.map(below)).toEqual(["10/a.conf", "10/b.conf", "20.conf", "9.conf"]);
  expect(skipped.map(below)).toEqual(["30.yaml", "README"]);
  expect(problems).toEqual([]);
});

test("a symlink to a file is read, a symlink to a directory is not followed", async () => {
  await put("target/x.conf", `${dropIn}maxPods: 7\n`);
  await mkdir(join(folder, "links"));
  await symlink("../target/x.conf", join(folder, "links/1.conf"));
  await symlink("../target", join(folder, "links/2"));
  await symlink("..", join(folder, "links/up"));
  const loaded = await loadFrom("--config-dir", "links");
  expect(loaded).toMatchObject({ kind: "config", kubelet: { maxPods: 7 } });
  expect(loaded.kind === "config" && loaded.skippedFiles.length).toBe(2);
});

describe("is rejected in one line that names the file, without blocking:", () => {
  test("a FIFO", async () => {
    await mkdir(join(folder, "fifo"));
    Bun.spawnSync(["mkfifo", join(folder, "fifo/1.conf")]);
    expect(await problemOf("--config-dir", "fifo")).toBe(
      `${folder}/fifo/1.conf: cannot be read: it is a fifo, not a regular file`,
    );
  });

  test("a symlink loop", async () => {
    await mkdir(join(folder, "loop"));
    await symlink("1.conf", join(folder, "loop/1.conf"));
    expect(await problemOf("--config-dir", "loop")).toMatch(/loop\/1\.conf: cannot be read: it is a loop of symlinks$/);
  });

  test("a file of 2 MiB", async () => {
    await put("huge/1.conf", `${dropIn}#${"x".repeat(2 * 1024 * 1024)}`);
    expect(await problemOf("--config-dir", "huge")).toMatch(
      /huge\/1\.conf: cannot be read: .* larger than 1048576 bytes/,
    );
  });

  test("a file with invalid UTF-8", async () => {
    await mkdir(join(folder, "latin"));
    await writeFile(join(folder, "latin/1.conf"), Buffer.from([0x61, 0x3a, 0xff, 0xfe]));
    expect(await problemOf("--config-dir", "latin")).toContain("latin/1.conf: cannot be read: ");
  });

  test("a missing directory", async () => {
    expect(await problemOf("--config-dir", "none")).toBe(`${folder}/none: no such directory`);
  });

  test("a missing file", async () => {
    expect(await problemOf("--config", "none.yaml")).toMatch(/none\.yaml: cannot be read: it does not exist$/);
  });

  test("a directory as the configuration file", async () => {
    expect(await problemOf("--config", ".")).toMatch(/cannot be read: .* is a directory, not a regular file/);
  });

  test("an empty drop-in", async () => {
    await put("empty/1.conf", "");
    expect(await problemOf("--config-dir", "empty")).toBe(
      `${folder}/empty/1.conf: is empty, must begin with apiVersion and kind`,
    );
  });

  test("a drop-in without apiVersion and kind, even when the file has them", async () => {
    const file = await put("untyped.yaml");
    await put("untyped/1.conf", "kind: KubeletConfiguration\nmaxPods: 3\n");
    expect(await problemOf("--config", file, "--config-dir", "untyped")).toBe(
      `${folder}/untyped/1.conf: apiVersion: missing, must be "kubelet.config.k8s.io/v1beta1"`,
    );
  });

  test("a drop-in of another kind", async () => {
    await put("other/1.conf", "apiVersion: v1\nkind: KubeletConfiguration\n");
    await put("other/2.conf");
    expect(await problemOf("--config-dir", "other")).toBe(
      `${folder}/other/1.conf:1: apiVersion: found "v1", must be "kubelet.config.k8s.io/v1beta1"`,
    );
  });
});

async function problemOf(...argv: readonly string[]): Promise<string> {
  try {
    await loadFrom(...argv);
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error("it was accepted");
}
