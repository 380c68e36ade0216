import { expect, test } from "bun:test";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { emptyObservedPod } from "../../../test/fakes/observed-pod.ts";
import { emptyMemory } from "../pod/memory.ts";
import type { ObservedContainer, ObservedPod } from "../pod/observed.ts";
import { decidePod } from "../pod/pod.ts";
import { isInitialized, startableContainers } from "./initialization.ts";

const now = 1_000_000_000;
const here = "here" as SandboxId;

const pod: Pod = {
  metadata: { uid: "u", name: "web", namespace: "default" },
  spec: {
    initContainers: [
      { name: "first", image: "busybox:1" },
      { name: "proxy", image: "busybox:1", restartPolicy: "Always" },
      { name: "last", image: "busybox:1" },
    ],
    containers: [{ name: "app", image: "busybox:1" }],
    restartPolicy: "Always",
  },
};

/** `first exited 0`, `proxy running`, `app created`; with `(old)` in another sandbox. */
function instance(text: string): ObservedContainer {
  const [name = "", state = "", rest = ""] = text.split(" ");
  return {
    id: text as ContainerId,
    name,
    sandboxId: text.endsWith("(old)") ? ("old" as SandboxId) : here,
    attempt: 0,
    createdAt: now - 9_000,
    image: "busybox:1",
    imageRef: "sha256:1",
    hash: undefined,
    crashes: 0,
    state,
    startedAt: now - 8_000,
    finishedAt: now - 1_000,
    exitCode: Number(rest),
    reason: "",
    message: "",
  } as ObservedContainer;
}

const observedWith = (...instances: readonly string[]): ObservedPod => ({
  ...emptyObservedPod("u" as PodUid, "default", "web"),
  sandboxes: [{ id: here, attempt: 0, createdAt: 0, ready: true, ips: ["10.0.0.2"], hostNetwork: false, crashes: 0 }],
  containers: instances.map(instance),
});

const rows: readonly (readonly string[])[] = [
  [],
  ["first created"],
  ["first running"],
  ["first exited 1"],
  ["first exited 0"],
  ["proxy created", "first exited 0"],
  ["proxy running", "first exited 0"],
  ["proxy exited 1", "first exited 0"],
  ["last running", "proxy running", "first exited 0"],
  ["last running", "proxy exited 1", "first exited 0"],
  ["last exited 1", "proxy running"],
  ["last exited 0", "proxy running"],
  ["last exited 0"],
  ["app created", "proxy running"],
  ["app exited 1"],
  ["app exited 0 (old)", "last exited 0 (old)", "proxy exited 137 (old)", "first exited 0 (old)"],
  ["first running", "app exited 0 (old)", "last exited 0 (old)"],
];

test("the startable containers follow from the instances of three init containers, the second a sidecar", () => {
  const table = rows.map((row) => {
    const observed = observedWith(...row);
    const startable = startableContainers(pod, observed, here).map(({ name }) => name);
    const initializedPrefix = isInitialized(pod, observed, here) ? "initialized: " : "";
    return `${row.join(", ") || "nothing"} → ${initializedPrefix}${startable.join(", ")}`;
  });
  expect(`\n${table.join("\n")}\n`).toMatchInlineSnapshot(`
    "
    nothing → first
    first created → first
    first running → first
    first exited 1 → first
    first exited 0 → proxy
    proxy created, first exited 0 → proxy
    proxy running, first exited 0 → proxy, last
    proxy exited 1, first exited 0 → proxy
    last running, proxy running, first exited 0 → proxy, last
    last running, proxy exited 1, first exited 0 → proxy, last
    last exited 1, proxy running → proxy, last
    last exited 0, proxy running → initialized: proxy, app
    last exited 0 → initialized: proxy, app
    app created, proxy running → initialized: proxy, app
    app exited 1 → initialized: proxy, app
    app exited 0 (old), last exited 0 (old), proxy exited 137 (old), first exited 0 (old) → first
    first running, app exited 0 (old), last exited 0 (old) → first
    "
  `);
});

test("the status of a pod shows its initialization", () => {
  const settings = { maxContainerRestartPeriodMs: 300_000, runtimeName: "containerd", hostIPs: [] };
  const desired = { uid: "u" as PodUid, pod, source: { kind: "api" as const }, acceptedAt: 0, revision: 0 };
  const table = rows.map((row) => {
    const { status } = decidePod(desired, observedWith(...row), emptyMemory, settings, now);
    const initialized = status.conditions?.find(({ type }) => type === "Initialized");
    const ready = status.conditions?.find(({ type }) => type === "Ready");
    const words = [initialized?.status, initialized?.message, ready?.status, ready?.message].filter(Boolean).join(", ");
    const init = status.initContainerStatuses?.map(({ ready: isReady, started }) => `${isReady}/${started}`).join(" ");
    return `${row.join(", ") || "nothing"} → ${status.phase}; ${words}; ${init}`;
  });
  expect(`\n${table.join("\n")}\n`).toMatchInlineSnapshot(`
    "
    nothing → Pending; False, containers with incomplete status: [first proxy last], False, containers with unready status: [proxy app]; false/false false/false false/false
    first created → Pending; False, containers with incomplete status: [first proxy last], False, containers with unready status: [proxy app]; false/false false/false false/false
    first running → Pending; False, containers with incomplete status: [first proxy last], False, containers with unready status: [proxy app]; false/true false/false false/false
    first exited 1 → Pending; False, containers with incomplete status: [first proxy last], False, containers with unready status: [proxy app]; false/false false/false false/false
    first exited 0 → Pending; False, containers with incomplete status: [proxy last], False, containers with unready status: [proxy app]; true/false false/false false/false
    proxy created, first exited 0 → Pending; False, containers with incomplete status: [proxy last], False, containers with unready status: [proxy app]; true/false false/false false/false
    proxy running, first exited 0 → Pending; False, containers with incomplete status: [last], False, containers with unready status: [app]; true/false true/true false/false
    proxy exited 1, first exited 0 → Pending; False, containers with incomplete status: [proxy last], False, containers with unready status: [proxy app]; true/false false/false false/false
    last running, proxy running, first exited 0 → Pending; False, containers with incomplete status: [last], False, containers with unready status: [app]; true/false true/true false/true
    last running, proxy exited 1, first exited 0 → Pending; False, containers with incomplete status: [proxy last], False, containers with unready status: [proxy app]; true/false false/false false/true
    last exited 1, proxy running → Pending; False, containers with incomplete status: [last], False, containers with unready status: [app]; true/false true/true false/false
    last exited 0, proxy running → Pending; True, False, containers with unready status: [app]; true/false true/true true/false
    last exited 0 → Pending; False, containers with incomplete status: [proxy], False, containers with unready status: [proxy app]; true/false false/false true/false
    app created, proxy running → Pending; True, False, containers with unready status: [app]; true/false true/true true/false
    app exited 1 → Running; True, False, containers with unready status: [proxy app]; true/false false/false true/false
    app exited 0 (old), last exited 0 (old), proxy exited 137 (old), first exited 0 (old) → Pending; True, False, containers with unready status: [proxy app]; true/false false/false true/false
    first running, app exited 0 (old), last exited 0 (old) → Pending; True, False, containers with unready status: [proxy app]; false/true false/false true/false
    "
  `);
});

test("a pod that is deleted before it is initialized is Failed and still shows what it was waiting for", () => {
  const settings = { maxContainerRestartPeriodMs: 300_000, runtimeName: "containerd", hostIPs: [] };
  const termination = { requestedAt: now, gracePeriodSeconds: 30, why: "it was deleted" };
  const desired = {
    uid: "u" as PodUid,
    pod,
    source: { kind: "api" as const },
    acceptedAt: 0,
    revision: 0,
    termination,
  };
  const { status } = decidePod(desired, observedWith("first exited 1"), emptyMemory, settings, now);
  expect(status.phase).toBe("Failed");
  expect(status.conditions?.find(({ type }) => type === "Ready")).toMatchObject({
    reason: "ContainersNotReady",
    message: "containers with unready status: [proxy app]",
  });
});
