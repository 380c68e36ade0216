import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** The requests of one node in some time. */
export interface Requests {
  readonly leaseRenewals: number;
  readonly statusReports: number;
  /** Watches that began. The server ends each after five to ten minutes, and it is resumed where it ended. */
  readonly watches: number;
  /** Everything else, such as `get nodes`. */
  readonly others: readonly string[];
}

/** What the API server notes of a request (audit.k8s.io/v1), as far as it is read here. */
export interface AuditEvent {
  readonly auditID: string;
  readonly verb: string;
  readonly user: { readonly username: string };
  readonly objectRef?: { readonly resource?: string; readonly subresource?: string };
  readonly requestReceivedTimestamp: string;
}

/** The API server's own note of who asked for what: nobody has to be believed. */
export interface AuditLog {
  /** The flags of the API server that make it keep the log. */
  readonly flags: readonly string[];
  requestsOf(nodeName: string, from: number, until: number): Promise<Requests>;
}

/** Keeps the log in `folder`, of nodes only, written beside the requests and not before their answers. */
export async function createAuditLog(folder: string): Promise<AuditLog> {
  const [policy, log] = [join(folder, "audit-policy.json"), join(folder, "audit.log")];
  const nodesOnly = [{ level: "Metadata", userGroups: ["system:nodes"] }, { level: "None" }];
  const rules = { apiVersion: "audit.k8s.io/v1", kind: "Policy", omitStages: ["RequestReceived"], rules: nodesOnly };
  await writeFile(policy, JSON.stringify(rules));
  return {
    flags: [`--audit-policy-file=${policy}`, `--audit-log-path=${log}`, "--audit-log-mode=batch"],
    async requestsOf(nodeName, from, until) {
      const lines = (await readFile(log, "utf8")).split("\n").filter((line) => line !== "");
      const events = lines.map((line) => JSON.parse(line) as AuditEvent);
      return countRequests(events, nodeName, from, until);
    },
  };
}

/** Each request once, whatever stages of it are in the log: a watch has its beginning there and its end. */
export function countRequests(events: readonly AuditEvent[], nodeName: string, from: number, until: number): Requests {
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
    others: requests.filter((_, at) => kinds[at] === "other").map(describe),
  };
}

function kindOf({
  verb,
  objectRef: { resource, subresource } = {},
}: AuditEvent): "lease" | "status" | "watch" | "other" {
  if (verb === "watch") return "watch";
  if (resource === "leases" && verb === "update") return "lease";
  return resource === "nodes" && subresource === "status" && verb === "patch" ? "status" : "other";
}

const describe = ({ verb, objectRef: { resource, subresource } = {} }: AuditEvent) =>
  [verb, resource, subresource].filter((word) => word !== undefined).join(" ");
