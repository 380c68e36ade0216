import { formatTime } from "../../../proto/kubernetes/time.ts";
import type { NodeReport, RuntimeState } from "../../decide/node/local-node-report.ts";
import type { PodSummary } from "./pod-list.ts";

/** Times are RFC 3339. */
export type ConnectionStatus =
  /** Nothing has been answered since the agent has begun, and nothing has failed. */
  | { readonly state: "connecting" }
  | { readonly state: "connected"; readonly since: string; readonly lastError?: LastError }
  /** Since the first failure; it is tried again and again. */
  | { readonly state: "away"; readonly since: string; readonly lastError: LastError };

export interface LastError {
  readonly at: string;
  readonly message: string;
}

/** What is done, or heard, again and again. */
export interface Upkeep {
  /** When it last succeeded; left out if it never has. */
  readonly last?: string;
  /** Why it has not succeeded since, though it is tried again and again; left out while nothing is wrong. */
  readonly error?: LastError;
}

export interface ClusterStatus {
  /** Host and port. */
  readonly server: string;
  readonly connection: ConnectionStatus;
  /** By renewing it the node says that it lives. */
  readonly lease: Upkeep;
  /** The Node object: it is registered, and its status reported. */
  readonly nodeStatus: Upkeep;
  /** The watch of this node's pods: its last event or bookmark. */
  readonly watch: Upkeep;
}

/** What `berth status` is told. */
export interface AgentStatus {
  readonly node: { readonly name: string; readonly version: string };
  readonly runtime: RuntimeState;
  /** Left out where the node stands alone. */
  readonly cluster?: ClusterStatus;
  /** How many pods there are of each phase. */
  readonly pods: Readonly<Record<string, number>>;
  /** How many pods are not as they should be, by the word for why; left out while none is. `berth pods` says more. */
  readonly unwell?: Readonly<Record<string, number>>;
  /** The images that are being pulled, the longest pull first; left out while none is. */
  readonly pulls?: readonly { readonly image: string; readonly since: string }[];
  /** How many manifests are refused; `berth pods` says why. */
  readonly refused: number;
}

export interface StatusParts {
  readonly node: AgentStatus["node"];
  readonly report: NodeReport;
  readonly cluster: ClusterStatus | undefined;
  readonly pods: readonly Pick<PodSummary, "phase" | "reason" | "message" | "status">[];
  /** Those of all pods. */
  readonly pulls?: readonly { readonly image: string; readonly since: number }[];
}

/** Sums up the agent's state. */
export function agentStatus({ node, report, cluster, pods, pulls = [] }: StatusParts): AgentStatus {
  // Pods of one image wait for one pull.
  const since = new Map<string, number>();
  for (const pull of pulls.toSorted((one, other) => one.since - other.since))
    since.set(pull.image, since.get(pull.image) ?? pull.since);
  const unwell = countsOf(pods.flatMap((pod) => whyUnwell(pod) ?? []));
  return {
    node,
    runtime: report.runtime,
    ...(cluster && { cluster }),
    pods: countsOf(pods.map(({ phase }) => phase || "Unknown")),
    ...(Object.keys(unwell).length > 0 && { unwell }),
    ...(since.size > 0 && { pulls: [...since].map(([image, at]) => ({ image, since: formatTime(at) })) }),
    refused: report.refused.length,
  };
}

function countsOf(words: readonly string[]): Readonly<Record<string, number>> {
  const groups = Object.entries(Object.groupBy(words, (word) => word));
  return Object.fromEntries(groups.map(([word, all = []]) => [word, all.length]));
}

/** What a pod shows that only begins, has done a part of its work, or ends. */
const ON_ITS_WAY = /^(?:ContainerCreating|PodInitializing|Completed|Terminating|Init:\d+\/\d+)$/;

/**
 * Why a pod is not as it should be, in the word of `berth pods`; `NotReady`, as `kubectl get pods` has it, where its probes alone say so. A pod
 * that has ended is told by its phase.
 */
function whyUnwell({ phase, reason, message, status }: StatusParts["pods"][number]): string | undefined {
  if (phase === "Succeeded" || phase === "Failed" || ON_ITS_WAY.test(reason)) return undefined;
  if (reason !== "") return reason;
  // What is said of the pod as a whole is that nobody could look at it yet.
  return message === "" || status.message !== undefined ? undefined : "NotReady";
}
