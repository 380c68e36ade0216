import { afterAll, beforeAll, setDefaultTimeout, test } from "bun:test";
import { podOf, upUntilStopped } from "./manifest.ts";
import { hasPrinted, type Node, startNode } from "./node.ts";

setDefaultTimeout(60_000);

let node: Node;
beforeAll(async () => {
  node = await startNode();
});
afterAll(() => node.end());

test("the longest grace there is keeps nobody from ending", async () => {
  const graceful = { terminationGracePeriodSeconds: 1e12 };
  const container = { command: upUntilStopped };
  await node.put(podOf("graceful", container, graceful));
  await node.put(podOf("hooked", { ...container, lifecycle: { preStop: { sleep: { seconds: 1 } } } }, graceful));
  for (const pod of await node.running("graceful", "hooked")) await hasPrinted(node, pod, "up");
  for (const name of ["graceful", "hooked"]) await node.removeFile(`${name}.yaml`);
  await node.empty();
});

test("a limit beyond all measure is the runtime's to judge, and is told in its words", async () => {
  const limits = { cpu: "1e15", memory: "1000E" };
  await node.put(podOf("measureless", { resources: { limits, requests: { cpu: "1m", memory: "1Mi" } } }));
  await node.pod("measureless", "its start failed", ({ status }) => {
    // It is tried again at once, and shown by its last state from then on.
    const { state, lastState } = status.containerStatuses?.[0] ?? {};
    const told = [state?.terminated, lastState?.terminated];
    return told.some((end) => end?.reason === "StartError" && end.message?.includes("invalid argument"));
  });
});
