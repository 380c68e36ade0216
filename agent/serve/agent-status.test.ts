import { expect, test } from "bun:test";
import { agentStatus } from "./agent-status.ts";

const node = { name: "a", version: "v1" };

test("pods are counted by their phase, and manifests that are refused", () => {
  const refused = [{ file: "/web.yaml", problem: "line 8" }];
  const phases = ["Running", "Pending", undefined, "Running"];
  expect(agentStatus({ node, report: { refused, runtime: { state: "ready" } }, cluster: undefined, phases })).toEqual({
    node,
    runtime: { state: "ready" },
    pods: { Running: 2, Pending: 1, Unknown: 1 },
    refused: 1,
  });
});
