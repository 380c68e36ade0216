import { expect, test } from "bun:test";
import { execa } from "execa";
import { pollUntil } from "../../bed/poll-until.ts";
import { statUsageOf } from "../process-usage.ts";
import { watchForeignCpu } from "./watch-foreign-cpu.ts";

/** Starts a process that uses a CPU and whose parent ends at once, as that of a shim does. Returns its pid. */
async function startOrphan(program: "dash" | "sh"): Promise<number> {
  const { stdout } = await execa("sh", ["-c", `${program} -c 'while :; do :; done' >/dev/null 2>&1 & echo $!`]);
  return Number(stdout);
}

/** Waits until a process has used so much of a CPU. */
async function waitForCpu(pid: number, ms: number): Promise<void> {
  await pollUntil(`${ms} ms of CPU`, 30_000, async () => (await statUsageOf(pid)).ownCpuMs >= ms);
}

test("what was there before the benchmark is foreign, and what the benchmark starts is its own, even when its parent has ended", async () => {
  const before = await startOrphan("dash");
  const watch = await watchForeignCpu();
  const later = await startOrphan("sh");
  try {
    await Promise.all([waitForCpu(before, 1_000), waitForCpu(later, 1_000)]);
    const names = (await watch.take()).most.map(({ name }) => name);
    expect(names).toContain("dash");
    expect(names).not.toContain("sh");
  } finally {
    for (const pid of [before, later]) process.kill(pid, "SIGKILL");
    watch.stop();
  }
});
