import { readFile } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";
import type { PodListing, PodSummary } from "../../agent/serve/local/pod-list.ts";
import type { Agent } from "./agent.ts";
import type { ManifestFolder } from "./manifests.ts";
import { until } from "./poll-until.ts";

/** What the pods of a folder of manifests have come to. */
export interface ComeUp {
  readonly listing: PodListing;
  /** Whether each manifest has become what it should, in time. */
  readonly isSettled: boolean;
}

/** Somebody's own pods may wait for a registry that nobody here knows. */
const patienceMs = ({ isKept }: ManifestFolder) => (isKept ? 20_000 : 60_000);

/**
 * Waits until all pods of `folder` are what they should come to, or patience or `signal` is at an end. Throws
 * {@link AgentEnded} if the agent ends before that.
 */
export async function comeUp(agent: Agent, folder: ManifestFolder, signal: AbortSignal): Promise<ComeUp> {
  await until("the agent to answer", 10_000, async () => {
    if (!agent.isRunning) throw await whyEnded(agent);
    return await agent.pods().catch(() => undefined);
  });
  const patience = AbortSignal.timeout(patienceMs(folder));
  let listing: PodListing = { pods: [] };
  for await (listing of agent.watch(AbortSignal.any([signal, patience]))) {
    const { pods, refused = [] } = listing;
    // A file that is refused has no pod, or the pod of its last good version.
    const isComplete = pods.length + refused.length >= folder.names.length;
    if (isComplete && pods.every((pod) => isSettled(pod, folder))) return { listing, isSettled: refused.length === 0 };
  }
  if (!signal.aborted && !patience.aborted) throw await whyEnded(agent);
  return { listing, isSettled: false };
}

/** What those examples come to that do not run for ever. */
const expected: Readonly<Record<string, (pod: PodSummary) => boolean>> = {
  "crash.yaml": ({ reason }) => reason === "CrashLoopBackOff",
  "once.yaml": ({ phase }) => phase === "Succeeded",
};

/** An example is what it is made for. Any other pod is ready or done, or says why it is not. */
function isSettled(pod: PodSummary, { unchanged }: ManifestFolder): boolean {
  const file = `${pod.name.replace(/-berth$/, "")}.yaml`;
  const isAsExpected = unchanged.has(file) ? expected[file] : undefined;
  if (isAsExpected !== undefined) return isAsExpected(pod);
  const [ready, all] = pod.ready.split("/");
  const isUnderWay = ["", "ContainerCreating", "PodInitializing"].includes(pod.reason);
  return ready === all || pod.phase === "Succeeded" || pod.phase === "Failed" || !isUnderWay;
}

/** How many pods are in which state, and why one of the examples never is well. */
export function describePods({ pods }: PodListing, { unchanged }: ManifestFolder): string {
  const byState = Map.groupBy(pods, ({ phase, reason }) => (["", "Completed"].includes(reason) ? phase : reason));
  const counts = [...byState].map(([state, all]) => `${all.length} ${state}`);
  const crash = pods.find(({ name }) => name === "crash-berth");
  const purpose = crash !== undefined && unchanged.has("crash.yaml") ? "; crash keeps crashing on purpose" : "";
  return `${counts.join(", ") || "none"}${purpose}`;
}

/** The agent has ended by itself, or was ended by somebody else. */
export class AgentEnded extends Error {
  override readonly name = "AgentEnded";
}

/** How the agent has ended, and the last that it said, once the end of its answers has been seen. */
export async function whyEnded(agent: Agent): Promise<AgentEnded> {
  // The news of the end of a process may come after the end of what it sent.
  const how = await Promise.race([agent.ended, pause(2000, undefined, { ref: false })]);
  if (how === undefined) return new AgentEnded("`berth pods --watch` has ended, although the agent runs");
  const log = await readFile(agent.logFile, "utf8");
  const last = log.trimEnd().split("\n").slice(-3);
  return new AgentEnded([`the agent ${how}; the end of ${agent.logFile}:`, ...last].join("\n  "));
}
