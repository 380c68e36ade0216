import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { until } from "../bed/poll-until.ts";
import { type Holders, holding, watchHolders } from "./open-file-watch.ts";

let folder: string;
let holders: Holders;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-holders-"));
  holders = watchHolders(folder);
});

afterEach(async () => {
  holders.stop();
  await rm(folder, { recursive: true });
});

/** A shell with a child, both of which hold the file. */
async function live(owner: string) {
  const before = holders.begun().get(owner) ?? 0;
  const life = execa("sh", ["-c", `${holding(folder, owner)}; sleep 1000 & wait`], { detached: true, reject: false });
  await until("it to begin", 5000, () => (holders.begun().get(owner) ?? 0) > before);
  return {
    /** By a signal that tells the process nothing. */
    async kill() {
      process.kill(-life.pid!, "SIGKILL");
      await life;
    },
  };
}

test("two lives of one owner, one after the other, are no two at once, although the first was killed", async () => {
  await (await live("web main")).kill();
  const second = await live("web main");
  expect(holders.now()).toEqual(new Map([["web main", 1]]));
  await second.kill();
  expect(holders.begun()).toEqual(new Map([["web main", 2]]));
  expect(holders.now()).toEqual(new Map());
  expect(holders.twice()).toEqual([]);
});

test("a life that begins while another one of its owner lives is seen afterwards, however short it was", async () => {
  const first = await live("web main");
  const other = await live("web side");
  await execa("sh", ["-c", holding(folder, "web main")]);
  await Promise.all([first.kill(), other.kill()]);
  expect(holders.twice()).toEqual([expect.stringMatching(/^web main began as .* while it lived as web main\+.*$/)]);
});

test("of a folder that is not there nothing can be told", () => {
  expect(() => watchHolders(join(folder, "absent"))).toThrow("absent cannot be watched");
});
