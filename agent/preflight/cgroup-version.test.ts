import { expect, test } from "bun:test";
import { FakeLog } from "../../test/fakes/log.ts";
import { checkCgroups } from "./cgroup-version.ts";

const settings = (
  cgroupsPerQOS: boolean,
  failCgroupV1: boolean,
  singleProcessOOMKill?: boolean,
  podPidsLimit = -1,
) => ({
  cgroupsPerQOS,
  failCgroupV1,
  singleProcessOOMKill,
  podPidsLimit,
});
const boot = "boot with systemd.unified_cgroup_hierarchy=1, or set";

const rows: readonly [sentence: string, config: ReturnType<typeof settings>, message: string][] = [
  [
    "cgroupsPerQOS and failCgroupV1",
    settings(true, true),
    `/sys/fs/cgroup is not cgroup v2, and cgroupsPerQOS and failCgroupV1 are true: ${boot} cgroupsPerQOS: false, enforceNodeAllocatable: [] and failCgroupV1: false`,
  ],
  [
    "cgroupsPerQOS only",
    settings(true, false),
    `/sys/fs/cgroup is not cgroup v2, and cgroupsPerQOS is true: ${boot} cgroupsPerQOS: false and enforceNodeAllocatable: []`,
  ],
  [
    "failCgroupV1 only",
    settings(false, true),
    `/sys/fs/cgroup is not cgroup v2, and failCgroupV1 is true: ${boot} failCgroupV1: false`,
  ],
  [
    "singleProcessOOMKill: false only",
    settings(false, false, false),
    `/sys/fs/cgroup is not cgroup v2, and singleProcessOOMKill is false: ${boot} singleProcessOOMKill: true`,
  ],
  [
    "all three settings",
    settings(true, true, false),
    `/sys/fs/cgroup is not cgroup v2, and cgroupsPerQOS and failCgroupV1 are true, and singleProcessOOMKill is false: ${boot} cgroupsPerQOS: false, enforceNodeAllocatable: [], failCgroupV1: false and singleProcessOOMKill: true`,
  ],
];
for (const [sentence, config, message] of rows)
  test(`a machine with cgroup v1 is refused if the configuration needs cgroup v2: ${sentence}`, () => {
    const log = new FakeLog();
    const check = () => checkCgroups(config, { hasCgroupV2: false }, log);
    expect(check).toThrow(expect.objectContaining({ name: "StartError", message }));
    expect(log.takeLines()).toEqual([]);
  });

test("a machine with cgroup v1 that the configuration allows gets a warning about what is missing", () => {
  const log = new FakeLog();
  checkCgroups(settings(false, false, true), { hasCgroupV2: false }, log);
  expect(log.takeLines()).toEqual([
    "warn: this machine has cgroup v1: containers get their limits from the runtime, and pods have no cgroups of their own",
  ]);
  checkCgroups(settings(false, false, undefined, 100), { hasCgroupV2: false }, log);
  expect(log.takeLines()).toEqual([
    expect.stringMatching(/ cgroups of their own, and podPidsLimit \(100\) has no effect$/),
  ]);
});

test("a machine with cgroup v2 passes without further checks", () => {
  const log = new FakeLog();
  checkCgroups(settings(true, true, false, 100), { hasCgroupV2: true }, log);
  expect(log.takeLines()).toEqual([]);
});
