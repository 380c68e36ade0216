import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** The requests of one node within a time range. */
export interface NodeRequests {
  readonly leaseRenewals: number;
  readonly statusReports: number;
  /** Watches that were opened. The server ends each after five to ten minutes, and the client resumes it. */
  readonly watches: number;
  /** All other requests, such as `get nodes`. */
  readonly others: readonly string[];
}

/** The fields of an audit event (audit.k8s.io/v1) that the benchmark reads. */
export interface AuditEvent {
  readonly auditID: string;
  readonly verb: string;
  readonly user: { readonly username: string };
  readonly objectRef?: { readonly resource?: string; readonly subresource?: string };
  readonly requestReceivedTimestamp: string;
  /** The start of the response of a watch, or the end of the request. */
  readonly stageTimestamp?: string;
  readonly responseStatus?: { readonly code?: number };
}

/** The API server's audit log: it counts requests independently of the compared programs. */
export interface AuditLog {
  /** The API server's flags that enable the log. */
  readonly flags: readonly string[];
  requestsOf(nodeName: string, from: number, until: number): Promise<NodeRequests>;
  /** All requests of the node so far. */
  eventsOf(nodeName: string): Promise<readonly AuditEvent[]>;
}

/**
 * When the API server received the first request after `since` that succeeded; milliseconds since the epoch, Infinity if there is none. The
 * time that it takes to answer is not in it.
 */
export function firstSuccessAt(events: readonly AuditEvent[], since: number): number {
  const succeeded = events.filter(
    ({ requestReceivedTimestamp, responseStatus }) =>
      Date.parse(requestReceivedTimestamp) > since && (responseStatus?.code ?? 500) < 400,
  );
  return Math.min(...succeeded.map(({ requestReceivedTimestamp }) => Date.parse(requestReceivedTimestamp)));
}

/** Configures an audit log in `folder`, for nodes only and in batch mode, which does not delay responses. */
export async function createAuditLog(folder: string): Promise<AuditLog> {
  const [policy, log] = [join(folder, "audit-policy.json"), join(folder, "audit.log")];
  const nodesOnly = [{ level: "Metadata", userGroups: ["system:nodes"] }, { level: "None" }];
  const rules = { apiVersion: "audit.k8s.io/v1", kind: "Policy", omitStages: ["RequestReceived"], rules: nodesOnly };
  await writeFile(policy, JSON.stringify(rules));
  const readAll = async () => {
    const lines = (await readFile(log, "utf8")).split("\n").filter((line) => line !== "");
    return lines.map((line) => JSON.parse(line) as AuditEvent);
  };
  return {
    flags: [`--audit-policy-file=${policy}`, `--audit-log-path=${log}`, "--audit-log-mode=batch"],
    async requestsOf(nodeName, from, until) {
      return countRequests(await readAll(), nodeName, from, until);
    },
    async eventsOf(nodeName) {
      return (await readAll()).filter(({ user }) => user.username === `system:node:${nodeName}`);
    },
  };
}

/** Counts each request once, although the log has several stages of it: the start and the end of a watch. */
export function countRequests(
  events: readonly AuditEvent[],
  nodeName: string,
  from: number,
  until: number,
): NodeRequests {
  const own = events.filter(({ user, requestReceivedTimestamp }) => {
    const at = Date.parse(requestReceivedTimestamp);
    return user.username === `system:node:${nodeName}` && at >= from && at < until;
  });
  const requests = [...new Map(own.map((event) => [event.auditID, event])).values()];
  const kinds = requests.map(kindOf);
  const count = (kind: string) => kinds.filter((one) => one === kind).length;
  return {
    leaseRenewals: count("lease"),
    statusReports: count("status"),
    watches: count("watch"),
    others: requests.filter((_, at) => kinds[at] === "other").map(describeRequest),
  };
}

export function kindOf({
  verb,
  objectRef: { resource, subresource } = {},
}: AuditEvent): "lease" | "status" | "watch" | "other" {
  if (verb === "watch") return "watch";
  if (resource === "leases" && verb === "update") return "lease";
  return resource === "nodes" && subresource === "status" && verb === "patch" ? "status" : "other";
}

export const describeRequest = ({ verb, objectRef: { resource, subresource } = {} }: AuditEvent) =>
  [verb, resource, subresource].filter((word) => word !== undefined).join(" ");
