import { expect, test } from "bun:test";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { volumeNamed } from "../../../proto/kubernetes/volumes.ts";
import { emptyObservedPod } from "../../../test/fakes/observed-pod.ts";
import type { FailureKey } from "../actions/failure-key.ts";
import { createKeyMap } from "../actions/key-map.ts";
import { containerHash } from "../container/container-hash.ts";
import type { ClusterSettings } from "../settings.ts";
import { contentVersionOf } from "../volumes/volume-content.ts";
import { describe } from "./action.ts";
import { recordResult } from "./action-memory.ts";
import { emptyMemory, type FailureRecord, type PodMemory } from "./memory.ts";
import type { ObservedPod } from "./observed.ts";
import { decidePod } from "./pod.ts";
import type { PodResource } from "./resources.ts";

const uid = "u" as PodUid;
const now = 1_000_000_000;
const image = "busybox:1";
const key = "configmap default/settings";
const pod: Pod = {
  metadata: { uid, name: "web", namespace: "default" },
  spec: {
    containers: [
      { name: "a", image, volumeMounts: ["settings", "cache"].map((name) => ({ name, mountPath: `/${name}` })) },
    ],
    volumes: [
      { name: "settings", configMap: { name: "settings" } },
      { name: "cache", emptyDir: {} },
    ],
  },
};

const clusterAt = (version: string | undefined): ClusterSettings => ({
  areServicesRead: true,
  areRuntimeClassesRead: true,
  settledReferences: new Set(version === undefined ? [] : [key]),
  referenceVersions: new Map(version === undefined ? [] : [[key, version]]),
  hasReferencedKey: () => true,
  tokenVersions: new Map(),
  settledClaims: new Set<string>(),
});

const bare: readonly PodResource[] = [{ of: "podDirs" }, { of: "logDir" }];
const cache: PodResource = { of: "volume", name: "cache" };
const volume: PodResource = { of: "volume", name: "settings" };

const contentAt = (version: string): string =>
  contentVersionOf(pod, volumeNamed(pod, "settings") ?? { name: "" }, { cluster: clusterAt(version) }) ?? "";
const madeAt = (version: string): PodMemory => ({
  ...emptyMemory,
  madeResources: [...bare, cache, volume],
  volumeContents: new Map([["settings", contentAt(version)]]),
});
const failed = (memory: PodMemory, at: number): PodMemory => {
  const failure = { reason: "FailedMount", message: "m", at, count: 1, isOutage: false };
  return {
    ...memory,
    failures: createKeyMap<FailureKey, FailureRecord>([
      [{ of: "resource", resource: volume }, failure],
      [{ of: "volumeUpdate", name: "settings" }, failure],
    ]),
  };
};

const observedWith = (given: Partial<ObservedPod>): ObservedPod => ({
  ...emptyObservedPod(uid, "default", "web"),
  images: new Map([[image, { present: true, ref: "sha256:1", user: { uid: undefined, username: "" } }]]),
  resources: bare,
  ...given,
});
const sandbox = {
  id: "s" as SandboxId,
  attempt: 0,
  createdAt: now - 50_000,
  ready: true,
  ips: ["10.0.0.2"],
  hostNetwork: false,
  crashes: 0,
};
const instance = {
  id: "a0" as ContainerId,
  name: "a",
  sandboxId: sandbox.id,
  attempt: 0,
  createdAt: now - 40_000,
  image,
  imageRef: "sha256:1",
  hash: containerHash({ name: "a", image }),
  crashes: 0,
};
const fresh = observedWith({});
const up = observedWith({
  resources: [...bare, cache, volume],
  sandboxes: [sandbox],
  containers: [{ ...instance, state: "running", startedAt: now - 40_000 }],
});
const crashed = observedWith({
  ...up,
  containers: [
    {
      ...instance,
      state: "exited",
      startedAt: now - 90_000,
      finishedAt: now - 60_000,
      exitCode: 1,
      reason: "",
      message: "",
    },
  ],
});
const startedDirs: PodMemory = { ...emptyMemory, madeResources: bare };

/** The first read of the ConfigMap took longer than a second. */
const timedOut: ClusterSettings = { ...clusterAt(undefined), settledReferences: new Set([key]) };

const rows: readonly [
  sentence: string,
  observed: ObservedPod,
  memory: PodMemory,
  version: string | undefined | "timed out",
][] = [
  ["the ConfigMap is being read", fresh, startedDirs, undefined],
  ["the ConfigMap was read", fresh, startedDirs, "1"],
  ["the ConfigMap does not exist", fresh, startedDirs, "absent"],
  ["the set-up has just failed", fresh, failed({ ...startedDirs, madeResources: [...bare, cache] }, now), "absent"],
  ["all volumes are set up", observedWith({ resources: [...bare, cache, volume] }), madeAt("1"), "1"],
  [
    "the sandbox runs, and a set-up has failed",
    observedWith({ sandboxes: [sandbox] }),
    failed({ ...startedDirs, madeResources: [...bare, cache] }, now - 5_000),
    "1",
  ],
  [
    "the sandbox has failed, and a set-up, too",
    fresh,
    failed({ ...startedDirs, madeResources: [...bare, cache] }, now - 5_000),
    "1",
  ],
  ["the pod runs", up, madeAt("1"), "1"],
  ["the ConfigMap of a running pod changes", up, madeAt("1"), "2"],
  ["the ConfigMap of a running pod is deleted", up, madeAt("1"), "absent"],
  ["the update of a running pod has just failed", up, failed(madeAt("1"), now), "2"],
  ["a new agent finds a running pod", up, emptyMemory, "1"],
  ["a new agent finds a running pod, and the ConfigMap is being read", up, emptyMemory, undefined],
  ["a new agent finds a running pod, and the read of the ConfigMap has timed out", up, emptyMemory, "timed out"],
  ["the read of the ConfigMap has timed out", fresh, startedDirs, "timed out"],
  ["a container has crashed", crashed, madeAt("1"), "1"],
  ["a container has crashed, and the ConfigMap has changed", crashed, madeAt("1"), "2"],
  ["a container has crashed, and the update has just failed", crashed, failed(madeAt("1"), now), "absent"],
];

test("a pod's volumes are set up before its sandbox or beside it, and updated when what they show changes", () => {
  const lines = rows.map(([sentence, observed, memory, version]) => {
    const settings = { maxContainerRestartPeriodMs: 300_000, runtimeName: "containerd", hostIPs: [] };
    const desired = { uid, pod, source: { kind: "api" }, acceptedAt: now - 60_000, revision: 0 } as const;
    const { actions, lookAgainAt } = decidePod(
      desired,
      observed,
      memory,
      { ...settings, cluster: version === "timed out" ? timedOut : clusterAt(version) },
      now,
    );
    const again = lookAgainAt === undefined ? "" : `; again in ${(lookAgainAt - now) / 1000}s`;
    return `${sentence}: ${actions.map(describe).join("; ") || "nothing"}${again}`;
  });
  expect(lines).toMatchInlineSnapshot(`
    [
      "the ConfigMap is being read: nothing",
      "the ConfigMap was read: run sandbox (attempt 0): the pod has none; set up volume settings; set up volume cache",
      "the ConfigMap does not exist: set up volume settings; set up volume cache",
      "the set-up has just failed: nothing; again in 1s",
      "all volumes are set up: run sandbox (attempt 0): the pod has none",
      "the sandbox runs, and a set-up has failed: set up volume settings",
      "the sandbox has failed, and a set-up, too: set up volume settings",
      "the pod runs: nothing",
      "the ConfigMap of a running pod changes: update volume settings: its content has changed",
      "the ConfigMap of a running pod is deleted: update volume settings: its content has changed",
      "the update of a running pod has just failed: nothing; again in 0.5s",
      "a new agent finds a running pod: update volume settings: the agent has restarted",
      "a new agent finds a running pod, and the ConfigMap is being read: nothing",
      "a new agent finds a running pod, and the read of the ConfigMap has timed out: nothing",
      "the read of the ConfigMap has timed out: set up volume settings; set up volume cache",
      "a container has crashed: create container a (attempt 1): it exited with code 1",
      "a container has crashed, and the ConfigMap has changed: update volume settings: its content has changed; create container a (attempt 1): it exited with code 1",
      "a container has crashed, and the update has just failed: create container a (attempt 1): it exited with code 1; again in 0.5s",
    ]
  `);
});

test("a pod's directories are made beside its sandbox, unless a volume or user ids need them, they have failed, or the runtime makes them", () => {
  const [dirs, logs] = ["create the pod's directories", "create the pod's log directory"];
  const runs = "run sandbox (attempt 0): the pod has none";
  const bare: Pod = { ...pod, spec: { containers: [{ name: "a", image }] } };
  const ofUsers: Pod = { ...bare, spec: { ...bare.spec, hostUsers: false } };
  const decide = (starting: Pod, memory: PodMemory, runtimeName = "containerd") => {
    const settings = { maxContainerRestartPeriodMs: 300_000, runtimeName, hostIPs: [], cluster: clusterAt("1") };
    const desired = { uid, pod: starting, source: { kind: "api" }, acceptedAt: now - 60_000, revision: 0 } as const;
    return decidePod(desired, fresh, memory, settings, now).actions.map(describe);
  };
  expect(decide(bare, emptyMemory)).toEqual([runs, dirs, logs]);
  expect(decide(bare, emptyMemory, "cri-o")).toEqual([dirs, logs]);
  expect(decide(bare, { ...emptyMemory, madeResources: [{ of: "logDir" }] }, "cri-o")).toEqual([runs, dirs]);
  expect(decide(pod, emptyMemory)).toEqual([dirs, logs]);
  expect(decide(ofUsers, emptyMemory)).toEqual([dirs, logs]);
  for (const of of ["podDirs", "logDir"] as const) {
    const failure = { reason: "FailedMount", message: "m", at: now - 60_000, count: 1, isOutage: false };
    const failures = createKeyMap<FailureKey, FailureRecord>([[{ of: "resource", resource: { of } }, failure]]);
    expect(decide(bare, { ...emptyMemory, failures })).toEqual([dirs, logs]);
  }
});

test("while an object is being read, only the volumes that the sandbox would wait for are made", () => {
  const settings = { maxContainerRestartPeriodMs: 300_000, runtimeName: "containerd", hostIPs: [] };
  const nas = { name: "nas", nfs: { server: "nas", path: "/" } };
  const names = ["settings", "cache", "nas"];
  const container = { name: "a", image, volumeMounts: names.map((name) => ({ name, mountPath: `/${name}` })) };
  const withServer: Pod = { ...pod, spec: { containers: [container], volumes: [...(pod.spec.volumes ?? []), nas] } };
  const desired = { uid, pod: withServer, source: { kind: "api" }, acceptedAt: now - 60_000, revision: 0 } as const;
  const decide = (version: string | undefined) =>
    decidePod(desired, fresh, startedDirs, { ...settings, cluster: clusterAt(version) }, now).actions.map(describe);
  expect(decide(undefined)).toEqual(["set up volume nas"]);
  expect(decide("1")).toEqual(["set up volume settings", "set up volume cache", "set up volume nas"]);
});

test("the failure of a volume is why the pod does not start", () => {
  const settings = { maxContainerRestartPeriodMs: 300_000, runtimeName: "containerd", hostIPs: [] };
  const desired = { uid, pod, source: { kind: "api" }, acceptedAt: now - 60_000, revision: 0 } as const;
  const decide = (memory: PodMemory) =>
    decidePod(desired, fresh, memory, { ...settings, cluster: clusterAt("absent") }, now).blockedReason;
  expect(decide(startedDirs)).toBeUndefined();
  expect(decide(failed(startedDirs, now))).toEqual({ reason: "FailedMount", message: "m" });
});

test("after an update the memory has the version of its action, and the volume stays set up", () => {
  const before = madeAt("1");
  const action = { kind: "updateVolume", name: "settings", content: contentAt("2"), why: "" } as const;
  const after = recordResult(before, action, { ok: true }, now);
  expect([after.volumeContents.get("settings"), after.madeResources]).toEqual([contentAt("2"), before.madeResources]);
});

test("an update that fails backs off from half a second to two minutes, and delays nothing else", () => {
  const action = { kind: "updateVolume", name: "settings", content: contentAt("2"), why: "" } as const;
  let memory = madeAt("1");
  const delays = Array.from({ length: 10 }, () => {
    memory = recordResult(memory, action, { ok: false, reason: "FailedMount", message: "m", isOutage: false }, now);
    const settings = { maxContainerRestartPeriodMs: 300_000, runtimeName: "containerd", hostIPs: [] };
    const desired = { uid, pod, source: { kind: "api" }, acceptedAt: now - 60_000, revision: 0 } as const;
    const { lookAgainAt = now } = decidePod(desired, up, memory, { ...settings, cluster: clusterAt("2") }, now);
    return (lookAgainAt - now) / 1000;
  });
  expect(delays).toEqual([0.5, 1, 2, 4, 8, 16, 32, 64, 122, 122]);
});
