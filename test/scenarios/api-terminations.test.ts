// Terminations of API pods: deletions, deadlines, readiness gates, sidecars and hooks, with the agent dying after any
// call.
import { expect, test } from "bun:test";
import { pods } from "../../kube/resource.ts";
import type { Container } from "../../proto/kubernetes/gen/types.ts";
import { settlePromises } from "../fakes/clock.ts";
import { apiScenario, runInCluster } from "./api-scenario.ts";
import type { ExpectedRegression } from "./harness/expected-regressions.ts";
import type { AgentHarness } from "./harness.ts";

const container = (name: string, more: Partial<Container> = {}): Container => ({
  name,
  image: "busybox:1",
  imagePullPolicy: "IfNotPresent",
  ...more,
});
const sidecar = (name: string) => container(name, { restartPolicy: "Always" });

/** The starts and ends of these pods are alike, and other scenarios die after every one of their calls. */
const EVERY_THIRD_CALL = { stride: 3 };

/** The exits in order, with the whole seconds since the first change on the node: `20s a`. */
const exitsOf = ({ runtime: { timeline } }: AgentHarness) =>
  timeline
    .filter(({ kind, change }) => kind === "container" && change === "stopped")
    .map(({ at, role }) => `${Math.floor((at - (timeline[0]?.at ?? 0)) / 1000)}s ${role.split("/")[1]}`);

apiScenario(
  "a second deletion shortens the grace period, and a third one cannot extend it",
  async (harness) => {
    harness.runtime.programs.set("a", { onTerm: "ignores" });
    await harness.apply("web", { terminationGracePeriodSeconds: 60 });
    await harness.advance("5s");
    await harness.deletePod("web");
    await harness.advance("5s");
    await harness.deletePod("web", 10);
    await harness.advance("2s");
    await harness.deletePod("web", 40);
    await harness.advance("20s");
  },
  async (end, harness) => {
    expect(end).toEqual({ node: [], api: [] });
    expect(exitsOf(harness)).toEqual(["20s a"]);
  },
  EVERY_THIRD_CALL,
);

apiScenario(
  "a force-deleted pod is stopped on the node while a new pod of the same name starts",
  async (harness) => {
    harness.runtime.programs.set("a", { onTerm: "ignores" });
    await harness.apply("web", { terminationGracePeriodSeconds: 20 });
    await harness.advance("5s");
    await harness.deletePod("web", 0);
    await harness.apply("web", { containers: [container("b")] });
    await harness.advance("60s");
  },
  async ({ node, api }) => {
    expect(api).toEqual(["web Running, ready: b running"]);
    expect(node.filter((line) => /^(sandbox|container)/.test(line))).toEqual([
      "container web/b #0 running",
      "sandbox web #0 ready",
    ]);
  },
  EVERY_THIRD_CALL,
);

const unreadyAtDeadline: readonly ExpectedRegression[] = [
  { pod: "web", rule: "being ready", why: "A pod past its deadline is PodFailed while its containers still stop." },
];

apiScenario(
  "a pod that exceeds activeDeadlineSeconds fails and stays until a user deletes it",
  async (harness) => {
    await harness.apply("web", { activeDeadlineSeconds: 20, terminationGracePeriodSeconds: 3 });
    await harness.advance("60s");
  },
  async ({ api }, harness) => {
    expect(api).toEqual(["web Failed (DeadlineExceeded): a terminated Error 143"]);
    await harness.deletePod("web");
    await harness.advance("20s");
    expect([harness.nodeSnapshot(), await harness.apiPods()]).toEqual([[], []]);
  },
  { ...EVERY_THIRD_CALL, node: { regressions: unreadyAtDeadline } },
);

test("a pod is not ready any more, and its event is there, as soon as its deadline has passed", async () => {
  const harness = await runInCluster(
    async (node) => {
      node.runtime.programs.set("a", { onTerm: "ignores" });
      await node.apply("web", { activeDeadlineSeconds: 20, terminationGracePeriodSeconds: 30 });
    },
    { regressions: unreadyAtDeadline },
  );
  await harness.advance("21s");
  const { status } = await harness.kube.user.get(pods("default"), "web");
  const shown = status?.conditions?.map(({ type, status: is, reason }) => `${type} ${is} ${reason ?? ""}`);
  expect([status?.phase, status?.containerStatuses?.[0]?.state]).toEqual(["Running", { running: expect.anything() }]);
  expect(shown).toContain("Ready False PodFailed");
  expect(shown).toContain("ContainersReady False PodFailed");
  expect(await harness.events("web")).toContain(
    "1x Normal DeadlineExceeded: Pod was active on the node longer than the specified deadline",
  );
});

apiScenario(
  "a pod is ready only when the conditions of its readiness gates are True",
  async (harness) => {
    await harness.apply("web", { readinessGates: [{ conditionType: "example.com/open" }] });
    await harness.advance("5s");
    expect(await harness.apiPods()).toEqual(["web Running: a running"]);
    const open = { type: "example.com/open", status: "True" as const, lastTransitionTime: "2026-01-01T00:00:00Z" };
    const body = { status: { conditions: [open] } };
    await harness.kube.user.patch(pods("default"), "web", { type: "strategic", body, subresource: "status" });
    await settlePromises();
    await harness.advance("5s");
  },
  async ({ api }) => {
    expect(api).toEqual(["web Running, ready: a running"]);
  },
  EVERY_THIRD_CALL,
);

apiScenario(
  "a job with sidecars succeeds, and its sidecars stop after it in reverse order",
  async (harness) => {
    harness.runtime.programs.set("work", { exitsAfterMs: 10_000, exitCode: 0 });
    await harness.apply("job", {
      restartPolicy: "Never",
      initContainers: [sidecar("early"), container("first"), sidecar("late")],
      containers: [container("work")],
    });
    await harness.advance("1s");
    if (harness.runtime.containers.size > 0) await harness.exit("first", 0);
    await harness.advance("60s");
  },
  async ({ api }, harness) => {
    expect(api).toEqual([
      "job Succeeded: init early terminated Error 143, init first terminated Completed 0, init late terminated Error 143, work terminated Completed 0",
    ]);
    expect(exitsOf(harness).map((line) => line.split(" ")[1])).toEqual(["first", "work", "late", "early"]);
  },
  EVERY_THIRD_CALL,
);

apiScenario(
  "a deleted pod runs its preStop hook before its container stops, and is then removed",
  async (harness) => {
    harness.runtime.commands.set("drain", { lastsMs: 4000 });
    const lifecycle = { preStop: { exec: { command: ["drain"] } } };
    await harness.apply("web", { terminationGracePeriodSeconds: 20, containers: [container("a", { lifecycle })] });
    await harness.advance("5s");
    await harness.deletePod("web");
    await harness.advance("40s");
  },
  async (end, harness) => {
    expect(end).toEqual({ node: [], api: [] });
    expect(exitsOf(harness)).toEqual(["9s a"]);
  },
  EVERY_THIRD_CALL,
);
