import type { StatusResponse } from "../../../proto/cri/gen/api.ts";

/**
 * The status of a runtime whose pod network cannot serve ADD for a reason that the runtime does not know, since it calls only the
 * delegate. What the runtime itself reports comes first.
 */
export function withNetworkProblem(response: StatusResponse, problem: string | undefined): StatusResponse {
  const { status } = response;
  if (problem === undefined || status === undefined) return response;
  const conditions = status.conditions.map((condition) =>
    condition.type === "NetworkReady" && condition.status
      ? {
          ...condition,
          status: false,
          reason: "NetworkPluginNotReady",
          message: `Network plugin returns error: ${problem}`,
        }
      : condition,
  );
  return { ...response, status: { ...status, conditions } };
}
