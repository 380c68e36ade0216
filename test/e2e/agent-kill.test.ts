import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { setTimeout as pause } from "node:timers/promises";
import { ContainerState, PodSandboxState } from "../../proto/cri/gen/api.ts";
import { podUidLabel } from "../../proto/kubernetes/well-known-names.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { seededRandom } from "../random.ts";
import { findOverlaps, type LifetimeRecording, recordLifetimes } from "./container-lifetimes.ts";
import { podOf } from "./manifest.ts";
import { isReady, startNodeWithoutAgent, type TestNode } from "./node.ts";
import { versionsUnderTest } from "./versions-under-test.ts";

setDefaultTimeout(600_000);

const names = Array.from({ length: 30 }, (_, at) => `pod-${at}`);
const seed = Number(process.env["BERTH_SEED"] ?? Math.floor(Math.random() * 1e9));
const random = seededRandom(seed);
let node: TestNode;
let lifetimes: LifetimeRecording;

/** Starts an agent and kills it with SIGKILL after a random time, `times` times. Then starts one that stays. */
async function killAgentRepeatedly(times: number, longestMs: number): Promise<void> {
  for (let kill = 0; kill < times; kill++) {
    await node.launchAgent();
    await pause(random() * longestMs);
    await node.agent.kill9();
  }
  await node.startAgent();
}

/**
 * The number of sandboxes and containers in the runtime, by state. Each pod may keep one exited container: after an
 * interrupted start it is what `kubectl describe` shows as the last state.
 */
async function countByState(): Promise<string> {
  const [sandboxes, containers] = await Promise.all([node.sandboxes(), node.containers()]);
  const count = (states: readonly number[]) =>
    [...Map.groupBy(states, (state) => state)].map(([state, all]) => `${all.length} in state ${state}`).toSorted();
  const isDead = ({ state }: { readonly state: number }) => state === ContainerState.CONTAINER_EXITED;
  const dead = Map.groupBy(containers.filter(isDead), ({ labels }) => labels[podUidLabel]);
  const kept = new Set([...dead.values()].map(([first]) => first));
  return JSON.stringify({
    sandboxes: count(sandboxes.map(({ state }) => state)),
    containers: count(containers.filter((each) => !kept.has(each)).map(({ state }) => state)),
  });
}

const thirtyOfEach = JSON.stringify({
  sandboxes: [`30 in state ${PodSandboxState.SANDBOX_READY}`],
  containers: [`30 in state ${ContainerState.CONTAINER_RUNNING}`],
});

describe.each(versionsUnderTest)("an agent that is killed repeatedly, on containerd %s,", (version) => {
  beforeAll(async () => {
    console.log(`BERTH_SEED=${seed} reproduces the times of the kills`);
    node = await startNodeWithoutAgent({ version });
    lifetimes = await recordLifetimes(node.containerd);
  });

  afterAll(async () => {
    lifetimes.stop();
    await node.tearDown();
  });

  test("runs each of thirty pods exactly once when it is killed during their starts", async () => {
    for (const name of names) await node.putManifest(podOf(name));
    await killAgentRepeatedly(8, 1200);
    // The limit covers thirty starts on a machine that carries out only a few at once.
    await Promise.all(names.map((name) => node.waitForPod(name, "it runs", isReady, 90_000)));
    let seen = "";
    await pollUntil("the remains of interrupted starts to be removed", 20_000, async () => {
      seen = await countByState();
      return seen === thirtyOfEach;
      // The expectation below shows after a timeout what was seen last.
    }).catch(() => undefined);
    expect(seen).toBe(thirtyOfEach);
  });

  test("never ran two sandboxes or two instances of a container at once, by the runtime's event log", async () => {
    const recorded = await lifetimes.all();
    const started = recorded.filter(({ startedAt }) => startedAt !== undefined);
    // The owner of an interrupted container is unknown if it was gone before its labels could be read.
    const known = started.map(({ owner }) => owner).filter((owner) => / (main|sandbox)$/.test(owner));
    expect(new Set(known).size).toBe(60);
    expect(findOverlaps(recorded)).toEqual([]);
  });

  test("leaves nothing of the pods when it is killed while they end", async () => {
    for (const name of names) await node.removeFile(`${name}.yaml`);
    await node.agent.kill9();
    await killAgentRepeatedly(4, 800);
    await node.waitUntilEmpty();
  });
});
