import { formatTime } from "../../../proto/kubernetes/values/time.ts";
import type { LocalNodeReport, RuntimeState } from "../../decide/node/local-node-report.ts";
import type { PodSummary } from "./pod-list.ts";
import { podState } from "./pod-state.ts";

/** Times are RFC 3339. */
export type ConnectionStatus =
  /** Since its start the agent has received neither a response nor an error. */
  | { readonly state: "connecting" }
  | { readonly state: "connected"; readonly since: string; readonly lastError?: LastError }
  /** Since the first failure; the agent keeps retrying. */
  | { readonly state: "away"; readonly since: string; readonly lastError: LastError };

export interface LastError {
  readonly at: string;
  readonly message: string;
}

/** A periodic task, such as the lease's renewal. */
export interface PeriodicTask {
  /** The time of the last success; absent if there was none. */
  readonly last?: string;
  /** Why it fails since then; absent while it succeeds. */
  readonly error?: LastError;
}

export interface ClusterStatus {
  /** Host and port. */
  readonly server: string;
  readonly connection: ConnectionStatus;
  /** The renewal of the node's Lease, its heartbeat. */
  readonly lease: PeriodicTask;
  /** The registration of the Node object and the reports of its status. */
  readonly nodeStatus: PeriodicTask;
  /** The watch of this node's pods: its last event or bookmark. */
  readonly watch: PeriodicTask;
}

/** The JSON of `berth status -o json`. */
export interface AgentStatus {
  readonly node: { readonly name: string; readonly version: string };
  readonly runtime: RuntimeState;
  /** Why pods without host network cannot start, in the words of the runtime and of Berth; absent if the network is ready. */
  readonly networkProblem?: string;
  /** Absent on a standalone node. */
  readonly cluster?: ClusterStatus;
  /** Where the node's API is served: address and port. Absent if it is not. */
  readonly api?: string;
  /** The number of pods by phase. */
  readonly pods: Readonly<Record<string, number>>;
  /** The number of pods by the state that `berth pods` shows. Agents of earlier releases omit this. */
  readonly states?: Readonly<Record<string, number>>;
  /** The number of pods that are not ready, by reason; absent if there are none. `berth pods` shows details. */
  readonly notReady?: Readonly<Record<string, number>>;
  /** The number of pods that have failed, by state; absent if there are none. `berth pods` shows why. */
  readonly failed?: Readonly<Record<string, number>>;
  /**
   * The number of Secrets, ConfigMaps and tokens that pods use as they were kept on the disk, because the API server has
   * not answered since the start; absent if there are none.
   */
  readonly kept?: number;
  /** The images that are being pulled, the longest pull first; absent if there are none. */
  readonly pulls?: readonly { readonly image: string; readonly since: string }[];
  /** The number of rejected manifests; `berth pods` shows why. */
  readonly refused: number;
}

export interface AgentStatusInput {
  readonly node: AgentStatus["node"];
  readonly report: LocalNodeReport;
  readonly cluster: ClusterStatus | undefined;
  readonly api?: string | undefined;
  readonly pods: readonly Pick<PodSummary, "phase" | "reason" | "message" | "failure" | "status">[];
  readonly keptReferences?: number;
  /** The image pulls in progress, of all pods; `since` is in milliseconds since the epoch. */
  readonly pulls?: readonly { readonly image: string; readonly since: number }[];
}

/** Summarises the agent's state for `berth status`. */
export function summarizeAgent({
  node,
  report,
  cluster,
  api,
  pods,
  keptReferences = 0,
  pulls = [],
}: AgentStatusInput): AgentStatus {
  // Pods of the same image count as one pull.
  const since = new Map<string, number>();
  for (const pull of pulls.toSorted((one, other) => one.since - other.since))
    since.set(pull.image, since.get(pull.image) ?? pull.since);
  const notReady = countsOf(pods.flatMap((pod) => notReadyReason(pod) ?? []));
  const failed = countsOf(pods.filter(({ phase }) => phase === "Failed").map(podState));
  return {
    node,
    runtime: report.runtime,
    ...(report.networkProblem !== undefined && { networkProblem: report.networkProblem }),
    ...(cluster && { cluster }),
    ...(api !== undefined && { api }),
    pods: countsOf(pods.map(({ phase }) => phase || "Unknown")),
    states: countsOf(pods.map(podState)),
    ...(Object.keys(notReady).length > 0 && { notReady }),
    ...(Object.keys(failed).length > 0 && { failed }),
    ...(keptReferences > 0 && { kept: keptReferences }),
    ...(since.size > 0 && { pulls: [...since].map(([image, at]) => ({ image, since: formatTime(at) })) }),
    refused: report.refused.length,
  };
}

function countsOf(values: readonly string[]): Readonly<Record<string, number>> {
  const groups = Object.entries(Object.groupBy(values, (value) => value));
  return Object.fromEntries(groups.map(([value, all = []]) => [value, all.length]));
}

/** The reasons of pods that start, complete or terminate normally. */
const NORMAL_REASON = /^(?:ContainerCreating|PodInitializing|Completed|Terminating|Init:\d+\/\d+)$/;

/**
 * Why a pod is not ready: the reason that `berth pods` shows, the failure because of which it does not start, or `NotReady`
 * if only its probes fail. Undefined for a pod that is ready, starting, terminating or has ended (its phase shows that).
 */
function notReadyReason({
  phase,
  reason,
  message,
  failure,
  status,
}: AgentStatusInput["pods"][number]): string | undefined {
  if (phase === "Succeeded" || phase === "Failed") return undefined;
  if (NORMAL_REASON.test(reason)) return reason === "Terminating" ? undefined : failure;
  if (reason !== "") return reason;
  // A message of the pod itself means that it could not be observed yet.
  return message === "" || status.message !== undefined ? undefined : "NotReady";
}
