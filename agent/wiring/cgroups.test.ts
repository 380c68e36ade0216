import { expect, test } from "bun:test";
import { CriError } from "../../cri/error.ts";
import { CgroupDriver, RuntimeConfigResponse } from "../../proto/cri/gen/api.ts";
import { FakeCgroups } from "../../test/fakes/cgroups.ts";
import { FakeClock, settlePromises } from "../../test/fakes/clock.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import { createNodeAndPodCgroups } from "./cgroups.ts";

const reports = (cgroupDriver: CgroupDriver) => RuntimeConfigResponse.fromPartial({ linux: { cgroupDriver } });
const fails = (code: "UNAVAILABLE" | "UNIMPLEMENTED" | "UNKNOWN") => new CriError(code, "RuntimeConfig", "no");

/** The runtime answers with these, the last of them again and again. */
function createFixture(answers: readonly (RuntimeConfigResponse | CriError)[], configured: "cgroupfs" | "systemd") {
  const clock = new FakeClock();
  const log = new FakeLog();
  const left = [...answers];
  const made: FakeCgroups[] = [];
  const runtime = {
    async runtimeConfig() {
      const answer = left.length > 1 ? left.shift() : left[0];
      if (answer instanceof CriError) throw answer;
      return answer as RuntimeConfigResponse;
    },
  };
  const config = { cgroupDriver: configured, cgroupRoot: "" };
  const create = (driver: "cgroupfs" | "systemd") => {
    const cgroups = new FakeCgroups({ driver });
    made.push(cgroups);
    return cgroups;
  };
  const stop = new AbortController();
  const cgroups = createNodeAndPodCgroups({ config, runtime, create, clock, log }, stop.signal);
  return { clock, log, cgroups, made };
}

type Row = readonly [
  sentence: string,
  answers: readonly (RuntimeConfigResponse | CriError)[],
  configured: "cgroupfs" | "systemd",
];

test("the driver is the runtime's, and the configured one where the runtime does not say it", async () => {
  const rows: readonly Row[] = [
    ["the runtime says the same", [reports(CgroupDriver.SYSTEMD)], "systemd"],
    ["the runtime says another one", [reports(CgroupDriver.SYSTEMD)], "cgroupfs"],
    ["the other way round", [reports(CgroupDriver.CGROUPFS)], "systemd"],
    ["containerd before 2.0", [fails("UNIMPLEMENTED")], "systemd"],
    ["it refuses to answer", [fails("UNKNOWN")], "systemd"],
    ["it is away at first", [fails("UNAVAILABLE"), fails("UNAVAILABLE"), reports(CgroupDriver.SYSTEMD)], "cgroupfs"],
  ];
  const lines: string[] = [];
  for (const [sentence, answers, configured] of rows) {
    const { clock, log, cgroups } = createFixture(answers, configured);
    const listed = cgroups.pods.children([]);
    await clock.advance(10_000);
    await listed;
    const logged = log.takeLines().map((line) => `\n    ${line}`);
    lines.push(`${sentence}: ${cgroups.pods.criParent(["kubepods", "pod1-2"])}${logged.join("")}`);
  }
  expect(`\n${lines.join("\n")}\n`).toMatchInlineSnapshot(`
    "
    the runtime says the same: kubepods-pod1_2.slice
    the runtime says another one: kubepods-pod1_2.slice
        info: the container runtime uses the cgroup driver systemd, which replaces cgroupfs of the configuration
    the other way round: /kubepods/pod1-2
        info: the container runtime uses the cgroup driver cgroupfs, which replaces systemd of the configuration
    containerd before 2.0: kubepods-pod1_2.slice
    it refuses to answer: kubepods-pod1_2.slice
        warn: the container runtime does not say its cgroup driver; systemd is assumed
    it is away at first: kubepods-pod1_2.slice
        info: the container runtime uses the cgroup driver systemd, which replaces cgroupfs of the configuration
    "
  `);
});

test("no cgroup is touched before the runtime has answered", async () => {
  const { clock, cgroups, made } = createFixture([fails("UNAVAILABLE")], "cgroupfs");
  let isMade = false;
  void cgroups.pods.make(["kubepods"], {}).then(() => {
    isMade = true;
  });
  await clock.advance(600_000);
  expect(made).toEqual([]);
  expect(isMade).toBe(false);
  expect(() => cgroups.pods.criParent(["kubepods"])).toThrow("before its cgroup was made");
});

test("writes to the cgroups of the node happen in the order of the calls, and a reserved cgroup is never made", async () => {
  const { cgroups, made } = createFixture([reports(CgroupDriver.SYSTEMD)], "systemd");
  const { node } = cgroups;
  const { signal } = new AbortController();
  await Promise.all([
    node.write({ of: "own", name: ["kubepods"] }, { cpuWeight: 10 }, signal),
    node.write({ of: "own", name: ["kubepods"] }, { cpuWeight: 20 }, signal),
  ]);
  const [own, all] = made;
  expect(own?.limitsOf(["kubepods"])).toMatchObject({ cpuWeight: 20 });
  const system = { of: "reserved", owner: "system", path: "/system.slice" } as const;
  await expect(node.write(system, { cpuWeight: 30 }, signal)).rejects.toMatchObject({
    name: "CgroupError",
    code: "ENOENT",
  });
  await settlePromises();
  all?.add(["system"]);
  await node.write(system, { cpuWeight: 30 }, signal);
  expect(await node.read(system)).toMatchObject({ cpuWeight: 30 });
  expect(own?.names).toEqual(["kubepods"]);
});

test("a reserved cgroup gets no memory limit below what it uses: the kernel would kill its daemons", async () => {
  const { cgroups, made } = createFixture([reports(CgroupDriver.CGROUPFS)], "cgroupfs");
  await settlePromises();
  const system = ["system.slice"];
  made[1]?.add(system);
  made[1]?.useMemory(system, 2 ** 30);
  const write = cgroups.node.write(
    { of: "reserved", owner: "system", path: "/system.slice" },
    { cpuWeight: 30, memoryMax: 2 ** 29 },
    new AbortController().signal,
  );
  await expect(write).rejects.toMatchObject({ name: "CgroupError", code: "EINUSE" });
  expect(made[1]?.limitsOf(system)).toMatchObject({ cpuWeight: 30, memoryMax: "max" });
});

test("the cgroup above all pods has the name that the runtime's driver gives it", async () => {
  const rows = [
    [CgroupDriver.SYSTEMD, "/kubepods.slice"],
    [CgroupDriver.CGROUPFS, "/kubepods"],
  ] as const;
  for (const [driver, path] of rows)
    expect(await createFixture([reports(driver)], "cgroupfs").cgroups.podsPath()).toBe(path);
});
