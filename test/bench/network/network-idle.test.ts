import { expect, test } from "bun:test";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { pollUntil } from "../../bed/poll-until.ts";
import { measureIdleAgents } from "./network-idle.ts";

test("a process that waits shows nothing, and one that starts others shows", async () => {
  const processes = { still: spawn("cat"), busy: spawn("sh", ["-c", "echo; while true; do sleep 0.01; done"]) };
  try {
    const haveStarted = Object.values(processes).map(({ stdout }) => once(stdout, "data"));
    processes.still.stdin.write("\n");
    await Promise.all(haveStarted);
    const pids = { still: processes.still.pid ?? 0, busy: processes.busy.pid ?? 0 };
    // After its output the first process waits again within this window.
    await measureIdleAgents(pids, 100);
    // Beside other tests the shell may get no processor for half a second.
    const { still, busy } = await pollUntil("the second process to start another", 10_000, async () => {
      const measured = await measureIdleAgents(pids, 500);
      return measured.busy.startedProcesses > 0 && measured;
    });
    expect(still).toMatchObject({ startedProcesses: 0, wakeUps: 0 });
    expect(busy.wakeUps).toBeGreaterThan(0);
  } finally {
    for (const one of Object.values(processes)) one.kill("SIGKILL");
  }
});
