import { expect, test } from "bun:test";
import { mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { pollUntil } from "../../bed/poll-until.ts";
import { statUsageOf } from "../process-usage.ts";
import { procTable } from "./process-table.ts";
import { watchForeignCpu } from "./watch-foreign-cpu.ts";

/** Starts a process that uses a CPU and whose parent ends at once, as that of a shim does. Returns its pid. */
async function startOrphan(program: string): Promise<number> {
  const { stdout } = await execa("sh", ["-c", `"$0" -c 'while :; do :; done' >/dev/null 2>&1 & echo $!`, program]);
  return Number(stdout);
}

/** Waits until a process has used 0.3 s more of a CPU. */
async function waitForCpu(pid: number): Promise<void> {
  const { ownCpuMs } = await statUsageOf(pid);
  await pollUntil("CPU time", 60_000, async () => (await statUsageOf(pid)).ownCpuMs >= ownCpuMs + 300);
}

test("a process from before the benchmark is foreign, and what the benchmark starts is its own, even when its parent has ended", async () => {
  // The kernel names a process after the link.
  const folder = await mkdtemp(join(tmpdir(), "foreign-"));
  const names = ["earlier-shell", "later-shell"] as const;
  const [earlier, later] = names.map((name) => join(folder, name));
  for (const path of [earlier, later]) await symlink("/bin/sh", path ?? "");
  const running = [await startOrphan(earlier ?? "")];
  const watch = await watchForeignCpu();
  try {
    running.push(await startOrphan(later ?? ""));
    await Promise.all(running.map(waitForCpu));
    const samples = await watch.take();
    const [ofEarlier, ofLater] = names.map((name) =>
      samples?.reduce((sum, { foreign }) => sum + (foreign[name] ?? 0), 0),
    );
    expect(ofEarlier).toBeGreaterThanOrEqual(300);
    expect(ofLater).toBe(0);
  } finally {
    for (const pid of running) process.kill(pid, "SIGKILL");
    watch.stop();
    await rm(folder, { recursive: true });
  }
}, 120_000);

test("a watch that has ended has no samples, neither for the call under way nor for later ones", async () => {
  const childrenOf = (parent: number) => procTable.pids().filter((pid) => procTable.stat(pid)?.parent === parent);
  const before = childrenOf(process.pid);
  const watch = await watchForeignCpu();
  const [watcher = Number.NaN] = childrenOf(process.pid).filter((pid) => !before.includes(pid));
  process.kill(watcher, "SIGSTOP");
  const underWay = watch.take();
  process.kill(watcher, "SIGKILL");
  expect(await underWay).toBeUndefined();
  expect(await watch.take()).toBeUndefined();
  watch.stop();
}, 120_000);
