import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { setTimeout as pause } from "node:timers/promises";
import { ContainerState, PodSandboxState } from "../../proto/cri/gen/api.ts";
import { podUidLabel } from "../../proto/kubernetes/well-known-names.ts";
import type { ContainerdVersion } from "../bed/containerd/containerd.ts";
import { until } from "../bed/poll-until.ts";
import { randomOf } from "../random.ts";
import { livedTwice, type Recording, recordLives } from "./container-lifetimes.ts";
import { podOf } from "./manifest.ts";
import { isReady, type Node, startNodeWithoutAgent } from "./node.ts";

setDefaultTimeout(120_000);

const names = Array.from({ length: 30 }, (_, at) => `pod-${at}`);
const seed = Number(process.env["BERTH_SEED"] ?? Math.floor(Math.random() * 1e9));
const random = randomOf(seed);
let node: Node;
let recording: Recording;

/** Kills the agent with SIGKILL after a random while, and starts the next one, so many times. */
async function killAtRandom(times: number, longestMs: number): Promise<void> {
  for (let kill = 0; kill < times; kill++) {
    await node.launchAgent();
    await pause(random() * longestMs);
    await node.agent.kill9();
  }
  await node.startAgent();
}

/**
 * How many sandboxes and containers the runtime has, by their states. Of dead instances each container may keep one: of a start that was
 * cut short it is what `kubectl describe` shows as the last state.
 */
async function population(): Promise<string> {
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

describe.each<ContainerdVersion>(["1.6", "2.1"])(
  "an agent that is killed again and again, on containerd %s,",
  (version) => {
    beforeAll(async () => {
      console.log(`the moments of the kills follow from BERTH_SEED=${seed}`);
      node = await startNodeWithoutAgent({ version });
      recording = await recordLives(node.containerd);
    });

    afterAll(async () => {
      recording.stop();
      await node.end();
    });

    test("while thirty pods start, ends with each of them once", async () => {
      for (const name of names) await node.put(podOf(name));
      await killAtRandom(8, 1200);
      // Thirty starts wait for each other, however few the machine carries out at once.
      await Promise.all(names.map((name) => node.pod(name, "it runs", isReady, 90_000)));
      let seen = "";
      await until("what was cut short to be cleared away", 20_000, async () => {
        seen = await population();
        return seen === thirtyOfEach;
      }).catch(() => undefined);
      expect(seen).toBe(thirtyOfEach);
    });

    test("had no sandbox and no container live twice at once, by the runtime's own event log", async () => {
      const lives = await recording.lives();
      const started = lives.filter(({ startedAt }) => startedAt !== undefined);
      // Of what was cut short, and gone before anybody could ask, nobody knows whose it was.
      const known = started.map(({ owner }) => owner).filter((owner) => / (main|sandbox)$/.test(owner));
      expect(new Set(known).size).toBe(60);
      expect(livedTwice(lives)).toEqual([]);
    });

    test("while they end, leaves nothing of them", async () => {
      for (const name of names) await node.removeFile(`${name}.yaml`);
      await node.agent.kill9();
      await killAtRandom(4, 800);
      await node.empty();
    });
  },
);
