import { readFile } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";
import type { PodListing, PodSummary } from "../../agent/serve/local/pod-list.ts";
import { podState } from "../../agent/serve/local/pod-state.ts";
import { joinWithAnd } from "../../proto/join-with-and.ts";
import type { Agent } from "./agent.ts";
import type { ManifestFolder } from "./manifests.ts";
import { pollUntil, timeoutSignal } from "./poll-until.ts";

/** The result of waiting for the pods of a manifest folder. */
export interface PodsOutcome {
  readonly listing: PodListing;
  /** Whether each manifest was accepted and each pod reached its expected state in time. */
  readonly isSettled: boolean;
}

/** The examples need no registry. A user's own pods may wait for one that does not answer, so the limit is shorter. */
const timeLimitMs = ({ isKept }: ManifestFolder) => (isKept ? 20_000 : 60_000);

/** The examples are up before. */
const LONG_WAIT_MS = 5_000;

/**
 * Waits until all pods of `folder` have reached their expected state, the time limit has passed, or `signal` aborts. Calls `onLongWait`
 * once, after five seconds, with what it still waits for. Throws {@link AgentEndedError} if the agent ends before.
 */
export async function waitForPods(
  agent: Agent,
  folder: ManifestFolder,
  signal: AbortSignal,
  onLongWait: (text: string) => void,
): Promise<PodsOutcome> {
  await pollUntil("the agent to answer", 10_000, async () => {
    if (!agent.isRunning) throw await agentEndError(agent);
    // The agent does not listen at first; the timeout reports any other failure.
    return await agent.pods().catch(() => undefined);
  });
  const timeLimit = timeoutSignal(timeLimitMs(folder));
  let listing: PodListing = { pods: [] };
  const notice = setTimeout(() => onLongWait(describeWait(listing, folder)), LONG_WAIT_MS);
  try {
    for await (listing of agent.watch(AbortSignal.any([signal, timeLimit]))) {
      const { pods, refused = [] } = listing;
      // A refused manifest has no pod, or the pod of its last good version.
      const isComplete = pods.length + refused.length >= folder.names.length;
      if (isComplete && pods.every((pod) => isSettled(pod, folder)))
        return { listing, isSettled: refused.length === 0 };
    }
    if (!signal.aborted && !timeLimit.aborted) throw await agentEndError(agent);
    return { listing, isSettled: false };
  } finally {
    clearTimeout(notice);
  }
}

function describeWait({ pods }: PodListing, folder: ManifestFolder): string {
  const late = pods.filter((pod) => !isSettled(pod, folder)).map((pod) => `${pod.name} (${podState(pod)})`);
  return `for ${joinWithAnd(late.length > 0 ? late : ["the first pods"])}, until ${timeLimitMs(folder) / 1_000} s have passed`;
}

/** The expected states of the examples that do not keep running. */
const expected: Readonly<Record<string, (pod: PodSummary) => boolean>> = {
  "crash.yaml": ({ reason }) => reason === "CrashLoopBackOff",
  "once.yaml": ({ phase }) => phase === "Succeeded",
};

/**
 * An unchanged example has its expected state. Any other pod is ready, has ended, or has a reason that is no start
 * phase.
 */
function isSettled(pod: PodSummary, { unchanged }: ManifestFolder): boolean {
  const file = `${pod.name.replace(/-berth$/, "")}.yaml`;
  const isAsExpected = unchanged.has(file) ? expected[file] : undefined;
  if (isAsExpected !== undefined) return isAsExpected(pod);
  const [ready, all] = pod.ready.split("/");
  const isUnderWay = ["", "ContainerCreating", "PodInitializing"].includes(pod.reason);
  return ready === all || pod.phase === "Succeeded" || pod.phase === "Failed" || !isUnderWay;
}

/** The number of pods in each state, with a remark on the example that crashes on purpose. */
export function describePods({ pods }: PodListing, { unchanged }: ManifestFolder): string {
  const counts = [...Map.groupBy(pods, podState)].map(([state, all]) => `${all.length} ${state}`);
  const crash = pods.find(({ name }) => name === "crash-berth");
  const purpose = crash !== undefined && unchanged.has("crash.yaml") ? "; crash keeps crashing on purpose" : "";
  return `${counts.join(", ") || "none"}${purpose}`;
}

/** The agent's process has ended unexpectedly. */
export class AgentEndedError extends Error {
  override readonly name = "AgentEndedError";
}

/**
 * Returns an error that says how the agent ended, with its last log lines. Call it when the agent's watch has ended.
 */
export async function agentEndError(agent: Agent): Promise<AgentEndedError> {
  // The exit event of a process may arrive after the end of its output.
  const how = await Promise.race([agent.ended, pause(2000, undefined, { ref: false })]);
  if (how === undefined) return new AgentEndedError("`berth pods --watch` ended although the agent is running");
  const log = await readFile(agent.logFile, "utf8");
  const last = log.trimEnd().split("\n").slice(-3);
  return new AgentEndedError([`the agent ${how}; the end of ${agent.logFile}:`, ...last].join("\n  "));
}
