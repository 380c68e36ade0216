import type { RuntimeCondition, StatusResponse } from "../../../proto/cri/gen/api.ts";

/** The response with another condition NetworkReady; the same response if it has none. */
export function withNetworkReady(
  response: StatusResponse,
  change: (condition: RuntimeCondition) => RuntimeCondition,
): StatusResponse {
  const { status } = response;
  if (status === undefined) return response;
  const conditions = status.conditions.map((condition) =>
    condition.type === "NetworkReady" ? change(condition) : condition,
  );
  return { ...response, status: { ...status, conditions } };
}

/**
 * The status of a runtime whose pod network cannot serve ADD for a reason that the runtime does not know, since it calls only the
 * delegate. What the runtime itself reports comes first.
 */
export function withNetworkProblem(response: StatusResponse, problem: string | undefined): StatusResponse {
  if (problem === undefined) return response;
  const message = `Network plugin returns error: ${problem}`;
  return withNetworkReady(response, (condition) =>
    condition.status ? { ...condition, status: false, reason: "NetworkPluginNotReady", message } : condition,
  );
}

/** The status of a runtime that does not call the delegate, though the agent executes the network. The runtime's own words come first. */
export function withUnusedDelegate(response: StatusResponse, problem: string | undefined): StatusResponse {
  if (problem === undefined) return response;
  return withNetworkReady(response, (condition) => ({
    ...condition,
    status: false,
    reason: condition.status ? "NetworkPluginNotReady" : condition.reason,
    message: condition.status || condition.message === "" ? problem : `${condition.message}: ${problem}`,
  }));
}
