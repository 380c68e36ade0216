import { expect, test } from "bun:test";
import { cpus, release, totalmem } from "node:os";
import { describeConditions, describeThisMachine } from "./conditions.ts";
import { describeFloorEffort } from "./floor/floor-rounds.ts";

test("reads the machine's kernel, cores and memory", async () => {
  const machine = await describeThisMachine();
  expect(machine).toMatchObject({
    kernel: release(),
    cores: cpus().length,
    memoryGB: Math.round(totalmem() / 1e9),
  });
  expect([machine.system, machine.cpu]).not.toContain("");
});

test("describes the conditions in five sentences", () => {
  const conditions = {
    date: "2026-01-02 03:04",
    berth: "0.1.0 (abc)",
    containerd: "1.6.20",
    model: "Raspberry Pi 5",
    system: "Debian GNU/Linux 12",
    kernel: "6.6",
    cpu: "ARM Cortex-A76",
    cores: 4,
    memoryGB: 8,
    how: describeFloorEffort({
      singles: 100,
      batches: 4,
      idlePeriods: 5,
      idleMs: 60_000,
      lastIdleMs: 310_000,
      starts: 7,
    }),
    busyBefore: 0.0123,
    loadAfter: 1,
  };
  expect(describeConditions(conditions)).toEqual([
    "Measured 2026-01-02 03:04 UTC: berth 0.1.0 (abc), containerd 1.6.20, runc, bridge and portmap.",
    "Debian GNU/Linux 12, Linux 6.6, 4 cores of ARM Cortex-A76, 8 GB (Raspberry Pi 5).",
    "One pod 100 times, 100 pods 4 times, idle for 60 s after each of 4 starts of the agent, and for 310 s after another, without pods and with 100; floor and agent alternated who began. All pods are bare: without a service account token and without volumes.",
    "CPUs in use before: 1.2 %; load at the end: 1.00.",
    "What other processes used meanwhile was not measured.",
  ]);
  const foreignCpu = { processes: 0.01, steal: 0.002, busiestMinute: 0.04, most: [{ name: "sshd", share: 0.009 }] };
  expect(describeConditions({ ...conditions, foreignCpu }).at(-1)).toBe(
    "Meanwhile other processes used 1.0 % of all CPUs (sshd 0.9 %), other machines 0.2 % (steal); together 4.0 % in the busiest minute.",
  );
});
