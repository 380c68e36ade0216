import { formatTime } from "../../proto/kubernetes/time.ts";
import type { NodeReport, RuntimeState } from "../decide/node-report.ts";

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
  /** The images that are being pulled, the longest pull first; left out while none is. */
  readonly pulls?: readonly { readonly image: string; readonly since: string }[];
  /** How many manifests are refused; `berth pods` says why. */
  readonly refused: number;
}

export interface StatusParts {
  readonly node: AgentStatus["node"];
  readonly report: NodeReport;
  readonly cluster: ClusterStatus | undefined;
  /** One for each pod. */
  readonly phases: readonly (string | undefined)[];
  /** Those of all pods. */
  readonly pulls?: readonly { readonly image: string; readonly since: number }[];
}

/** Sums up the agent's state. */
export function agentStatus({ node, report, cluster, phases, pulls = [] }: StatusParts): AgentStatus {
  // Pods of one image wait for one pull.
  const since = new Map<string, number>();
  for (const pull of pulls.toSorted((one, other) => one.since - other.since))
    since.set(pull.image, since.get(pull.image) ?? pull.since);
  const byPhase = Object.groupBy(phases, (phase) => phase ?? "Unknown");
  return {
    node,
    runtime: report.runtime,
    ...(cluster && { cluster }),
    pods: Object.fromEntries(Object.entries(byPhase).map(([phase, pods = []]) => [phase, pods.length])),
    ...(since.size > 0 && { pulls: [...since].map(([image, at]) => ({ image, since: formatTime(at) })) }),
    refused: report.refused.length,
  };
}
