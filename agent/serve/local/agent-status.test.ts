import { expect, test } from "bun:test";
import type { PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { summarizeAgent } from "./agent-status.ts";

const node = { name: "a", version: "v1" };
const podOf = (phase: string, reason = "", message = "", status: PodStatus = {}, failure?: string) => ({
  phase,
  reason,
  message,
  ...(failure !== undefined && { failure }),
  status,
});

const probe = "main is not ready: Readiness probe failed: no route";
const cases: readonly [sentence: string, pod: ReturnType<typeof podOf>, word: string | undefined][] = [
  ["in a crash loop", podOf("Running", "CrashLoopBackOff", "back-off 10s"), "CrashLoopBackOff"],
  ["whose init container is in a crash loop", podOf("Pending", "Init:CrashLoopBackOff"), "Init:CrashLoopBackOff"],
  ["without its image", podOf("Pending", "ErrImagePull", "no such image"), "ErrImagePull"],
  ["that cannot be stopped", podOf("Running", "KillPodSandboxError", "no network"), "KillPodSandboxError"],
  ["with a container that failed for good", podOf("Running", "Error", "it exited with code 1"), "Error"],
  ["whose probe has failed", podOf("Running", "", probe), "NotReady"],
  [
    "whose volume cannot be mounted",
    podOf("Pending", "ContainerCreating", "not found", {}, "FailedMount"),
    "FailedMount",
  ],
  ["that cannot be ended", podOf("Running", "Terminating", "", {}, "FailedMount"), undefined],
  ["that runs though an update of a volume fails", podOf("Running", "", "", {}, "FailedMount"), undefined],
  ["that is ready", podOf("Running"), undefined],
  ["that could not be observed", podOf("Pending", "", "no response", { message: "no response" }), undefined],
  ["that starts", podOf("Pending", "ContainerCreating", "image x is being pulled"), undefined],
  ["that initializes", podOf("Pending", "Init:1/2"), undefined],
  ["that has initialized", podOf("Pending", "PodInitializing"), undefined],
  ["with a completed container", podOf("Running", "Completed"), undefined],
  ["that terminates", podOf("Running", "Terminating"), undefined],
  ["that has succeeded", podOf("Succeeded", "Completed"), undefined],
  ["that has failed", podOf("Failed", "DeadlineExceeded"), undefined],
];
for (const [sentence, pod, expected] of cases)
  test(`notReady ${expected === undefined ? "omits" : `counts as ${expected}`} a pod ${sentence}`, () => {
    const report = { refused: [], runtime: { state: "ready" } } as const;
    expect(summarizeAgent({ node, report, cluster: undefined, pods: [pod, pod] }).notReady).toEqual(
      expected === undefined ? undefined : { [expected]: 2 },
    );
  });

test("the status counts pods by phase and by the state of berth pods, and rejected manifests", () => {
  const refused = [{ file: "/web.yaml", problem: "line 8" }];
  const pods = [
    podOf("Running"),
    podOf("Pending"),
    podOf(""),
    podOf("Running", "Completed"),
    podOf("Succeeded", "Completed"),
    podOf("Failed", "OutOfcpu"),
    podOf("Failed"),
  ];
  expect(summarizeAgent({ node, report: { refused, runtime: { state: "ready" } }, cluster: undefined, pods })).toEqual({
    node,
    runtime: { state: "ready" },
    pods: { Running: 2, Pending: 1, Unknown: 1, Succeeded: 1, Failed: 2 },
    states: { Running: 2, Pending: 1, Unknown: 1, Succeeded: 1, OutOfcpu: 1, Failed: 1 },
    failed: { OutOfcpu: 1, Failed: 1 },
    refused: 1,
  });
});

test("the status has the reason of a network that is not ready", () => {
  const report = { refused: [], runtime: { state: "ready" }, networkProblem: "no network" } as const;
  expect(summarizeAgent({ node, report, cluster: undefined, pods: [] }).networkProblem).toBe("no network");
  const ready = { ...report, networkProblem: undefined };
  expect(summarizeAgent({ node, report: ready, cluster: undefined, pods: [] })).not.toHaveProperty("networkProblem");
});

test("the status lists one pull per image, the longest first", () => {
  const report = { refused: [], runtime: { state: "ready" } } as const;
  const pulls = [
    { image: "b:1", since: 5_000 },
    { image: "a:1", since: 9_000 },
    { image: "a:1", since: 2_000 },
  ];
  expect(summarizeAgent({ node, report, cluster: undefined, pods: [], pulls }).pulls).toEqual([
    { image: "a:1", since: "1970-01-01T00:00:02Z" },
    { image: "b:1", since: "1970-01-01T00:00:05Z" },
  ]);
});
