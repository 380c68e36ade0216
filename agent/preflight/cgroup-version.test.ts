import { expect, test } from "bun:test";
import { FakeLog } from "../../test/fakes/log.ts";
import { checkCgroups } from "./cgroup-version.ts";

const wish = (cgroupsPerQOS: boolean, failCgroupV1: boolean, singleProcessOOMKill?: boolean, podPidsLimit = -1) => ({
  cgroupsPerQOS,
  failCgroupV1,
  singleProcessOOMKill,
  podPidsLimit,
});
const boot = "boot with systemd.unified_cgroup_hierarchy=1, or set";

const rows: readonly [sentence: string, asked: ReturnType<typeof wish>, says: string][] = [
  [
    "both, together",
    wish(true, true),
    `/sys/fs/cgroup is not cgroup v2, and cgroupsPerQOS and failCgroupV1 are true: ${boot} cgroupsPerQOS: false, enforceNodeAllocatable: [] and failCgroupV1: false`,
  ],
  [
    "cgroups of its own alone",
    wish(true, false),
    `/sys/fs/cgroup is not cgroup v2, and cgroupsPerQOS is true: ${boot} cgroupsPerQOS: false and enforceNodeAllocatable: []`,
  ],
  [
    "no cgroup v1 alone",
    wish(false, true),
    `/sys/fs/cgroup is not cgroup v2, and failCgroupV1 is true: ${boot} failCgroupV1: false`,
  ],
  [
    "no process spared alone",
    wish(false, false, false),
    `/sys/fs/cgroup is not cgroup v2, and singleProcessOOMKill is false: ${boot} singleProcessOOMKill: true`,
  ],
  [
    "all of it",
    wish(true, true, false),
    `/sys/fs/cgroup is not cgroup v2, and cgroupsPerQOS and failCgroupV1 are true, and singleProcessOOMKill is false: ${boot} cgroupsPerQOS: false, enforceNodeAllocatable: [], failCgroupV1: false and singleProcessOOMKill: true`,
  ],
];
for (const [sentence, asked, says] of rows)
  test(`a machine of cgroup v1 is refused where the configuration asks for more: ${sentence}`, () => {
    const log = new FakeLog();
    const check = () => checkCgroups(asked, { hasCgroupV2: false }, log);
    expect(check).toThrow(expect.objectContaining({ name: "StartError", message: says }));
    expect(log.told()).toEqual([]);
  });

test("a machine of cgroup v1 that the configuration has nothing against is told what it does without", () => {
  const log = new FakeLog();
  checkCgroups(wish(false, false, true), { hasCgroupV2: false }, log);
  expect(log.told()).toEqual([
    "warn: this machine has cgroup v1: containers get their limits from the runtime, and pods have no cgroups of their own",
  ]);
  checkCgroups(wish(false, false, undefined, 100), { hasCgroupV2: false }, log);
  expect(log.told()).toEqual([expect.stringMatching(/ cgroups of their own, and podPidsLimit \(100\) holds nobody$/)]);
});

test("a machine of cgroup v2 is asked nothing more", () => {
  const log = new FakeLog();
  checkCgroups(wish(true, true, false, 100), { hasCgroupV2: true }, log);
  expect(log.told()).toEqual([]);
});
