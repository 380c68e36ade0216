import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { pollUntil } from "../bed/poll-until.ts";
import { holdOpenCommand, type OpenFileWatch, watchOpenFiles } from "./open-file-watch.ts";

let folder: string;
let openFileWatch: OpenFileWatch;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-holders-"));
  openFileWatch = watchOpenFiles(folder);
});

afterEach(async () => {
  openFileWatch.stop();
  await rm(folder, { recursive: true });
});

/** Starts a shell with a child process; both keep the file open. */
async function startInstance(owner: string) {
  const before = openFileWatch.startCounts().get(owner) ?? 0;
  const instance = execa("sh", ["-c", `${holdOpenCommand(folder, owner)}; sleep 1000 & wait`], {
    detached: true,
    reject: false,
  });
  await pollUntil("the shell to open its file", 5000, () => (openFileWatch.startCounts().get(owner) ?? 0) > before);
  return {
    /** With SIGKILL, so that the process cannot close the file itself. */
    async kill() {
      process.kill(-instance.pid!, "SIGKILL");
      await instance;
    },
  };
}

test("two instances of one owner, one after the other, are no duplicates, although the first was killed", async () => {
  await (await startInstance("web main")).kill();
  const second = await startInstance("web main");
  expect(openFileWatch.openCounts()).toEqual(new Map([["web main", 1]]));
  await second.kill();
  expect(openFileWatch.startCounts()).toEqual(new Map([["web main", 2]]));
  expect(openFileWatch.openCounts()).toEqual(new Map());
  expect(openFileWatch.overlaps()).toEqual([]);
});

test("an instance that starts while another one of its owner runs is reported afterwards, however short it was", async () => {
  const first = await startInstance("web main");
  const other = await startInstance("web side");
  await execa("sh", ["-c", holdOpenCommand(folder, "web main")]);
  await Promise.all([first.kill(), other.kill()]);
  expect(openFileWatch.overlaps()).toEqual([
    expect.stringMatching(/^web main started as .* while web main\+.* was running$/),
  ]);
});

test("watching a missing folder throws", () => {
  expect(() => watchOpenFiles(join(folder, "absent"))).toThrow("absent cannot be watched");
});
