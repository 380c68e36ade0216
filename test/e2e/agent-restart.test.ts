import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { PodSummary } from "../../agent/serve/local/pod-list.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { podOf, script, upIgnoringSigterm } from "./manifest.ts";
import { containerId, linesContaining, startNode, type TestNode } from "./node.ts";

setDefaultTimeout(600_000);

const steady = ["a", "b", "c"];
let node: TestNode;

beforeAll(async () => {
  node = await startNode();
  await node.putManifest(podOf("done", { command: script("exit 0") }, { restartPolicy: "Never" }));
  for (const name of steady) await node.putManifest(podOf(name));
  await node.waitUntilRunning(...steady);
});

afterAll(async () => {
  await node.tearDown();
});

const lastExit = (pod: PodSummary) => pod.status.containerStatuses?.[0]?.lastState?.terminated;

/** The status without transition times: a new agent knows them only as precisely as the runtime reports them. */
const withoutTransitionTimes = ({ status: { conditions, ...status } }: PodSummary) => ({
  ...status,
  conditions: conditions?.map(({ type, status: value }) => `${type}=${value}`),
});

async function outcomeOf(name: string) {
  const { uid, phase, startTime, status } = await node.waitForPod(name, "it is shown", () => true);
  return { uid, phase, startTime, containerStatuses: status.containerStatuses };
}

test("a new agent reports the pods as the one before did and restarts no container", async () => {
  await node.waitForPod("done", "it has succeeded", ({ phase }) => phase === "Succeeded");
  // The agent reports the final status before it has stopped the sandbox.
  await node.waitForLogLine("stop sandbox", "pod=default/done-berth");
  const [running, done] = [await node.waitUntilRunning(...steady), await outcomeOf("done")];
  await node.agent.stop();
  const logged = (await node.log()).length;
  await node.startAgent();
  expect((await node.waitUntilRunning(...steady)).map(withoutTransitionTimes)).toEqual(
    running.map(withoutTransitionTimes),
  );
  expect(await outcomeOf("done")).toEqual(done);
  const log = (await node.log()).slice(logged);
  for (const name of [...steady, "done"])
    expect(linesContaining(log, `pod=default/${name}-berth`).join("\n")).not.toMatch(
      /(create|start|stop|remove) container/,
    );
});

test("a restart of the agent neither shortens nor extends a crash back-off of 20 s", async () => {
  // The pod starts here: the tests before this one may last longer than its wait.
  await node.putManifest(podOf("crash", { command: script("sleep 0.3; exit 3") }));
  const waiting = await node.waitForPod("crash", "its second wait", ({ message }) =>
    message.startsWith("back-off 20s"),
  );
  const exit = lastExit(waiting);
  // An agent that restarted the back-off would be late by this half, and the container would start after 30 s.
  const since = Date.parse(exit?.finishedAt ?? "");
  await pollUntil("half of its wait", 20_000, () => Date.now() - since > 10_000);
  await node.agent.kill9();
  await node.startAgent();
  const adopted = await node.waitForPod("crash", "it waits on", ({ reason }) => reason === "CrashLoopBackOff");
  expect(adopted.message).toBe(waiting.message);
  expect([adopted.restarts, lastExit(adopted)]).toEqual([2, exit!]);
  const again = await node.waitForPod(
    "crash",
    "its next exit",
    (pod) => lastExit(pod)?.finishedAt !== exit?.finishedAt,
  );
  expect(again.restarts).toBe(3);
  expect((await node.createdAt("crash", 3)) - Date.parse(exit?.finishedAt ?? "")).toBeWithin(20_000, 30_000);
});

test("a new agent handles what changed while no agent ran: a new manifest, a removed one and an exited container", async () => {
  const [a] = await node.waitUntilRunning("a");
  await node.agent.kill9();
  await node.putManifest(podOf("late"));
  await node.removeFile("b.yaml");
  await node.containerd.ctr(["-n", "k8s.io", "tasks", "kill", "-s", "SIGKILL", containerId(a!)]);
  await node.startAgent();
  await node.waitUntilRunning("late", "c");
  const restarted = await node.waitForPod(
    "a",
    "it was restarted",
    ({ restarts, ready }) => restarts === 1 && ready === "1/1",
  );
  expect(lastExit(restarted)?.exitCode).toBe(137);
  await pollUntil("pod b to be gone", 20_000, async () => !(await node.pods()).some(({ name }) => name === "b-berth"));
});

test("a grace period continues under the next agent and does not start again", async () => {
  const graceMs = 24_000;
  const spec = { terminationGracePeriodSeconds: graceMs / 1000 };
  await node.putManifest(podOf("stubborn", { command: upIgnoringSigterm }, spec));
  await node.waitUntilUp("stubborn");
  const removedAt = performance.now();
  await node.removeFile("stubborn.yaml");
  await node.waitForPod("stubborn", "it is ending", ({ reason }) => reason === "Terminating");
  await pollUntil("half of its grace", graceMs, () => performance.now() - removedAt > graceMs / 2);
  await node.agent.kill9();
  const killedAt = performance.now();
  await node.startAgent();
  await node.waitForPod("stubborn", "it is ending still", ({ reason }) => reason === "Terminating");
  await pollUntil(
    "the pod to be gone",
    graceMs,
    async () => !(await node.pods()).some(({ name }) => name === "stubborn-berth"),
  );
  expect(performance.now() - removedAt).toBeGreaterThan(graceMs - 500);
  // A grace period that had started again would have ended later.
  expect(performance.now() - killedAt).toBeLessThan(graceMs);
});

test("pods whose manifests were removed while no agent ran leave nothing", async () => {
  await node.agent.stop();
  for (const name of ["a", "c", "late", "crash", "done"]) await node.removeFile(`${name}.yaml`);
  await node.startAgent();
  await node.waitUntilEmpty();
});
