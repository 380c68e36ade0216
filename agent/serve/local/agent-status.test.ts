import { expect, test } from "bun:test";
import type { PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { agentStatus } from "./agent-status.ts";

const node = { name: "a", version: "v1" };
const podOf = (phase: string, reason = "", message = "", status: PodStatus = {}) => ({
  phase,
  reason,
  message,
  status,
});

const probe = "main is not ready: Readiness probe failed: no route";
const words: readonly [sentence: string, pod: ReturnType<typeof podOf>, word: string | undefined][] = [
  ["in a crash loop", podOf("Running", "CrashLoopBackOff", "back-off 10s"), "CrashLoopBackOff"],
  ["whose init container is in one", podOf("Pending", "Init:CrashLoopBackOff"), "Init:CrashLoopBackOff"],
  ["without its image", podOf("Pending", "ErrImagePull", "no such image"), "ErrImagePull"],
  ["that cannot end", podOf("Running", "KillPodSandboxError", "no network"), "KillPodSandboxError"],
  ["of which a container has failed for good", podOf("Running", "Error", "it exited with code 1"), "Error"],
  ["whose probe has failed", podOf("Running", "", probe), "NotReady"],
  ["that is well", podOf("Running"), undefined],
  ["that nobody could look at", podOf("Pending", "", "no word", { message: "no word" }), undefined],
  ["that begins", podOf("Pending", "ContainerCreating", "image x is being pulled"), undefined],
  ["that initializes", podOf("Pending", "Init:1/2"), undefined],
  ["that has initialized", podOf("Pending", "PodInitializing"), undefined],
  ["of which a container is done", podOf("Running", "Completed"), undefined],
  ["that ends", podOf("Running", "Terminating"), undefined],
  ["that has succeeded", podOf("Succeeded", "Completed"), undefined],
  ["that has failed, as its phase says", podOf("Failed", "DeadlineExceeded"), undefined],
];
for (const [sentence, pod, word] of words)
  test(`a pod ${sentence} is ${word === undefined ? "not unwell" : `unwell: ${word}`}`, () => {
    const report = { refused: [], runtime: { state: "ready" } } as const;
    expect(agentStatus({ node, report, cluster: undefined, pods: [pod, pod] }).unwell).toEqual(
      word === undefined ? undefined : { [word]: 2 },
    );
  });

test("pods are counted by their phase, and manifests that are refused", () => {
  const refused = [{ file: "/web.yaml", problem: "line 8" }];
  const pods = ["Running", "Pending", "", "Running"].map((phase) => podOf(phase));
  expect(agentStatus({ node, report: { refused, runtime: { state: "ready" } }, cluster: undefined, pods })).toEqual({
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
  expect(agentStatus({ node, report, cluster: undefined, pods: [], pulls }).pulls).toEqual([
    { image: "a:1", since: "1970-01-01T00:00:02Z" },
    { image: "b:1", since: "1970-01-01T00:00:05Z" },
  ]);
});
