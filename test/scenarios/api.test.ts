// API pods on a node of fakes: their status and events as users see them, also after the agent dies after any of its
// calls.
import { expect, test } from "bun:test";
import { KubeError } from "../../kube/error.ts";
import { pods } from "../../kube/resource.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { FakeClock } from "../fakes/clock.ts";
import { apiScenario, finalStateOf, inCluster, runInCluster } from "./api-scenario.ts";
import type { ExpectedRegression } from "./harness/expected-regressions.ts";
import { createHarness, makePod } from "./harness.ts";

const unreachable = () => new KubeError("UNREACHABLE", "connection refused");

apiScenario(
  "an API pod runs, is reported with events, and is removed from the API after its deletion",
  async (harness) => {
    await harness.apply("web", { terminationGracePeriodSeconds: 7 });
    await harness.advance("5s");
    await harness.deletePod("web");
    await harness.advance("30s");
  },
  async (end, harness) => {
    expect(end).toEqual({ node: [], api: [] });
    expect(await harness.events("web")).toMatchInlineSnapshot(`
      [
        "1x Normal Pulled: Container image "busybox:1" already present on machine and can be accessed by the pod",
        "1x Normal Created: Container created",
        "1x Normal Started: Container started",
        "1x Normal Killing: Stopping container a",
      ]
    `);
  },
);

apiScenario(
  "a container that has exited with restartPolicy Never is not started again",
  async (harness) => {
    await harness.apply("job", { restartPolicy: "Never" });
    await harness.advance("5s");
    if (harness.runtime.containers.size > 0) await harness.exit("a", 3);
    await harness.advance("30s");
  },
  async ({ api }) => {
    expect(api).toEqual(["job Failed: a terminated Error 3"]);
  },
);

apiScenario(
  "deleting a pod during an image pull cancels the pull and removes the pod at once",
  async (harness) => {
    harness.runtime.registry.set("slow:1", undefined);
    harness.runtime.before.pullImage = () =>
      new Promise((resolve) => void harness.clock.wakeAt(harness.clock.now() + 600_000, resolve));
    await harness.apply("web", { containers: [{ name: "a", image: "slow:1", imagePullPolicy: "IfNotPresent" }] });
    await harness.advance("2s");
    await harness.deletePod("web", 30);
    await harness.advance("2s");
  },
  async (end, harness) => {
    expect(end).toEqual({ node: [], api: [] });
    expect(harness.runtime.calls.filter((call) => call.startsWith("pullImage"))).toEqual(["pullImage slow:1"]);
    expect(harness.runtime.cancelledCalls).toEqual(["pullImage slow:1"]);
    expect(await harness.events("web")).toEqual(['1x Normal Pulling: Pulling image "slow:1"']);
  },
);

test("a pod that is already terminating when the agent first sees it never starts and is removed from the API", async () => {
  const harness = await createHarness(inCluster);
  await harness.apply("web");
  await harness.deletePod("web", 30);
  await harness.start();
  await harness.advance("5s");
  expect(await finalStateOf(harness)).toEqual({ node: [], api: [] });
  expect(harness.runtime.timeline).toEqual([]);
});

test("a pod that was force-deleted while the agent was down is stopped when the agent is back", async () => {
  const harness = await runInCluster((first) => first.apply("web", { terminationGracePeriodSeconds: 7 }));
  await harness.advance("5s");
  await harness.stop();
  await harness.deletePod("web", 0);
  expect(harness.nodeSnapshot().some((line) => line.includes("running"))).toBe(true);
  await harness.start();
  await harness.advance("30s");
  expect(await finalStateOf(harness)).toEqual({ node: [], api: [] });
});

test("a pod that was bound and deleted while the agent was down is never started", async () => {
  const harness = await runInCluster(async () => {});
  await harness.stop();
  await harness.apply("web");
  await harness.deletePod("web", 0);
  await harness.start();
  await harness.advance("5s");
  expect([harness.nodeSnapshot(), harness.runtime.timeline]).toEqual([[], []]);
});

apiScenario(
  "a container reported as Completed is not restarted when the runtime has lost its exit code",
  async (harness) => {
    await harness.apply("job", {
      restartPolicy: "OnFailure",
      containers: makePod("job", {}, ["a", "b"]).spec.containers,
    });
    await harness.advance("5s");
    await harness.exit("a", 0);
    await harness.advance("5s");
    await harness.stop();
    // containerd reports this after it was killed before it had stored the exit.
    for (const each of harness.runtime.containers.values())
      if (each.config.metadata?.name === "a") Object.assign(each, { exitCode: 255, reason: "Unknown" });
    await harness.start();
    await harness.advance("1m");
  },
  async ({ api }, { runtime }) => {
    expect(api).toEqual(["job Running: a terminated Completed 0, b running"]);
    expect(runtime.containers.size).toBe(2);
  },
);

apiScenario(
  "a synthetic exit code does not decide the pod's phase until the API server's status was read",
  async (harness) => {
    const { containers } = makePod("job", {}, ["a", "b"]).spec;
    await harness.apply("job", { restartPolicy: "Never", containers });
    await harness.advance("5s");
    await harness.exit("a", 0);
    await harness.advance("5s");
    await harness.stop();
    harness.kube.goDown();
    // containerd reports this after it was killed before it had stored the exit.
    for (const each of harness.runtime.containers.values())
      if (each.config.metadata?.name === "a") Object.assign(each, { exitCode: 255, reason: "Unknown" });
    await harness.start();
    await harness.advance("5s");
    await harness.exit("b", 0);
    await harness.advance("1m");
    harness.kube.comeBack();
    await harness.advance("1m");
  },
  async ({ api }) => {
    expect(api).toEqual(["job Succeeded: a terminated Completed 0, b terminated Completed 0"]);
  },
);

test("an exit during an outage of the API server is reported when it is back", async () => {
  const harness = await runInCluster((first) => first.apply("job", { restartPolicy: "Never" }));
  await harness.advance("5s");
  harness.kube.goDown();
  await harness.exit("a", 3);
  await harness.advance("1m");
  harness.kube.comeBack();
  await harness.advance("1m");
  expect(await harness.apiPods()).toEqual(["job Failed: a terminated Error 3"]);
});

test("after a restart the agent reports the final status of a deleted pod that has left nothing on the node", async () => {
  const harness = await runInCluster((first) => first.apply("web", { terminationGracePeriodSeconds: 7 }));
  await harness.advance("5s");
  harness.runtime.programs.set("a", { onTerm: "ignores" });
  await harness.deletePod("web", 7);
  const seen: string[] = [];
  harness.kube.goDown();
  await harness.exit("a", 5);
  await harness.advance("30s");
  harness.kill();
  harness.kube.comeBack();
  harness.kube.before.delete = async () => void seen.push(...(await harness.apiPods()));
  await harness.start();
  await harness.advance("1m");
  expect(seen[0]).toBe("web Failed: a terminated Error 5");
  expect(await finalStateOf(harness)).toEqual({ node: [], api: [] });
});

test("a node that starts without its API server runs its known pods and reports them when it is back", async () => {
  const harness = await runInCluster((first) => first.apply("web"));
  await harness.advance("5s");
  await harness.stop();
  harness.kube.goDown();
  for (const { id } of harness.runtime.containers.values()) harness.runtime.exit(id, 1);
  await harness.start();
  await harness.advance("30s");
  expect(harness.podReports().map(({ status }) => status.containerStatuses?.[0]?.restartCount)).toEqual([1]);
  harness.kube.comeBack();
  await harness.advance("1m");
  expect(await harness.apiPods()).toEqual(["web Running, ready: a running (restarts: 1)"]);
});

test("an image that cannot be pulled causes the kubelet's waiting reasons and events", async () => {
  const harness = await runInCluster((first) =>
    first.apply("web", { containers: [{ name: "a", image: "gone:1", imagePullPolicy: "IfNotPresent" }] }),
  );
  await harness.advance("9s");
  expect(await harness.apiPods()).toEqual(["web Pending: a waiting ImagePullBackOff"]);
  expect(await harness.events("web")).toMatchInlineSnapshot(`
    [
      "1x Normal Pulling: Pulling image "gone:1"",
      "1x Warning Failed: Failed to pull image "gone:1": failed to resolve reference "gone:1"",
      "1x Warning Failed: Error: ErrImagePull",
      "1x Normal BackOff: Back-off pulling image "gone:1"",
      "1x Warning Failed: Error: ImagePullBackOff",
    ]
  `);
});

test("a pod with restartPolicy Never whose sandbox dies fails without a SandboxChanged event", async () => {
  const harness = await runInCluster((first) => first.apply("once", { restartPolicy: "Never" }));
  await harness.advance("2s");
  for (const id of harness.runtime.sandboxes.keys()) harness.runtime.exitSandbox(id);
  await harness.advance("5s");
  expect(await harness.apiPods()).toEqual(["once Failed: a terminated Error 143"]);
  expect((await harness.events("once")).at(-1)).toBe("1x Normal Killing: Stopping container a");
  expect((await harness.events("once")).filter((line) => line.includes("SandboxChanged"))).toEqual([]);
});

test("a crash loop increments the count of its events", async () => {
  const harness = await createHarness(inCluster);
  harness.runtime.programs.set("a", { exitsAfterMs: 100, exitCode: 1 });
  await harness.start();
  await harness.apply("web");
  await harness.advance("1m");
  expect(await harness.events("web")).toMatchInlineSnapshot(`
    [
      "4x Normal Pulled: Container image "busybox:1" already present on machine and can be accessed by the pod",
      "4x Normal Created: Container created",
      "4x Normal Started: Container started",
      "3x Warning BackOff: Back-off restarting failed container a in pod web_default(00000000-0000-4000-8000-000000000002)",
    ]
  `);
});

test("a static pod has a mirror pod, and deleting the mirror pod stops nothing", async () => {
  const harness = await runInCluster(async (first) => {
    await first.setManifests(makePod("web"));
    await first.advance("5s");
  });
  expect(await harness.apiPods()).toEqual([]);
  harness.agent.clusterSync?.onNodeChanged({ metadata: { uid: "node-uid" }, spec: {} });
  await harness.advance("1s");
  expect(await harness.apiPods()).toEqual(["web Running, ready: a running"]);
  await harness.deletePod("web-node", 0);
  await harness.advance("1s");
  expect(await harness.apiPods()).toEqual(["web Running, ready: a running"]);
  expect(harness.runtime.timeline.filter(({ change }) => change === "stopped")).toEqual([]);
  await harness.setManifests();
  await harness.advance("1m");
  expect(await finalStateOf(harness)).toEqual({ node: [], api: [] });
});

test("no mirror pod is created while the Node is being deleted; the next Node gets one", async () => {
  const harness = await runInCluster(async (first) => {
    await first.setManifests(makePod("web"));
    first.agent.clusterSync?.onNodeChanged({
      metadata: { uid: "node-uid", deletionTimestamp: "2026-01-01T00:00:00Z" },
      spec: {},
    });
    await first.advance("1m");
  });
  expect(await harness.apiPods()).toEqual([]);
  harness.agent.clusterSync?.onNodeChanged(undefined);
  harness.agent.clusterSync?.onNodeChanged({ metadata: { uid: "next-uid" }, spec: {} });
  await harness.advance("1s");
  expect(await harness.apiPods()).toEqual(["web Running, ready: a running"]);
});

test("a static pod with a duplicate name causes one event for as long as the conflict lasts", async () => {
  const harness = await runInCluster(async () => {});
  const pod = makePod("web");
  const { name, uid } = pod.metadata;
  const refuse = async (...duplicates: readonly Pod[]) => {
    harness.agent.desired.setManifestErrors("file", [], duplicates);
    await harness.advance("1m");
  };
  const what = `Error validating pod ${name}_default(${uid}) from file due to duplicate pod name "${name}", ignoring`;
  await refuse(pod);
  await refuse(pod);
  expect(await harness.events("web-node")).toEqual([`1x Warning FailedValidation: ${what}`]);
  await refuse();
  await refuse(pod);
  expect(await harness.events("web-node")).toEqual([`2x Warning FailedValidation: ${what}`]);
});

/** The restored manifest is another pod of the same uid, and its mirror pod is the one from before the outage. */
const anotherLife: readonly ExpectedRegression[] = [
  { rule: "address", why: "The pod has a new sandbox." },
  { label: "a", rule: "container id", why: "The container is the first of the new sandbox." },
  { label: "a", rule: "start", why: "The container has started after the one before the outage." },
].map((each) => ({ pod: "web-node", ...each }));

test("a manifest removed and restored during an outage of the API server is reported with its new container", async () => {
  const harness = await runInCluster(
    async (first) => {
      await first.setManifests(makePod("web"));
      first.agent.clusterSync?.onNodeChanged({ metadata: { uid: "node-uid" }, spec: {} });
      await first.advance("5s");
    },
    { regressions: anotherLife },
  );
  const reportedContainerID = async () =>
    (await harness.kube.user.list(pods(), {})).items[0]?.status?.containerStatuses?.[0]?.containerID;
  const before = await reportedContainerID();
  harness.kube.goDown();
  await harness.setManifests();
  await harness.advance("1m");
  await harness.setManifests(makePod("web"));
  await harness.advance("1m");
  harness.kube.comeBack();
  await harness.advance("1m");
  expect(await harness.apiPods()).toEqual(["web Running, ready: a running"]);
  expect(await reportedContainerID()).not.toBe(before);
});

test("without changes the agent sends no request to the API server", async () => {
  const harness = await runInCluster((first) => first.apply("web"));
  await harness.advance("30s");
  harness.kube.calls.length = 0;
  await harness.advance("4m");
  expect(harness.kube.calls.filter((call) => !call.startsWith("watch"))).toEqual([]);
  expect(harness.clock.now()).toBeGreaterThan(FakeClock.start);
});

test("a restart of the agent does not set a running pod back to Pending", async () => {
  const harness = await runInCluster((first) => first.apply("web"));
  await harness.advance("5s");
  const phases = new Set<string>();
  harness.kube.after.patch = async () => void phases.add((await harness.apiPods())[0] ?? "");
  await harness.stop();
  harness.kube.failures = { watch: [unreachable()] };
  await harness.start();
  await harness.advance("1m");
  expect([...phases].filter((line) => line.includes("Pending"))).toEqual([]);
});

/** The kubelet's words for a runtime that gives no reason. */
const NETWORK_PROBLEM = "container runtime network not ready: NetworkReady=false reason: message:";

test("a pod waits for the runtime's network with one event for each cause, and starts as soon as it is ready", async () => {
  const harness = await createHarness(inCluster);
  harness.runtime.conditions.NetworkReady = false;
  await harness.start();
  await harness.apply("web");
  await harness.advance("60s");
  expect(await harness.apiPods()).toEqual(["web Pending: a waiting ContainerCreating"]);
  const event = `Warning NetworkNotReady: network is not ready: ${NETWORK_PROBLEM}`;
  expect(await harness.events("web")).toEqual([`1x ${event}`]);
  harness.runtime.conditions.NetworkReady = "bridge is missing";
  await harness.advance("60s");
  const events = [`1x ${event}`, `1x ${event}bridge is missing`];
  expect(await harness.events("web")).toEqual(events);
  harness.runtime.conditions.NetworkReady = true;
  await harness.advance("30s");
  expect(await harness.apiPods()).toContain("web Running, ready: a running");
  expect((await harness.events("web")).filter((line) => line.includes("Warning"))).toEqual(events);
});
