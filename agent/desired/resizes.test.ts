import { expect, test } from "bun:test";
import type { PodUid } from "../../proto/ids.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { unconstrainedAdmission } from "../../test/fakes/admission.ts";
import { FakeClock, settlePromises } from "../../test/fakes/clock.ts";
import { FakeDisk } from "../../test/fakes/files.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import type { AdmissionDeps } from "./admission-queue.ts";
import { createPodCheckpoints } from "./pod-checkpoints.ts";
import { createDesiredPods } from "./pods.ts";

/** The desired pods of a node with four CPUs for pods, and what reaches the loop and the API's events. */
async function createNode(disk = new FakeDisk(() => 0), admission: AdmissionDeps = unconstrainedAdmission) {
  const clock = new FakeClock();
  const log = new FakeLog();
  const woken: string[] = [];
  const events: string[] = [];
  const desired = createDesiredPods({
    checkpoints: createPodCheckpoints(disk.at("/root"), log),
    clock,
    log,
    sourceKinds: ["api"],
    hasNoSource: false,
    admission,
    wake: (uid) => woken.push(uid),
    cancelOutdated: () => {},
    onManifestErrors: () => {},
    onAllSourcesReady: () => {},
    onResizeEvent: ({ metadata }, { reason }) => events.push(`${metadata.name} ${reason}`),
  });
  await desired.restore();
  const viewOf = (name: string) => {
    const view = desired.get(`${name}-1` as PodUid);
    if (view === undefined || view === "unknown") throw new Error(`${name} is not desired: ${view}`);
    return view;
  };
  return {
    disk,
    clock,
    log,
    desired,
    woken,
    takeEvents: () => events.splice(0),
    /** What the pod's containers are created with. */
    cpuOf: (name: string) => viewOf(name).pod.spec.containers[0]?.resources?.requests?.["cpu"],
    pendingOf: (name: string) => viewOf(name).allocation?.pending?.reason,
    list: (...pods: readonly Pod[]) => desired.applyApiUpdate({ kind: "complete", pods }),
    change: (pod: Pod) => desired.applyApiUpdate({ kind: "changed", pod }),
    remove: (name: string) => desired.applyApiUpdate({ kind: "gone", uid: `${name}-1` as PodUid }),
  };
}

const podOf = (name: string, cpu: string, generation = 1): Pod => ({
  metadata: { name, namespace: "shop", uid: `${name}-1`, generation },
  spec: { containers: [{ name: "a", image: "i", resources: { requests: { cpu } } }] },
});

test("a pod keeps what is allocated to it until the node accepts a resize, whatever its spec requests", async () => {
  const { list, change, cpuOf, pendingOf, takeEvents } = await createNode();
  await list(podOf("web", "1"), podOf("other", "2"));
  await change(podOf("web", "3", 2));
  expect([cpuOf("web"), pendingOf("web")]).toEqual(["1", "Deferred"]);
  await change(podOf("web", "2", 3));
  expect([cpuOf("web"), pendingOf("web")]).toEqual(["2", undefined]);
  expect(takeEvents()).toEqual(["web ResizeDeferred", "web ResizeStarted"]);
});

test("new pods are admitted against what is allocated, not against what is requested", async () => {
  const { list, change, desired, cpuOf } = await createNode();
  await list(podOf("web", "3"), podOf("other", "500m"));
  // It requests more than fits, and less than it has.
  await change(podOf("other", "3500m", 2));
  await change(podOf("small", "500m"));
  expect(desired.get("small-1" as PodUid)).not.toHaveProperty("admission");
  await change(podOf("large", "500m"));
  expect(desired.get("large-1" as PodUid)).toMatchObject({ admission: { kind: "rejected", reason: "OutOfcpu" } });
  expect(cpuOf("other")).toBe("500m");
});

test("a deferred resize is decided again when a pod shrinks or is gone, in the order of priority", async () => {
  const { list, change, remove, cpuOf, pendingOf } = await createNode();
  const urgent = (cpu: string, generation: number): Pod => {
    const { metadata, spec } = podOf("urgent", cpu, generation);
    return { metadata, spec: { ...spec, priority: 1000 } };
  };
  await list(podOf("big", "3"), podOf("web", "500m"), urgent("500m", 1));
  await change(podOf("web", "1500m", 2));
  await change(urgent("1500m", 2));
  expect([pendingOf("web"), pendingOf("urgent")]).toEqual(["Deferred", "Deferred"]);
  await change(podOf("big", "2", 2));
  expect([cpuOf("big"), cpuOf("urgent"), cpuOf("web")]).toEqual(["2", "1500m", "500m"]);
  await remove("big");
  // It may still run.
  expect(cpuOf("web")).toBe("1500m");
});

test("a resize that stays deferred is decided again every three minutes, without an event or a write", async () => {
  const node = { ...unconstrainedAdmission.node() };
  let isLarger = false;
  const allocatable = () => new Map([...node.allocatable, ...(isLarger ? ([["cpu", 8000n]] as const) : [])]);
  const admission = { ...unconstrainedAdmission, node: () => ({ ...node, allocatable: allocatable() }) };
  const { disk, clock, list, change, pendingOf, takeEvents } = await createNode(undefined, admission);
  await list(podOf("web", "1"), podOf("other", "2"));
  await change(podOf("web", "3", 2));
  takeEvents();
  disk.before = (verb) => {
    if (verb === "write") throw new Error("nothing is to be written");
  };
  await clock.advance(181_000);
  expect([pendingOf("web"), takeEvents()]).toEqual(["Deferred", []]);
  disk.before = () => undefined;
  isLarger = true;
  await clock.advance(181_000);
  expect([pendingOf("web"), takeEvents()]).toEqual([undefined, ["web ResizeStarted"]]);
});

test("a new agent knows what was allocated, and decides what the spec requests by then", async () => {
  const { disk, list, change, clock } = await createNode();
  await list(podOf("web", "1"), podOf("other", "2"));
  await change(podOf("web", "3", 2));
  const since = clock.now();
  const next = await createNode(disk);
  expect([next.cpuOf("web"), next.pendingOf("web")]).toEqual(["1", "Deferred"]);
  const view = next.desired.get("web-1" as PodUid);
  expect(view).toMatchObject({ allocation: { pending: { generation: 2, since } } });
  await next.list(podOf("web", "2", 3), podOf("other", "2"));
  expect([next.cpuOf("web"), next.takeEvents()]).toEqual(["2", ["web ResizeStarted"]]);
});

test("a pod of an earlier release has what its checkpoint requests", async () => {
  const { disk, list } = await createNode();
  await list(podOf("web", "1"));
  const root = disk.at("/root");
  const records = createPodCheckpoints(root, new FakeLog());
  for (const { allocation: _, ...pod } of await records.load()) await records.save(pod);
  expect(await root.read("berth/pods/web-1.json", 10_000)).not.toContain("allocat");
  const next = await createNode(disk);
  await next.list(podOf("web", "64", 2));
  expect([next.cpuOf("web"), next.pendingOf("web")]).toEqual(["1", "Infeasible"]);
});

test("a pod that another agent has admitted has what its status shows as allocated", async () => {
  const { list, cpuOf, pendingOf } = await createNode();
  const resized: Pod = {
    ...podOf("web", "64", 2),
    status: {
      startTime: "2026-01-01T00:00:00Z",
      containerStatuses: [
        {
          ...{ name: "a", image: "i", imageID: "", ready: true, restartCount: 0, containerID: "containerd://a" },
          allocatedResources: { cpu: "1" },
          resources: { requests: { cpu: "1" } },
        },
      ],
    },
  };
  await list(resized);
  expect([cpuOf("web"), pendingOf("web")]).toEqual(["1", "Infeasible"]);
});

test("the record of a decision is saved; one that was decided on an older record is not", async () => {
  const { disk, list, change, desired, takeEvents } = await createNode();
  await list(podOf("web", "1"));
  await change(podOf("web", "2", 2));
  const view = desired.get("web-1" as PodUid);
  if (view === undefined || view === "unknown" || view.allocation === undefined) throw new Error("it is not admitted");
  const status = { phase: "Running", conditions: [] } as const;
  const { started: _, ...allocation } = view.allocation;
  const completed = { type: "Normal", reason: "ResizeCompleted", message: "" } as const;
  takeEvents();
  desired.onStatusDecided(view, status, { allocation, events: [completed] });
  await settlePromises();
  expect(takeEvents()).toEqual(["web ResizeCompleted"]);
  expect(await disk.at("/root").read("berth/pods/web-1.json", 10_000)).not.toContain("started");
  desired.onStatusDecided(view, status, { allocation: view.allocation, events: [completed] });
  expect(takeEvents()).toEqual([]);
});
