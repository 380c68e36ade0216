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

test("pods of one image wait for one pull, and the longest is told first", () => {
  const report = { refused: [], runtime: { state: "ready" } } as const;
  const pulls = [
    { image: "b:1", since: 5_000 },
    { image: "a:1", since: 9_000 },
    { image: "a:1", since: 2_000 },
  ];
  expect(agentStatus({ node, report, cluster: undefined, phases: [], pulls }).pulls).toEqual([
    { image: "a:1", since: "1970-01-01T00:00:02Z" },
    { image: "b:1", since: "1970-01-01T00:00:05Z" },
  ]);
});
