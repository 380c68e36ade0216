import { expect, test } from "bun:test";
import { CriError } from "../../cri/error.ts";
import { PodSandboxConfig } from "../../proto/cri/gen/api.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { podNameLabel, podNamespaceLabel, podUidLabel } from "../../proto/kubernetes/well-known-names.ts";
import type { RuntimeVerb } from "../fakes/runtime-calls.ts";
import { type AgentHarness, createHarness, makePod } from "./harness.ts";
import { filterLines, scenario } from "./scenario.ts";

/** Calls of a verb for a matching subject that begin between the seconds `from` and `until` hang until `until`. */
function hang(
  { clock, runtime }: AgentHarness,
  verb: RuntimeVerb,
  matches: (about: string) => boolean,
  { from = 0, until = 30 }: { readonly from?: number; readonly until?: number } = {},
): void {
  const resumed = Promise.withResolvers<void>();
  const isTime = () => clock.elapsedMs >= from * 1000 && clock.elapsedMs < until * 1000;
  runtime.before[verb] = (about) => (isTime() && matches(about) ? resumed.promise : undefined);
  clock.wakeAt(clock.now() + until * 1000, resumed.resolve);
}

const isStuckSandbox = (harness: AgentHarness) => (about: string) =>
  [...harness.runtime.sandboxes.values()].some(
    ({ id, config }) => id === about && config.metadata?.name.startsWith("stuck"),
  );

scenario(
  "a call to the runtime that hangs fails at its deadline and is retried",
  {
    before: (harness) => hang(harness, "createContainer", () => true, { until: 200 }),
    async run(harness) {
      await harness.setManifests(makePod("web"));
      await harness.advance("10m");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s web: create the pod's log directory
      0s web: run sandbox (attempt 0): the pod has none
      0s web: create the pod's directories
      120s web: failed to create container a (attempt 0): it has not run yet: no answer within 120000 ms
      120s report web Pending: a waiting CreateContainerError
      200s web: create container a (attempt 0): it has not run yet
      200s web: start container a (attempt 0)
      200s report web Running, ready: a running"
    `);
  },
);

scenario(
  "a start that hangs releases its slot to others after ten seconds",
  {
    options: { startSlots: 2 },
    before: (harness) => hang(harness, "runPodSandbox", (about) => about.includes("stuck")),
    async run(harness) {
      await harness.setManifests(makePod("stuck-1"), makePod("stuck-2"), makePod("web"));
      await harness.advance("60s");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report stuck-1 Pending: a waiting ContainerCreating
      0s report stuck-2 Pending: a waiting ContainerCreating
      0s report web Pending: a waiting ContainerCreating
      0s stuck-1: create the pod's log directory
      0s stuck-2: create the pod's log directory
      0s stuck-1: create the pod's directories
      0s stuck-2: create the pod's directories
      10s web: create the pod's log directory
      10s web: run sandbox (attempt 0): the pod has none
      10s web: create the pod's directories
      10s web: create container a (attempt 0): it has not run yet
      10s web: start container a (attempt 0)
      10s report web Running, ready: a running
      30s stuck-1: run sandbox (attempt 0): the pod has none
      30s stuck-2: run sandbox (attempt 0): the pod has none
      30s stuck-1: create container a (attempt 0): it has not run yet
      30s stuck-2: create container a (attempt 0): it has not run yet
      30s stuck-1: start container a (attempt 0)
      30s stuck-2: start container a (attempt 0)
      30s report stuck-1 Running, ready: a running
      30s report stuck-2 Running, ready: a running"
    `);
  },
);

/** The runtime lists a sandbox of the pod, without an event. */
function listSilently({ runtime }: AgentHarness, { metadata }: Pod): void {
  const { name = "", namespace = "default", uid = "" } = metadata;
  const labels = { [podNameLabel]: name, [podNamespaceLabel]: namespace, [podUidLabel]: uid };
  runtime.losesEvents = true;
  runtime.addForeignSandbox(PodSandboxConfig.fromPartial({ metadata: { name, namespace, uid }, labels }));
  runtime.losesEvents = false;
}

for (const [when, lateMs] of [
  ["a second", 800],
  ["ten seconds", 9_000],
] as const)
  scenario(
    `a sandbox that the runtime lists ${when} after its start was aborted is removed`,
    {
      before: (harness) => void harness.runtime.hang("runPodSandbox"),
      async run(harness) {
        const web = makePod("web");
        await harness.setManifests(web);
        await harness.advance("2s");
        await harness.setManifests();
        harness.clock.wakeAt(harness.clock.now() + 8_000 + lateMs, () => listSilently(harness, web));
        // An agent that starts meanwhile finds it when it lists everything again.
        await harness.advance("6m");
      },
    },
    (log) => {
      const seconds = lateMs < 1_000 ? 11 : 20;
      expect(filterLines(log, /remove sandbox/)).toBe(`${seconds}s web: remove sandbox: no source asks for this pod`);
    },
  );

const stuckPods = [1, 2, 3, 4].map((number) => makePod(`stuck-${number}`));

scenario(
  "a teardown that hangs releases its slot to others after ten seconds",
  {
    before: (harness) => hang(harness, "stopPodSandbox", isStuckSandbox(harness)),
    async run(harness) {
      await harness.setManifests(...stuckPods, makePod("web"));
      harness.takeLog();
      await harness.setManifests();
      await harness.advance("60s");
    },
  },
  (log) => {
    expect(filterLines(log, /sandbox/)).toMatchInlineSnapshot(`
      "10s web: stop sandbox: its manifest is gone
      10s web: remove sandbox: its manifest is gone
      30s stuck-1: stop sandbox: its manifest is gone
      30s stuck-1: remove sandbox: its manifest is gone
      30s stuck-2: stop sandbox: its manifest is gone
      30s stuck-2: remove sandbox: its manifest is gone
      30s stuck-3: stop sandbox: its manifest is gone
      30s stuck-3: remove sandbox: its manifest is gone
      30s stuck-4: stop sandbox: its manifest is gone
      30s stuck-4: remove sandbox: its manifest is gone"
    `);
  },
);

scenario(
  "a sandbox removal that hangs does not block the removals of other pods",
  {
    before: (harness) => hang(harness, "removePodSandbox", isStuckSandbox(harness)),
    async run(harness) {
      await harness.setManifests(...stuckPods, makePod("web"));
      harness.takeLog();
      await harness.setManifests();
      await harness.advance("60s");
    },
  },
  (log) => {
    expect(filterLines(log, /sandbox/)).toMatchInlineSnapshot(`
      "0s stuck-1: stop sandbox: its manifest is gone
      0s stuck-2: stop sandbox: its manifest is gone
      0s stuck-3: stop sandbox: its manifest is gone
      0s stuck-4: stop sandbox: its manifest is gone
      0s web: stop sandbox: its manifest is gone
      10s web: remove sandbox: its manifest is gone
      30s stuck-1: remove sandbox: its manifest is gone
      30s stuck-2: remove sandbox: its manifest is gone
      30s stuck-3: remove sandbox: its manifest is gone
      30s stuck-4: remove sandbox: its manifest is gone"
    `);
  },
);

scenario(
  "a relist that hangs does not block starts and restarts, and its late result does not override newer state",
  {
    before: (harness) => hang(harness, "listContainers", (about) => about === "", { from: 300, until: 330 }),
    async run(harness) {
      await harness.setManifests(makePod("web"));
      await harness.advance("310s");
      harness.takeLog();
      await harness.exit("a", 1);
      await harness.setManifests(makePod("web"), makePod("other"));
      await harness.advance("70s");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "310s report web Running: a terminated Error 1
      310s web: create container a (attempt 1): it exited with code 1
      310s report web Running: a waiting ContainerCreating (restarts: 1)
      310s web: start container a (attempt 1)
      310s report web Running, ready: a running (restarts: 1)
      310s report other Pending: a waiting ContainerCreating
      310s other: create the pod's log directory
      310s other: run sandbox (attempt 0): the pod has none
      310s other: create the pod's directories
      310s other: create container a (attempt 0): it has not run yet
      310s other: start container a (attempt 0)
      310s report other Running, ready: a running"
    `);
  },
);

scenario(
  "an ImageStatus call that hangs delays only the pods that need the image",
  {
    before: (harness) => {
      harness.runtime.addImage("app:1");
      hang(harness, "imageStatus", (about) => about === "app:1");
    },
    async run(harness) {
      const image = "app:1";
      await harness.setManifests(makePod("stuck", { containers: [{ name: "a", image }] }), makePod("web"));
      await harness.advance("60s");
    },
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
      2s report stuck Pending: no containers
      30s report stuck Pending: a waiting ContainerCreating
      30s stuck: create the pod's log directory
      30s stuck: run sandbox (attempt 0): the pod has none
      30s stuck: create the pod's directories
      30s stuck: create container a (attempt 0): it has not run yet
      30s stuck: start container a (attempt 0)
      30s report stuck Running, ready: a running"
    `);
  },
);

scenario(
  "a pull that hangs delays only the pods that need a pull",
  {
    options: { parallelPulls: 1 },
    before: (harness) => {
      for (const image of ["app:1", "app:2"]) harness.runtime.registry.set(image, undefined);
      hang(harness, "pullImage", (about) => about === "app:1");
    },
    async run(harness) {
      const pulling = ["app:1", "app:2"].map((image, n) =>
        makePod(`p${n + 1}`, { containers: [{ name: "a", image }] }),
      );
      await harness.setManifests(...pulling);
      await harness.advance("20s");
      await harness.setManifests(...pulling, makePod("web"));
      await harness.advance("60s");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report p1 Pending: a waiting ContainerCreating
      0s report p2 Pending: a waiting ContainerCreating
      0s p1: create the pod's log directory
      0s p2: create the pod's log directory
      0s p1: run sandbox (attempt 0): the pod has none
      0s p2: run sandbox (attempt 0): the pod has none
      0s p1: create the pod's directories
      0s p2: create the pod's directories
      20s report web Pending: a waiting ContainerCreating
      20s web: create the pod's log directory
      20s web: run sandbox (attempt 0): the pod has none
      20s web: create the pod's directories
      20s web: create container a (attempt 0): it has not run yet
      20s web: start container a (attempt 0)
      20s report web Running, ready: a running
      30s p1: pull image app:1: it is not on this node
      30s p1: create container a (attempt 0): it has not run yet
      30s p2: pull image app:2: it is not on this node
      30s p1: start container a (attempt 0)
      30s p2: create container a (attempt 0): it has not run yet
      30s report p1 Running, ready: a running
      30s p2: start container a (attempt 0)
      30s report p2 Running, ready: a running"
    `);
  },
);

test("a pod whose container status cannot be read causes one FailedSync event for each outage", async () => {
  const harness = await createHarness({ isInCluster: true });
  const { runtime } = harness;
  const breakStatus = () => {
    runtime.before.containerStatus = () => {
      throw new CriError("UNKNOWN", "ContainerStatus", "the task is gone");
    };
  };
  const failedSyncEvents = async () => (await harness.events("web")).filter((line) => line.includes("FailedSync"));
  const message = "error determining status: rpc error: code = Unknown desc = the task is gone";
  await harness.apply("web");
  await harness.start();
  await harness.advance("5s");
  expect(await failedSyncEvents()).toEqual([]);
  breakStatus();
  await harness.exit("a", 1);
  await harness.advance("5m");
  expect(await failedSyncEvents()).toEqual([`1x Warning FailedSync: ${message}`]);
  delete runtime.before.containerStatus;
  await harness.advance("5m");
  expect(await harness.apiPods()).toEqual(["web Running, ready: a running (restarts: 1)"]);
  breakStatus();
  await harness.exit("a", 1);
  await harness.advance("1m");
  expect(await failedSyncEvents()).toEqual([`2x Warning FailedSync: ${message}`]);
});
