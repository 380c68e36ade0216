import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClock } from "../host/clock.ts";
import { type ImitatedCgroupV2, imitateCgroupV2 } from "../test/fakes/cgroup-v2.ts";
import { readIsPopulated, watchIsPopulated } from "./events.ts";

let root: string;
let folder: string;
let tree: ImitatedCgroupV2;

beforeEach(async () => {
  root = await realpath(await mkdtemp(join(tmpdir(), "berth-events-")));
  tree = imitateCgroupV2(root);
  folder = `${root}/pod`;
  await tree.files.makeFolder(folder);
});
afterEach(() => rm(root, { recursive: true }));

/** The reports of a watch, and a function that waits for one. */
function watch(signal: AbortSignal) {
  const reports: (boolean | undefined)[] = [];
  let wake = () => {};
  watchIsPopulated(
    { files: tree.files, clock: createClock() },
    folder,
    (isPopulated) => {
      reports.push(isPopulated);
      wake();
    },
    signal,
  );
  const last = async (awaited: boolean | undefined) => {
    while (reports.at(-1) !== awaited)
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
  };
  return { reports, last };
}

test("the first report comes at once, the others after the kernel's notifications, without polling", async () => {
  const { reports, last } = watch(new AbortController().signal);
  expect(reports).toEqual([false]);
  tree.addProcess(folder, 1);
  await last(true);
  // At once after the first change, so that Bun does not report this one.
  tree.files.kill(1);
  await last(false);
});

test("the removal of the cgroup is reported once, and ends the watch", async () => {
  const { reports, last } = watch(new AbortController().signal);
  await tree.files.removeFolder(folder);
  await last(undefined);
  expect(reports.filter((isPopulated) => isPopulated === undefined)).toHaveLength(1);
});

test("a signal ends the watch; a cgroup that is absent is reported as such", async () => {
  const stop = new AbortController();
  const { reports } = watch(stop.signal);
  stop.abort();
  const before = reports.length;
  tree.addProcess(folder, 1);
  const other = watch(new AbortController().signal);
  await other.last(true);
  expect(reports).toHaveLength(before);
  folder = `${root}/none`;
  expect(watch(new AbortController().signal).reports).toEqual([undefined]);
  expect(readIsPopulated(tree.files, folder)).toBeUndefined();
});
