import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ImitatedCgroupV2, imitateCgroupV2 } from "../test/fakes/cgroup-v2.ts";
import { type CgroupEvents, readCgroupEvents, watchCgroupEvents } from "./events.ts";

let root: string;
let folder: string;
let tree: ImitatedCgroupV2;

beforeEach(async () => {
  root = await realpath(await mkdtemp(join(tmpdir(), "berth-events-")));
  tree = imitateCgroupV2(root);
  folder = `${root}/pod`;
  await tree.files.write(`${root}/cgroup.subtree_control`, "+memory");
  await tree.files.makeFolder(folder);
});
afterEach(() => rm(root, { recursive: true }));

/** The reports of a watch, and a function that waits for one that a condition holds for. */
function watch(signal: AbortSignal) {
  const reports: (CgroupEvents | undefined)[] = [];
  let wake = () => {};
  watchCgroupEvents(
    tree.files,
    folder,
    (events) => {
      reports.push(events);
      wake();
    },
    signal,
  );
  const last = async (holds: (events: CgroupEvents | undefined) => boolean) => {
    while (!holds(reports.at(-1)))
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
  };
  return { reports, last };
}

test("the first report comes at once, the others with the kernel's notifications, without polling", async () => {
  const { reports, last } = watch(new AbortController().signal);
  expect(reports).toEqual([{ isPopulated: false, maxEvents: 0, oomKills: 0 }]);
  tree.addProcess(folder, 1);
  await last((events) => events?.isPopulated === true);
  await writeFile(`${folder}/memory.events`, "low 0\nhigh 0\nmax 3\noom 1\noom_kill 1\n");
  await last((events) => events?.oomKills === 1);
  expect(reports.at(-1)).toEqual({ isPopulated: true, maxEvents: 3, oomKills: 1 });
});

test("the removal of the cgroup is reported once, and ends the watch", async () => {
  const { reports, last } = watch(new AbortController().signal);
  await tree.files.removeFolder(folder);
  await last((events) => events === undefined);
  expect(reports.filter((events) => events === undefined)).toHaveLength(1);
});

test("a signal ends the watch; a cgroup that is absent is reported as such", async () => {
  const stop = new AbortController();
  const { reports } = watch(stop.signal);
  stop.abort();
  const before = reports.length;
  tree.addProcess(folder, 1);
  const other = watch(new AbortController().signal);
  await other.last((events) => events?.isPopulated === true);
  expect(reports).toHaveLength(before);
  folder = `${root}/none`;
  expect(watch(new AbortController().signal).reports).toEqual([undefined]);
  expect(readCgroupEvents(tree.files, folder)).toBeUndefined();
});

test("without the memory controller only the processes are reported", async () => {
  await tree.files.write(`${root}/cgroup.subtree_control`, "-memory");
  expect(watch(new AbortController().signal).reports).toEqual([{ isPopulated: false, maxEvents: 0, oomKills: 0 }]);
});
