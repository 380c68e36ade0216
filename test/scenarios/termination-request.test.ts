// A pod that a rule of the node ends for a made-up reason: its status, its condition, its event, and its restart rules,
// with the agent dying after any call.
import { expect } from "bun:test";
import type { NodeRule } from "../../agent/decide/node/node.ts";
import { isTerminal } from "../../agent/decide/sources/api-pod.ts";
import { pods } from "../../kube/resource.ts";
import { FakeClock } from "../fakes/clock.ts";
import type { ExpectedRegression } from "./harness/expected-regressions.ts";
import { type AgentHarness, makePod } from "./harness.ts";
import { filterLines, scenario } from "./scenario.ts";

const MESSAGE = "The node is drained for maintenance.";

/**
 * Ends the pods whose names start with `web`, five seconds after the start, and requests nothing later: an agent that
 * starts after that knows the request only from the pod's checkpoint.
 */
const maintenance: NodeRule = {
  name: "maintenance",
  decide({ pods: desired, now }) {
    const startsAt = FakeClock.start + 5_000;
    if (now < startsAt) return { lookAgainAt: startsAt };
    const drained = now > startsAt ? [] : desired.filter(({ pod }) => pod.metadata.name?.startsWith("web"));
    return {
      terminationRequests: drained.map(({ uid }) => ({
        uid,
        reason: "Maintenance",
        message: MESSAGE,
        disruption: { reason: "TerminationByKubelet", message: MESSAGE },
        gracePeriodSeconds: 10,
      })),
    };
  },
};

/** What a user sees of the pod in the API: its status, its condition `DisruptionTarget`, and its event. */
async function logApiPod(harness: AgentHarness, name: string): Promise<void> {
  const { status } = await harness.kube.user.get(pods("default"), name);
  const condition = status?.conditions?.find(({ type }) => type === "DisruptionTarget");
  const events = (await harness.events(name)).filter((line) => line.includes("Maintenance"));
  harness.appendLog([
    ...(await harness.apiPods()).map((line) => `shown: ${line}`),
    `shown: ${status?.reason}: ${status?.message}`,
    `shown: DisruptionTarget=${condition?.status} ${condition?.reason}: ${condition?.message}`,
    ...events.map((line) => `shown: ${line}`),
  ]);
  // These hold for each death of the agent, too; only the event may be recorded by two agents.
  expect([status?.phase, status?.reason, status?.message]).toEqual(["Failed", "Maintenance", MESSAGE]);
  expect(condition).toMatchObject({ status: "True", reason: "TerminationByKubelet", message: MESSAGE });
  expect(isTerminal(status) && events.length > 0).toBe(true);
}

/**
 * The kubelet, too, reports `PodFailed` while the containers of a pod that it ends still stop. It does so for a deadline
 * at once, and for an eviction with the next status.
 */
const unreadyAtEnd = (pod: string): ExpectedRegression => ({
  pod,
  rule: "being ready",
  why: "The outcome of the pod is decided before its containers have stopped.",
});

scenario(
  "a pod of the API that the node ends fails with the node's reason, and stays Failed until a user deletes it",
  {
    options: { isInCluster: true, nodeRules: [maintenance], regressions: [unreadyAtEnd("web")] },
    async run(harness) {
      harness.runtime.programs.set("slow", { onTerm: "ignores" });
      await harness.apply("web", {
        restartPolicy: "Always",
        containers: [
          { name: "a", image: "busybox:1", imagePullPolicy: "IfNotPresent" },
          { name: "slow", image: "busybox:1", imagePullPolicy: "IfNotPresent" },
        ],
      });
      await harness.advance("60s");
      await logApiPod(harness, "web");
      await harness.deletePod("web");
      await harness.advance("20s");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating, slow waiting ContainerCreating
      0s default/web: create the pod's log directory
      0s default/web: run sandbox (attempt 0): the pod has none
      0s default/web: create the pod's directories
      0s default/web: create container a (attempt 0): it has not run yet
      0s default/web: start container a (attempt 0)
      0s report web Pending: a running, slow waiting ContainerCreating
      0s default/web: create container slow (attempt 0): it has not run yet
      0s default/web: start container slow (attempt 0)
      0s report web Running, ready: a running, slow running
      5s report web Running, terminating: a running, slow running
      5s default/web: stop container a within 10s: The node is drained for maintenance.
      5s report web Running, terminating: a terminated Error 143, slow running
      15s default/web: stop container slow within 10s: The node is drained for maintenance.
      15s report web Failed (Maintenance), terminating: a terminated Error 143, slow terminated Error 137
      15s default/web: stop sandbox: The node is drained for maintenance.
      15s report web Failed (Maintenance), terminated: a terminated Error 143, slow terminated Error 137
      60s shown: web Failed (Maintenance): a terminated Error 143, slow terminated Error 137
      60s shown: Maintenance: The node is drained for maintenance.
      60s shown: DisruptionTarget=True TerminationByKubelet: The node is drained for maintenance.
      60s shown: 1x Warning Maintenance: The node is drained for maintenance.
      60s report web Failed (Maintenance), terminating: a terminated Error 143, slow terminated Error 137
      60s default/web: remove sandbox: it was deleted
      60s default/web: remove the pod's logs: it was deleted
      60s default/web: remove the pod's files: it was deleted
      60s report web Failed (Maintenance), finished: a terminated Error 143, slow terminated Error 137"
    `);
  },
);

scenario(
  "a static pod that the node ends is not started again until its manifest changes",
  {
    options: { isInCluster: true, nodeRules: [maintenance], regressions: [unreadyAtEnd("web-node")] },
    before: (harness) => harness.setManifests(makePod("web"), makePod("keep")),
    async run(harness) {
      await deliverNode(harness);
      await harness.advance("60s");
      await logApiPod(harness, "web-node");
      await harness.setManifests(makePod("web"), makePod("keep"));
      await harness.advance("60s");
      await harness.setManifests(makePod("web", { terminationGracePeriodSeconds: 20 }), makePod("keep"));
      await deliverNode(harness);
      await harness.advance("20s");
    },
  },
  (log) => {
    expect(filterLines(log, /^(?!.*keep)/)).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s web: create the pod's log directory
      0s web: run sandbox (attempt 0): the pod has none
      0s web: create the pod's directories
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s report web Running, ready: a running
      5s report web Running, terminating: a running
      5s web: stop container a within 10s: The node is drained for maintenance.
      5s report web Failed (Maintenance), terminating: a terminated Error 143
      5s web: stop sandbox: The node is drained for maintenance.
      5s report web Failed (Maintenance), terminated: a terminated Error 143
      62s shown: web Failed (Maintenance): a terminated Error 143
      62s shown: Maintenance: The node is drained for maintenance.
      62s shown: DisruptionTarget=True TerminationByKubelet: The node is drained for maintenance.
      62s shown: 1x Warning Maintenance: The node is drained for maintenance.
      122s report web Failed (Maintenance), terminating: a terminated Error 143
      122s report web Pending: a waiting ContainerCreating
      122s web: remove sandbox: its manifest has changed
      122s web: remove the pod's logs: its manifest has changed
      122s web: remove the pod's files: its manifest has changed
      122s report web Failed (Maintenance), finished: a terminated Error 143
      122s web: create the pod's log directory
      122s web: run sandbox (attempt 0): the pod has none
      122s web: create the pod's directories
      122s web: create container a (attempt 0): it has not run yet
      122s web: start container a (attempt 0)
      122s report web Running, ready: a running"
    `);
  },
);

scenario(
  "the node ends a pod without a cluster, too",
  {
    options: { nodeRules: [maintenance] },
    before: (harness) => harness.setManifests(makePod("web"), makePod("keep")),
    run: (harness) => harness.advance("60s"),
  },
  (log) => {
    expect(filterLines(log, /^(?!.*keep)/)).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s web: create the pod's log directory
      0s web: run sandbox (attempt 0): the pod has none
      0s web: create the pod's directories
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s report web Running, ready: a running
      5s report web Running, terminating: a running
      5s web: stop container a within 10s: The node is drained for maintenance.
      5s report web Failed (Maintenance), terminating: a terminated Error 143
      5s web: stop sandbox: The node is drained for maintenance.
      5s report web Failed (Maintenance), terminated: a terminated Error 143"
    `);
  },
);

/** Ends every pod within half a minute at first, and within two seconds from the tenth second on. */
const hurried: NodeRule = {
  name: "hurried",
  decide({ pods: desired, now }) {
    const [startsAt, hurriesAt] = [FakeClock.start + 5_000, FakeClock.start + 10_000];
    if (now < startsAt) return { lookAgainAt: startsAt };
    const gracePeriodSeconds = now < hurriesAt ? 30 : 2;
    return {
      terminationRequests: desired.map(({ uid }) => ({
        uid,
        reason: "Maintenance",
        message: MESSAGE,
        gracePeriodSeconds,
      })),
      ...(now < hurriesAt && { lookAgainAt: hurriesAt }),
    };
  },
};

scenario(
  "a later request of the node shortens the grace period of the first",
  {
    options: { nodeRules: [hurried] },
    async before(harness) {
      harness.runtime.programs.set("a", { onTerm: "ignores" });
      await harness.setManifests(makePod("web", { terminationGracePeriodSeconds: 60 }));
    },
    run: (harness) => harness.advance("60s"),
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s web: create the pod's log directory
      0s web: run sandbox (attempt 0): the pod has none
      0s web: create the pod's directories
      0s web: create container a (attempt 0): it has not run yet
      0s web: start container a (attempt 0)
      0s report web Running, ready: a running
      5s report web Running, terminating: a running
      12s web: stop container a within 2s: The node is drained for maintenance.
      12s report web Failed (Maintenance), terminating: a terminated Error 137
      12s web: stop sandbox: The node is drained for maintenance.
      12s report web Failed (Maintenance), terminated: a terminated Error 137"
    `);
  },
);

/** Delivers the Node object, without which there are no mirror pods, to the current agent. */
async function deliverNode(harness: AgentHarness): Promise<void> {
  harness.agent.clusterSync?.onNodeChanged({ metadata: { uid: "node-uid" }, spec: {} });
  await harness.advance("2s");
}
