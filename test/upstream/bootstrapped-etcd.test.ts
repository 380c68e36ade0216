import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdir, mkdtemp, readdir, rm, stat, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  bootstrappedEtcdFolder,
  copyBootstrappedEtcd,
  removeOnFailure,
  storeBootstrappedEtcd,
} from "./bootstrapped-etcd.ts";

let root = "";
const path = (...names: readonly string[]) => join(root, ...names);
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "berth-bootstrapped-etcd-test-"));
});
afterAll(() => rm(root, { recursive: true }));

test("other programs and other flags have another etcd to copy", async () => {
  await mkdir(path("programs"));
  for (const program of ["etcd", "kube-apiserver"]) await writeFile(path("programs", program), "1");
  const folder = (flags?: readonly string[]) => bootstrappedEtcdFolder(path("programs"), flags, path("cache"));
  const first = await folder();
  expect(first).toStartWith(path("cache", "upstream", "etcd-data/"));
  expect(await folder()).toBe(first);
  expect(await folder(["--service-cluster-ip-range=10.0.0.0/24"])).not.toBe(first);
  for (const program of ["etcd", "kube-apiserver"]) {
    const before = await folder();
    await writeFile(path("programs", program), "12");
    expect(await folder()).not.toBe(before);
  }
});

test("copies what was stored, and holes remain holes", async () => {
  await mkdir(path("data", "wal"), { recursive: true });
  await writeFile(path("data", "wal", "0.wal"), "entries");
  await truncate(path("data", "wal", "0.wal"), 64_000_000);
  expect(await copyBootstrappedEtcd(path("stored"), path("copy"))).toBe(false);
  expect(await readdir(root)).not.toContain("copy");
  await storeBootstrappedEtcd(path("data"), path("stored"));
  expect(await copyBootstrappedEtcd(path("stored"), path("copy"))).toBe(true);
  const { size, blocks } = await stat(path("copy", "wal", "0.wal"));
  expect(size).toBe(64_000_000);
  expect(blocks * 512).toBeLessThan(1_000_000);
  expect(
    await Bun.file(path("copy", "wal", "0.wal"))
      .slice(0, 7)
      .text(),
  ).toBe("entries");
});

test("data that servers cannot start with is no longer stored", async () => {
  await mkdir(path("damaged"));
  await writeFile(path("damaged", "db"), "objects");
  expect(await removeOnFailure(path("damaged"), async () => "ready")).toBe("ready");
  expect(await readdir(path("damaged"))).toEqual(["db"]);
  const attempt = removeOnFailure(path("damaged"), () => Promise.reject(new Error("etcd is not ready")));
  expect(await attempt.catch(String)).toBe("Error: etcd is not ready");
  expect(await readdir(root)).not.toContain("damaged");
});

test("concurrent stores of the same data keep one copy, and leave nothing else", async () => {
  await mkdir(path("twice"));
  await writeFile(path("twice", "db"), "objects");
  const target = path("both", "stored");
  await Promise.all([1, 2, 3].map(() => storeBootstrappedEtcd(path("twice"), target)));
  expect(await readdir(path("both"))).toEqual(["stored"]);
  expect(await readdir(target)).toEqual(["db"]);
});
