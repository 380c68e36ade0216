import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { PodSummary } from "../../agent/serve/local/pod-list.ts";
import { until } from "../bed/poll-until.ts";
import { ignoringSigterm, podOf, script } from "./manifest.ts";
import { containerId, linesWith, type Node, startNode } from "./node.ts";

setDefaultTimeout(60_000);

const steady = ["a", "b", "c"];
let node: Node;

beforeAll(async () => {
  node = await startNode();
  await node.put(podOf("crash", { command: script("sleep 0.3; exit 3") }));
  await node.put(podOf("done", { command: script("exit 0") }, { restartPolicy: "Never" }));
  for (const name of steady) await node.put(podOf(name));
  await node.running(...steady);
});

afterAll(async () => {
  await node.end();
});

const lastExit = (pod: PodSummary) => pod.status.containerStatuses?.[0]?.lastState?.terminated;

/** A new agent knows since when a condition holds only as well as the runtime tells. */
const withoutSince = ({ status: { conditions, ...status } }: PodSummary) => ({
  ...status,
  conditions: conditions?.map(({ type, status: value }) => `${type}=${value}`),
});

async function outcomeOf(name: string) {
  const { uid, phase, startTime, status } = await node.pod(name, "it is shown", () => true);
  return { uid, phase, startTime, containerStatuses: status.containerStatuses };
}

test("a new agent shows the pods of the one before as they were: no container restarted, nothing forgotten", async () => {
  await node.pod("done", "it has succeeded", ({ phase }) => phase === "Succeeded");
  // Its end is told before all of it is done.
  await node.logged("stop sandbox", "pod=default/done-berth");
  const [running, done] = [await node.running(...steady), await outcomeOf("done")];
  await node.agent.stop();
  const logged = (await node.log()).length;
  await node.startAgent();
  expect((await node.running(...steady)).map(withoutSince)).toEqual(running.map(withoutSince));
  expect(await outcomeOf("done")).toEqual(done);
  const log = (await node.log()).slice(logged);
  for (const name of [...steady, "done"]) expect(linesWith(log, `pod=default/${name}-berth`, "container")).toEqual([]);
});

test("a container that waits 20 s after a crash does not start earlier because of a new agent, nor later", async () => {
  const waiting = await node.pod(
    "crash",
    "its second wait",
    ({ message }) => message.startsWith("back-off 20s"),
    40_000,
  );
  const exit = lastExit(waiting);
  // An agent that let it wait anew would show it by that half.
  const since = Date.parse(exit?.finishedAt ?? "");
  await until("half of its wait", 20_000, () => Date.now() - since > 10_000);
  await node.agent.kill9();
  await node.startAgent();
  const adopted = await node.pod("crash", "it waits on", ({ reason }) => reason === "CrashLoopBackOff");
  expect(adopted.message).toBe(waiting.message);
  expect([adopted.restarts, lastExit(adopted)]).toEqual([2, exit!]);
  const again = await node.pod("crash", "its next exit", (pod) => lastExit(pod)?.finishedAt !== exit?.finishedAt);
  expect(again.restarts).toBe(3);
  expect(Date.parse(lastExit(again)?.startedAt ?? "") - Date.parse(exit?.finishedAt ?? "")).toBeWithin(20_000, 25_001);
});

test("what changed while no agent ran is done by the next: one came, one went, one ended", async () => {
  const [a] = await node.running("a");
  await node.agent.kill9();
  await node.put(podOf("late"));
  await node.removeFile("b.yaml");
  await node.containerd.ctr(["-n", "k8s.io", "tasks", "kill", "-s", "SIGKILL", containerId(a!)]);
  await node.startAgent();
  await node.running("late", "c");
  const restarted = await node.pod("a", "it was restarted", ({ restarts, ready }) => restarts === 1 && ready === "1/1");
  expect(lastExit(restarted)?.exitCode).toBe(137);
  await until("pod b to be gone", 20_000, async () => !(await node.pods()).some(({ name }) => name === "b-berth"));
});

test("a grace period goes on under the next agent: it is neither forgotten nor granted anew", async () => {
  await node.put(podOf("stubborn", { command: ignoringSigterm }, { terminationGracePeriodSeconds: 12 }));
  await node.running("stubborn");
  const removedAt = performance.now();
  await node.removeFile("stubborn.yaml");
  await node.pod("stubborn", "it is ending", ({ reason }) => reason === "Terminating");
  await until("half of its grace", 10_000, () => performance.now() - removedAt > 6000);
  await node.agent.kill9();
  await node.startAgent();
  await node.pod("stubborn", "it is ending still", ({ reason }) => reason === "Terminating");
  await until(
    "the pod to be gone",
    20_000,
    async () => !(await node.pods()).some(({ name }) => name === "stubborn-berth"),
  );
  expect(performance.now() - removedAt).toBeWithin(11_500, 17_500);
});

test("pods whose manifests went while no agent ran leave nothing", async () => {
  await node.agent.stop();
  for (const name of ["a", "c", "late", "crash", "done"]) await node.removeFile(`${name}.yaml`);
  await node.startAgent();
  await node.empty();
});
