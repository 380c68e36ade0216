import { setTimeout as pause } from "node:timers/promises";
import { randomOf } from "../../random.ts";
import type { ControlPlane } from "../../upstream/control-plane.ts";
import { type Relay, startRelay } from "../../upstream/tcp-relay.ts";
import type { ClusterNode, Way } from "./node.ts";

/** A node for more pods than the kubelet's 110: a quick machine has most of the lives at once. */
export const ofMany = { maxPods: 250 } as const;

/** The agent's way to the API server, which can be cut. */
export interface RelayedWay extends Way {
  readonly relay: Relay;
}

export async function openRelayedWay({ server }: ControlPlane): Promise<RelayedWay> {
  const relay = await startRelay(Number(new URL(server).port));
  return { server: `https://127.0.0.1:${relay.port}`, relay, close: () => relay.close() };
}

export interface Kills {
  /** How often each of them was hit. */
  readonly hits: Readonly<Record<string, number>>;
  /** How agents ended that nobody had killed. */
  readonly ownEnds: readonly string[];
}

type Random = () => number;

/**
 * Hits agent, runtime, API server, etcd and the way to them at moments that follow from `random`, for `forMs` at least and until all
 * were hit. All of them are well again when it returns.
 */
export async function killAtRandom(
  cluster: ClusterNode & { readonly way: RelayedWay },
  random: Random,
  forMs: number,
): Promise<Kills> {
  const hits: Record<string, number> = {};
  const calm = new AbortController();
  const count = (name: string) => {
    hits[name] = (hits[name] ?? 0) + 1;
  };
  // By numbers of its own, so that those of the others stay what they are.
  const restarting = restartAgents(cluster, randomOf(random() * 1e9), () => count("agent"), calm.signal);
  const troubles = troublesOf(cluster, random);
  const end = performance.now() + forMs;
  do {
    // Each in turn, in an order that changes.
    for (const name of Object.keys(troubles).toSorted(() => random() - 0.5)) {
      await pause(random() * 2_000);
      await troubles[name]?.();
      count(name);
    }
  } while (performance.now() < end);
  calm.abort();
  return { hits, ownEnds: await restarting };
}

/** Kills each agent after a while, often a very short one, and starts the next one; so too if it ends by other hands. */
async function restartAgents(
  { node }: ClusterNode,
  random: Random,
  killed: () => void,
  calm: AbortSignal,
): Promise<readonly string[]> {
  const ownEnds: string[] = [];
  while (!calm.aborted) {
    const how = await Promise.race([node.agent.ended, pause(random() ** 2 * 4_000)]);
    if (how !== undefined && how !== BY_US) ownEnds.push(how);
    await node.agent.kill9();
    killed();
    await pause(random() * 500);
    await node.launchAgent(ofMany);
  }
  return ownEnds;
}

const BY_US = "was ended by SIGKILL";

/** What may happen to others than the agent alone, by name; each is over when its promise is. */
function troublesOf(
  { node, plane, way }: ClusterNode & { readonly way: RelayedWay },
  random: Random,
): Readonly<Record<string, () => Promise<void>>> {
  const runtime = async () => {
    await node.containerd.kill9();
    await pause(random() * 2_000);
    await node.containerd.restart();
  };
  const apiServer = async () => {
    await plane.stopApiServer();
    await pause(random() * 3_000);
    await plane.startApiServer();
  };
  return {
    runtime,
    "API server": apiServer,
    etcd: async () => {
      await plane.stopEtcd();
      await pause(random() * 3_000);
      await plane.startEtcd();
    },
    "way to the API server": async () => {
      way.relay.stall();
      await pause(random() * 3_000);
      // What has waited comes late, or never.
      if (random() < 0.5) way.relay.reset();
      way.relay.resume();
    },
    "agent and runtime at once": async () => {
      await Promise.all([node.agent.kill9(), runtime()]);
    },
    "agent, runtime and API server at once": async () => {
      await Promise.all([node.agent.kill9(), runtime(), apiServer()]);
    },
  };
}
