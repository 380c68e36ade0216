import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { prepareManifests } from "./manifests.ts";

let root = "";
let folder = "";
let examples = "";

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "berth-manifests-"));
  folder = join(root, "state", "manifests");
  examples = join(root, "examples");
  await mkdir(examples);
  await writeFile(join(examples, "crash.yaml"), "crash");
  await writeFile(join(examples, "web.yaml"), "web");
});

afterEach(() => rm(root, { recursive: true }));

const own = (name: string) => readFile(join(folder, name), "utf8");

test("an absent folder is filled with the examples", async () => {
  expect(await prepareManifests(folder, examples, false)).toEqual({
    names: ["crash.yaml", "web.yaml"],
    unchanged: new Set(["crash.yaml", "web.yaml"]),
    isKept: false,
  });
  expect(await own("web.yaml")).toBe("web");
});

test("an example gets the path of the state folder, and stays an unchanged example", async () => {
  await writeFile(join(examples, "page.yaml"), "path: STATE_FOLDER/page");
  const { unchanged } = await prepareManifests(folder, examples, false);
  expect(await own("page.yaml")).toBe(`path: ${join(root, "state")}/page`);
  expect(unchanged).toContain("page.yaml");
  expect((await prepareManifests(folder, examples, true)).before).toBeUndefined();
});

test("an existing folder keeps the user's edited, added and removed files", async () => {
  await prepareManifests(folder, examples, false);
  await writeFile(join(folder, "web.yaml"), "mine");
  await writeFile(join(folder, "web.yaml~"), "an editor's copy is read too");
  await writeFile(join(folder, ".web.yaml.swp"), "a hidden file is not");
  await rm(join(folder, "crash.yaml"));
  expect(await prepareManifests(folder, examples, false)).toEqual({
    names: ["web.yaml", "web.yaml~"],
    unchanged: new Set(),
    isKept: true,
  });
  expect(await own("web.yaml")).toBe("mine");
});

test("a folder that was emptied stays empty", async () => {
  await mkdir(folder, { recursive: true });
  expect(await prepareManifests(folder, examples, false)).toEqual({ names: [], unchanged: new Set(), isKept: true });
});

test("isFresh replaces the folder by the examples and puts the user's files aside", async () => {
  await prepareManifests(folder, examples, false);
  await writeFile(join(folder, "web.yaml"), "mine");
  await writeFile(join(folder, "more.yaml"), "more");
  const { names, isKept, before } = await prepareManifests(folder, examples, true);
  expect([names, isKept, before]).toEqual([["crash.yaml", "web.yaml"], false, `${folder}.before`]);
  expect(await own("web.yaml")).toBe("web");
  expect(await readFile(join(`${folder}.before`, "more.yaml"), "utf8")).toBe("more");
  await writeFile(join(folder, "web.yaml"), "mine again");
  expect((await prepareManifests(folder, examples, true)).before).toBe(`${folder}.before-2`);
  expect(await readFile(join(`${folder}.before`, "more.yaml"), "utf8")).toBe("more");
  // These are still equal to the examples, so nothing is put aside.
  expect((await prepareManifests(folder, examples, true)).before).toBeUndefined();
});
