import { expect, test } from "bun:test";
import { CriError } from "../../cri/error.ts";
import { Image } from "../../proto/cri/gen/api.ts";
import { formatTime } from "../../proto/kubernetes/values/time.ts";
import { type AgentHarness, createHarness, makePod } from "./harness.ts";
import { filterLines, scenario } from "./scenario.ts";

const podOf = (name: string, image: string) => makePod(name, { containers: [{ name: "a", image }] });

/** Makes images pullable, with this duration for every pull. */
function slowRegistry(harness: AgentHarness, ms: number, ...images: readonly string[]): void {
  for (const image of images) harness.runtime.registry.set(image, undefined);
  harness.runtime.before.pullImage = () =>
    new Promise((resolve) => void harness.clock.wakeAt(harness.clock.now() + ms, resolve));
}

const pullsOf = (harness: AgentHarness) => harness.runtime.calls.filter((call) => call.startsWith("pullImage"));
const waitingReasons = (harness: AgentHarness) =>
  harness.podReports().flatMap(({ pod, status }) => {
    const { reason, message } = status.containerStatuses?.[0]?.state?.waiting ?? {};
    return reason === undefined ? [] : [`${pod.metadata.name} shows ${reason}: ${message}`];
  });

scenario(
  "pods share the pull of one image, and a pull of another image waits for it",
  {
    options: { parallelPulls: 1 },
    before: (harness) => slowRegistry(harness, 5000, "app:1", "app:2"),
    async run(harness) {
      await harness.setManifests(podOf("a", "app:1"), podOf("b", "app:1"), podOf("c", "app:2"));
      await harness.advance("60s");
    },
  },
  (log) => {
    expect(log).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report a Pending: a waiting ContainerCreating
      0s report b Pending: a waiting ContainerCreating
      0s report c Pending: a waiting ContainerCreating
      0s a: create the pod's log directory
      0s b: create the pod's log directory
      0s c: create the pod's log directory
      0s a: run sandbox (attempt 0): the pod has none
      0s b: run sandbox (attempt 0): the pod has none
      0s c: run sandbox (attempt 0): the pod has none
      0s a: create the pod's directories
      0s b: create the pod's directories
      0s c: create the pod's directories
      5s a: pull image app:1: it is not on this node
      5s b: pull image app:1: it is not on this node
      5s a: create container a (attempt 0): it has not run yet
      5s b: create container a (attempt 0): it has not run yet
      5s a: start container a (attempt 0)
      5s b: start container a (attempt 0)
      5s report a Running, ready: a running
      5s report b Running, ready: a running
      10s c: pull image app:2: it is not on this node
      10s c: create container a (attempt 0): it has not run yet
      10s c: start container a (attempt 0)
      10s report c Running, ready: a running"
    `);
  },
);

// Not a scenario: with this many pods a run for every call after which the agent can die takes a minute.
test("forty pods of one missing image cause one pull", async () => {
  const harness = await createHarness({ parallelPulls: 1 });
  slowRegistry(harness, 5000, "app:1");
  await harness.start();
  await harness.setManifests(...Array.from({ length: 40 }, (_, n) => podOf(`web-${n}`, "app:1")));
  await harness.advance("10s");
  expect(pullsOf(harness)).toEqual(["pullImage app:1"]);
  expect(harness.podReports().filter(({ status }) => status.phase === "Running")).toHaveLength(40);
});

scenario(
  "pods with imagePullPolicy Always share only a pull that started after their request",
  {
    before: (harness) => slowRegistry(harness, 5000, "app:latest"),
    async run(harness) {
      const pods = Array.from({ length: 5 }, (_, n) => podOf(`web-${n}`, "app"));
      await harness.setManifests(...pods.slice(0, 3));
      await harness.advance("1s");
      await harness.setManifests(...pods);
      await harness.advance("20s");
      harness.appendLog(pullsOf(harness));
    },
  },
  (log) => {
    expect(filterLines(log, /pull|ready/)).toMatchInlineSnapshot(`
      "5s web-0: pull image app:latest: its pull policy is Always
      5s web-1: pull image app:latest: its pull policy is Always
      5s web-2: pull image app:latest: its pull policy is Always
      5s report web-0 Running, ready: a running
      5s report web-1 Running, ready: a running
      5s report web-2 Running, ready: a running
      10s web-3: pull image app:latest: its pull policy is Always
      10s web-4: pull image app:latest: its pull policy is Always
      10s report web-3 Running, ready: a running
      10s report web-4 Running, ready: a running
      21s pullImage app:latest
      21s pullImage app:latest"
    `);
  },
);

scenario(
  "a pod that waits for a pull reports whether the pull is queued or running",
  {
    options: { parallelPulls: 1 },
    before: (harness) => slowRegistry(harness, 5000, "app:1", "app:2"),
    async run(harness) {
      await harness.setManifests(podOf("a", "app:1"), podOf("b", "app:2"));
      await harness.advance("1s");
      harness.appendLog(waitingReasons(harness));
      await harness.advance("5s");
      harness.appendLog(waitingReasons(harness));
      await harness.advance("20s");
    },
  },
  (log) => {
    expect(filterLines(log, /pull|ready/)).toMatchInlineSnapshot(`
      "1s a-node shows ContainerCreating: image "app:1" is being pulled since 2026-01-01T00:00:00Z
      1s b-node shows ContainerCreating: the pull of image "app:2" waits for earlier pulls
      5s a: pull image app:1: it is not on this node
      5s report a Running, ready: a running
      6s b-node shows ContainerCreating: image "app:2" is being pulled since 2026-01-01T00:00:05Z
      10s b: pull image app:2: it is not on this node
      10s report b Running, ready: a running"
    `);
  },
);

scenario(
  "the removal of a pod does not cancel a pull that another pod waits for",
  {
    before: (harness) => slowRegistry(harness, 5000, "app:1"),
    async run(harness) {
      await harness.setManifests(podOf("a", "app:1"), podOf("b", "app:1"));
      await harness.advance("1s");
      await harness.setManifests(podOf("b", "app:1"));
      await harness.advance("10s");
      harness.appendLog(pullsOf(harness));
    },
  },
  (log) => {
    expect(filterLines(log, /pull|ready|finished/)).toMatchInlineSnapshot(`
      "1s report a Pending, finished: a terminated ContainerStatusUnknown 137
      5s b: pull image app:1: it is not on this node
      5s report b Running, ready: a running
      11s pullImage app:1"
    `);
  },
);

test("a long pull is reported by events and log lines after one and after five minutes", async () => {
  const harness = await createHarness({ isInCluster: true });
  slowRegistry(harness, 6 * 60_000, "app:1");
  await harness.start();
  await harness.apply("web", { containers: [{ name: "a", image: "app:1" }] });
  await harness.advance("5m");
  const pullStartedAt = formatTime(harness.clock.now() - 300_000);
  expect(waitingReasons(harness)).toEqual([
    `web shows ContainerCreating: image "app:1" is being pulled since ${pullStartedAt}`,
  ]);
  expect(harness.podReports()[0]?.pulls).toEqual([
    { image: "app:1", since: harness.clock.now() - 300_000, attempt: 1 },
  ]);
  await harness.advance("30m");
  expect([harness.podReports()[0]?.pulls, harness.podReports()[0]?.status.phase]).toEqual([[], "Running"]);
  expect((await harness.events("web")).slice(0, 4)).toEqual([
    '1x Normal Pulling: Pulling image "app:1"',
    '1x Normal Pulling: Still pulling image "app:1" after 1m0s',
    '1x Normal Pulling: Still pulling image "app:1" after 5m0s',
    expect.stringMatching(/^1x Normal Pulled: Successfully pulled image "app:1" in 6m0s/),
  ]);
  expect(harness.log.filter((line) => line.includes("still being pulled"))).toEqual([
    "60s default/web: an image is still being pulled after 1m0s",
    "300s default/web: an image is still being pulled after 5m0s",
  ]);
});

test("all images of a pod are pulled at once, while its init containers start in order", async () => {
  // A short lag, since the log has the times.
  const harness = await createHarness({ hasShortLag: true });
  const images = ["init:1", "init:2", "app:1"];
  const durations = new Map([
    ["pullImage init:1", 1_000],
    ["pullImage init:2", 5_000],
    ["pullImage app:1", 3_000],
  ]);
  for (const image of images) harness.runtime.registry.set(image, undefined);
  harness.runtime.before.pullImage = (image) =>
    new Promise(
      (resolve) => void harness.clock.wakeAt(harness.clock.now() + (durations.get(`pullImage ${image}`) ?? 0), resolve),
    );
  for (const name of ["one", "two"]) harness.runtime.programs.set(name, { exitsAfterMs: 1_000 });
  await harness.start();
  const initContainers = [
    { name: "one", image: "init:1" },
    { name: "two", image: "init:2" },
  ];
  await harness.setManifests(makePod("web", { initContainers, containers: [{ name: "a", image: "app:1" }] }));
  await harness.advance("0s");
  expect(pullsOf(harness)).toEqual(images.map((image) => `pullImage ${image}`));
  await harness.advance("10s");
  expect(filterLines(harness.takeLog(), /pull image|start container|ready/)).toMatchInlineSnapshot(`
    "1s web: pull image init:1: it is not on this node
    1s web: start container one (attempt 0)
    3s web: pull image app:1: it is not on this node
    5s web: pull image init:2: it is not on this node
    5s web: start container two (attempt 0)
    6s web: start container a (attempt 0)
    6s report web Running, ready: init one terminated Completed 0, init two terminated Completed 0, a running"
  `);
});

test("ImageInspectError names the image as the pod spells it", async () => {
  const harness = await createHarness();
  const failure = () => new CriError("INTERNAL", "ImageStatus", "the store is broken");
  harness.runtime.failures.imageStatus = Array.from({ length: 9 }, failure);
  await harness.start();
  await harness.setManifests(
    makePod("web", { containers: [{ name: "a", image: "app", imagePullPolicy: "IfNotPresent" }] }),
  );
  await harness.advance("1s");
  expect(waitingReasons(harness)).toEqual([
    'web-node shows ImageInspectError: Failed to inspect image "app": rpc error: code = Internal desc = the store is broken',
  ]);
});

test("after an import under the same name, new pods and restarts use the new image", async () => {
  const harness = await createHarness();
  const old = harness.runtime.addImage("app:1");
  await harness.start();
  const named = (name: string) =>
    makePod(name, { containers: [{ name, image: "app:1", imagePullPolicy: "IfNotPresent" }] });
  await harness.setManifests(named("one"), named("two"));
  await harness.advance("10s");
  const imported = { id: "sha256:imported", repoTags: ["app:1"], size: 1n };
  harness.runtime.images.set("app:1", Image.fromPartial(imported));
  harness.runtime.images.set("app:before", Image.fromPartial({ id: old, repoTags: ["app:before"], size: 1n }));
  await harness.setManifests(named("one"), named("two"), named("three"));
  await harness.exit("two", 1);
  await harness.advance("20s");
  const made = [...harness.runtime.containers.values()].map(
    ({ config }) => `${config.metadata?.name} of ${config.image?.image}`,
  );
  expect(made.toSorted()).toEqual(
    [`one of ${old}`, "three of sha256:imported", `two of ${old}`, "two of sha256:imported"].toSorted(),
  );
});

test("a pull passes the pod's annotations to the runtime", async () => {
  const harness = await createHarness();
  harness.runtime.registry.set("app:1", undefined);
  const pod = podOf("web", "app:1");
  await harness.start();
  await harness.setManifests({ ...pod, metadata: { ...pod.metadata, annotations: { "example.com/lazy": "yes" } } });
  await harness.advance("10s");
  expect(harness.runtime.pullAnnotations).toMatchObject([{ "example.com/lazy": "yes" }]);
  expect(Object.keys(harness.runtime.pullAnnotations[0] ?? {})).not.toContain("berth.dev/crashes");
});
