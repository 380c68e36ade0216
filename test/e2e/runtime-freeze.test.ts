import { afterAll, beforeAll, expect, test } from "bun:test";
import type { AgentStatus } from "../../agent/serve/local/agent-status.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { podOf } from "./manifest.ts";
import { startNode, type TestNode } from "./node.ts";

let node: TestNode;
beforeAll(async () => {
  node = await startNode({ configuration: { nodeStatusUpdateFrequency: "1s" } });
}, 600_000);
afterAll(async () => {
  process.kill(node.containerd.pid, "SIGCONT");
  await node.tearDown();
}, 600_000);

async function runtimeState(): Promise<AgentStatus["runtime"]> {
  const answer = await fetch("http://berth/status", { unix: `${node.paths.agentRoot}/berth.sock` });
  return ((await answer.json()) as AgentStatus).runtime;
}

test("a frozen runtime is shown as not ready, and a pod that arrives meanwhile is listed and starts afterwards", async () => {
  await pollUntil("the runtime to be ready", 10_000, async () => (await runtimeState()).state === "ready");
  process.kill(node.containerd.pid, "SIGSTOP");
  await node.putManifest(podOf("late"));
  const late = await node.waitForPod("late", "it is listed", () => true, 5_000);
  expect([late.phase, late.message]).toEqual([
    "Pending",
    "the pod's containers cannot be observed yet: the container runtime has not answered yet",
  ]);
  const frozen = await pollUntil("the runtime to be not ready", 20_000, async () => {
    const runtime = await runtimeState();
    return runtime.state !== "ready" && runtime;
  });
  expect(frozen).toMatchObject({ state: "notReady", message: "Status: no answer within 10000 ms" });
  process.kill(node.containerd.pid, "SIGCONT");
  await node.waitUntilRunning("late");
  await pollUntil("the runtime to be ready", 10_000, async () => (await runtimeState()).state === "ready");
}, 600_000);
