import { setTimeout as pause } from "node:timers/promises";
import { startStopwatch } from "../../bed/poll-until.ts";
import type { ControlPlane } from "../../upstream/control-plane.ts";
import { type Relay, startRelay } from "../../upstream/tcp-relay.ts";
import { CALL_CLASSES, killRuntimeDuringOneOf } from "./call-kills.ts";
import { type AgentKills, type Kill, killAgents, killRuntime } from "./kills.ts";
import type { ClusterNode, NetworkPath } from "./node.ts";

/** Allows more pods than the kubelet's default of 110: a fast machine runs most of the random pods at once. */
export const manyPodsConfiguration = { maxPods: 250 } as const;

/** A relay between the agent and the API server, which can break the connection. */
export interface RelayedNetwork extends NetworkPath {
  readonly relay: Relay;
}

export async function openRelayedNetwork({ server }: ControlPlane): Promise<RelayedNetwork> {
  const relay = await startRelay(Number(new URL(server).port));
  return { server: `https://127.0.0.1:${relay.port}`, relay, close: () => relay.close() };
}

export interface KillReport extends AgentKills {
  /** How often each part was killed or interrupted. */
  readonly hits: Readonly<Record<string, number>>;
}

type Random = () => number;

/** How long a kill of the runtime alone waits for a call of a class in which it was not killed yet. */
const AIM_MS = 5_000;
/** How long the faults may go on until each class of calls was met. */
export const MAX_FAULTS_MS = 300_000;

/**
 * Kills or interrupts agent, runtime, API server, etcd and the network to them at random times, for at least `forMs`
 * and until each was hit once, and the runtime during a call of each class. All of them work again when it returns. Throws if a
 * class was not met within five minutes.
 */
export async function injectFaults(
  cluster: ClusterNode & { readonly network: RelayedNetwork },
  random: Random,
  forMs: number,
): Promise<KillReport> {
  const hits: Record<string, number> = {};
  const calm = new AbortController();
  // With a random sequence of its own, so that it does not change the sequence of the others.
  const restarting = killAgents(cluster.node, manyPodsConfiguration, random() * 1e9, calm.signal);
  const runtimeKills: Kill[] = [];
  const missing = new Set(CALL_CLASSES);
  const faults = faultsOf(cluster, random, {
    atRandom: async (awayMs) => void runtimeKills.push(await killRuntime(cluster.node, awayMs)),
    async duringCall(awayMs) {
      const options = { waitMs: AIM_MS, awayMs };
      runtimeKills.push(await killRuntimeDuringOneOf(cluster.node, missing, random, options));
    },
  });
  const began = performance.now();
  const countedMs = startStopwatch();
  try {
    do {
      // Each one once per round, in a random order.
      for (const name of Object.keys(faults).toSorted(() => random() - 0.5)) {
        await pause(random() * 2_000);
        await faults[name]?.();
        hits[name] = (hits[name] ?? 0) + 1;
      }
      if (missing.size > 0 && countedMs() > MAX_FAULTS_MS)
        throw new Error(`the runtime could not be killed during calls of these classes: ${[...missing].join(", ")}`);
    } while (missing.size > 0 || performance.now() < began + forMs);
  } finally {
    calm.abort();
    await restarting;
  }
  const { kills, unexpectedExits } = await restarting;
  return { hits: { ...hits, agent: kills.length }, kills: [...runtimeKills, ...kills], unexpectedExits };
}

/** The faults of other parts than the agent alone, by name. Each function resolves when its fault is over. */
function faultsOf(
  { node, plane, network }: ClusterNode & { readonly network: RelayedNetwork },
  random: Random,
  kill: Readonly<Record<"atRandom" | "duringCall", (awayMs: number) => Promise<void>>>,
): Readonly<Record<string, () => Promise<void>>> {
  const runtime = () => kill.atRandom(random() * 2_000);
  const apiServer = async () => {
    await plane.stopApiServer();
    await pause(random() * 3_000);
    await plane.startApiServer();
  };
  return {
    runtime: () => kill.duringCall(random() * 2_000),
    "API server": apiServer,
    etcd: async () => {
      await plane.stopEtcd();
      await pause(random() * 3_000);
      await plane.startEtcd();
    },
    "way to the API server": async () => {
      network.relay.stall();
      await pause(random() * 3_000);
      // Stalled bytes arrive late, or never.
      if (random() < 0.5) network.relay.reset();
      network.relay.resume();
    },
    "agent and runtime at once": async () => {
      await Promise.all([node.agent.kill9(), runtime()]);
    },
    "agent, runtime and API server at once": async () => {
      await Promise.all([node.agent.kill9(), runtime(), apiServer()]);
    },
  };
}
