import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { readHookFailures } from "./cluster/hook-failures.ts";
import { podOf, upUntilStopped } from "./manifest.ts";
import { startNode, type TestNode, waitForOutput } from "./node.ts";

setDefaultTimeout(600_000);

/** Longer than the end of both pods takes without the hook. */
const SLEEP_SECONDS = 3;

let node: TestNode;
beforeAll(async () => {
  node = await startNode();
});
afterAll(() => node.tearDown());

test("pods with the longest possible grace period end, one of them after its preStop hook", async () => {
  const graceful = { terminationGracePeriodSeconds: 1e12 };
  const container = { command: upUntilStopped };
  await node.putManifest(podOf("graceful", container, graceful));
  await node.putManifest(
    podOf("hooked", { ...container, lifecycle: { preStop: { sleep: { seconds: SLEEP_SECONDS } } } }, graceful),
  );
  for (const pod of await node.waitUntilRunning("graceful", "hooked")) await waitForOutput(node, pod, "up");
  const removedAt = performance.now();
  for (const name of ["graceful", "hooked"]) await node.removeFile(`${name}.yaml`);
  await node.waitUntilEmpty();
  expect(performance.now() - removedAt).toBeGreaterThan(SLEEP_SECONDS * 1000);
  expect(readHookFailures(await node.log())).toEqual([]);
});

test("an impossible limit is passed to the runtime, and its error is reported", async () => {
  const limits = { cpu: "1e15", memory: "1000E" };
  await node.putManifest(podOf("measureless", { resources: { limits, requests: { cpu: "1m", memory: "1Mi" } } }));
  await node.waitForPod("measureless", "its start failed", ({ status }) => {
    // The start is retried at once; from then on the last state shows the failure.
    const { state, lastState } = status.containerStatuses?.[0] ?? {};
    const terminations = [state?.terminated, lastState?.terminated];
    return terminations.some((end) => end?.reason === "StartError" && end.message?.includes("invalid argument"));
  });
});
