import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pollUntil } from "../bed/poll-until.ts";
import { podOf, script } from "./manifest.ts";
import { containerId, isReady, linesContaining, startNode, startNodeWithoutAgent, type TestNode } from "./node.ts";
import { versionsUnderTest } from "./versions-under-test.ts";

setDefaultTimeout(600_000);

const names = ["a", "b", "c", "d", "e"];
/** A container that fails once, when the test writes a note. */
const failsOnce = script(
  "test -e /notes/failed && exec sleep 1000000; until test -e /notes/fail; do sleep 0.1; done; touch /notes/failed; exit 3",
);
let node: TestNode;

afterEach(async () => {
  await node.tearDown();
});

/** The process ids of all containers by container id, from containerd. */
async function processes(): Promise<ReadonlyMap<string, number>> {
  const rows = (await node.containerd.ctr(["-n", "k8s.io", "tasks", "ls"])).split("\n").slice(1);
  return new Map(rows.map((row) => row.split(/ +/)).map(([id = "", pid]) => [id, Number(pid)] as const));
}

/** When containerd received the RunPodSandbox of a pod, in milliseconds since the epoch: its own work comes after that. */
async function requestedAt(pod: string): Promise<number> {
  const log = await readFile(node.containerd.logFile, "utf8");
  const [line = ""] = linesContaining(log, "RunPodSandbox for ", `Name:${pod},`);
  return Date.parse(/^time="([^"]+)"/.exec(line)?.[1] ?? "");
}

describe.each(versionsUnderTest)("containerd %s", (version) => {
  test("can be killed: its pods keep running, and within 2 s after its return the agent catches up", async () => {
    node = await startNode({ version });
    const notes = { volumes: [{ name: "notes", hostPath: { path: node.folder } }] };
    const crash = podOf("crash", { command: failsOnce, volumeMounts: [{ name: "notes", mountPath: "/notes" }] }, notes);
    for (const pod of [...names.map((name) => podOf(name)), crash]) await node.putManifest(pod);
    await node.waitUntilRunning(...names, "crash");
    const before = await node.pods();
    const running = await processes();
    const crashed = running.get(containerId(before.find(({ name }) => name === "crash-berth")!))!;
    await node.containerd.kill9();
    await node.waitForLogLine("the container runtime is away");
    await node.putManifest(podOf("late"));
    await node.removeFile("e.yaml");
    for (const pid of running.values()) process.kill(pid, 0);
    expect((await node.pods()).filter(isReady).map(({ name }) => name)).toEqual(before.map(({ name }) => name));
    await writeFile(join(node.folder, "fail"), "");
    await pollUntil("the end of the container that crashes", 10_000, () => isGone(crashed));

    await node.containerd.restart();
    // Its CRI answers from now on; its socket exists before.
    const backAt = Date.now();
    await node.waitForPod("late", "its sandbox is made", ({ steps }) => steps.some(({ what }) => what === "sandbox"));
    expect((await requestedAt("late-berth")) - backAt).toBeLessThan(2000);

    await node.waitUntilRunning("late");
    await node.waitForPod("crash", "it was started again", (pod) => isReady(pod) && pod.restarts === 1);
    await pollUntil(
      "pod e to be gone",
      20_000,
      async () => !(await node.pods()).some(({ name }) => name === "e-berth"),
    );
    const after = await node.waitUntilRunning("a", "b", "c", "d");
    const ids = new Map(before.map((pod) => [pod.name, containerId(pod)]));
    expect(after.map((pod) => [containerId(pod), pod.restarts])).toEqual(after.map(({ name }) => [ids.get(name)!, 0]));
    const still = await processes();
    for (const pod of after) expect(still.get(containerId(pod))).toBe(running.get(containerId(pod))!);
    expect(linesContaining(await node.log(), "the container runtime is away")).toHaveLength(1);
    expect(linesContaining(await node.log(), "the container runtime is back")).toHaveLength(1);
  });
});

test("an agent without a runtime logs it once, and starts its pods when the runtime appears", async () => {
  node = await startNodeWithoutAgent();
  await node.containerd.kill9();
  await rm(node.containerd.socket);
  await node.putManifest(podOf("web"));
  await node.startAgent();
  const line = await node.waitForLogLine("the container runtime is away");
  expect(line).toContain(node.containerd.socket);
  await node.containerd.restart();
  await node.waitUntilRunning("web");
  expect(linesContaining(await node.log(), "the container runtime is away")).toEqual([line]);
});

function isGone(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch {
    // The kernel knows no such process.
    return true;
  }
}
