// PersistentVolumeClaims: bound, unbound, missing, of volumes without a driver, and of local volumes that the agent mounts.
import { expect, test } from "bun:test";
import { persistentVolumeClaims, persistentVolumes } from "../../kube/resource.ts";
import type { PersistentVolumeSpec, Volume } from "../../proto/kubernetes/gen/types.ts";
import { settlePromises } from "../fakes/clock.ts";
import { apiScenario, runInCluster } from "./api-scenario.ts";
import type { AgentHarness } from "./harness.ts";

const claims = persistentVolumeClaims("default");
const local: PersistentVolumeSpec = { local: { path: "/mnt/disk" } };

/** Creates the directory of a local volume with a file, as an administrator does. */
async function makeDisk({ disk }: AgentHarness): Promise<void> {
  await disk.at("/").makeFolder("mnt/disk", 0o755);
  await disk.at("/").makeFile("mnt/disk/data", 0o600, "precious");
}

/** Creates a claim, and a volume that is bound to it. */
async function bind(harness: AgentHarness, name: string, spec: PersistentVolumeSpec, more: object = {}): Promise<void> {
  const { user } = harness.kube;
  const { metadata } = await user.create(claims, {
    metadata: { name, namespace: "default", ...more },
    spec: { volumeName: `pv-${name}` },
    status: { phase: "Bound" },
  });
  const claimRef = { namespace: "default", name, uid: metadata.uid ?? "" };
  await user.create(persistentVolumes, { metadata: { name: `pv-${name}` }, spec: { ...spec, claimRef } });
  await settlePromises();
}

const volumesOf = (source: Omit<Volume, "name"> = { persistentVolumeClaim: { claimName: "data" } }) => ({
  volumes: [{ name: "v", ...source }],
  containers: [
    {
      name: "a",
      image: "busybox:1",
      imagePullPolicy: "IfNotPresent" as const,
      volumeMounts: [{ name: "v", mountPath: "/data" }],
    },
  ],
});

const mountsOf = ({ runtime }: AgentHarness) =>
  [...runtime.containers.values()].flatMap(({ config }) =>
    config.mounts
      .filter(({ containerPath }) => containerPath === "/data")
      .map(({ hostPath, readonly }) => `${hostPath.replace(/[0-9a-f-]{36}/, "UID")}${readonly ? " read-only" : ""}`),
  );
const dataOf = ({ disk }: AgentHarness) => disk.at("/").read("mnt/disk/data", 100);
const localDir = "/root/pods/UID/volumes/kubernetes.io~local-volume/pv-data";

apiScenario(
  "a pod uses a local volume by its claim",
  async (harness) => {
    await makeDisk(harness);
    await bind(harness, "data", local);
    await harness.apply("web", volumesOf());
    await harness.advance("5s");
  },
  async (end, harness) => {
    expect(end.api).toEqual(["web Running, ready: a running"]);
    expect(mountsOf(harness)).toEqual([localDir]);
    expect(end.node).toContain(`mount ${localDir}`);
  },
);

apiScenario(
  "a deleted pod leaves the data of its local volume, and no mount",
  async (harness) => {
    await makeDisk(harness);
    await bind(harness, "data", local);
    await harness.apply("web", volumesOf());
    await harness.advance("5s");
    await harness.deletePod("web");
    await harness.advance("40s");
  },
  async (end, harness) => {
    expect(end).toEqual({ node: [], api: [] });
    expect(await dataOf(harness)).toBe("precious");
  },
);

apiScenario(
  "a pod waits for its claim, and starts when it is there and bound",
  async (harness) => {
    await makeDisk(harness);
    await harness.apply("web", volumesOf());
    await harness.advance("20s");
    await bind(harness, "data", local);
    await harness.advance("30s");
  },
  async (end, harness) => {
    expect(end.api).toEqual(["web Running, ready: a running"]);
    expect((await harness.events("web"))[0]).toMatch(
      /^\dx Warning FailedMount: Unable to attach or mount volumes: unmounted volumes=\[v\], unattached volumes=\[\], failed to process volumes=\[v\]: error processing PVC default\/data: failed to fetch PVC from API server: persistentvolumeclaims "data" not found$/,
    );
  },
);

/** What a pod waits for. */
async function failureOf(prepare: (harness: AgentHarness) => Promise<void>, volume?: Omit<Volume, "name">) {
  const harness = await runInCluster(async (on) => {
    await makeDisk(on);
    await prepare(on);
    await on.apply("web", volumesOf(volume));
    await on.advance("5s");
  });
  expect(await harness.apiPods()).toEqual(["web Pending: a waiting ContainerCreating"]);
  expect(harness.runtime.sandboxes.size).toBe(0);
  const [event = ""] = await harness.events("web");
  return event.replace(/^\d+x /, "");
}

const onNode = (value: string): PersistentVolumeSpec => ({
  ...local,
  nodeAffinity: {
    required: { nodeSelectorTerms: [{ matchExpressions: [{ key: "disk", operator: "In", values: [value] }] }] },
  },
});
const withLabel = (harness: AgentHarness) => {
  harness.nodeObject = { metadata: { name: "node", labels: { disk: "here" } }, spec: {} };
};

const failures: readonly [sentence: string, spec: PersistentVolumeSpec, message: string][] = [
  [
    "a volume of another node is not mounted",
    onNode("elsewhere"),
    'MountVolume.NodeAffinity check failed for volume "pv-data" : no matching NodeSelectorTerms',
  ],
  [
    "a volume of a CSI driver waits for the driver",
    { csi: { driver: "d.example.com", volumeHandle: "1" } },
    'MountVolume.SetUp failed for volume "pv-data" : kubernetes.io/csi: mounter.SetUpAt failed to get CSI client: driver name d.example.com not found in the list of registered CSI drivers',
  ],
  [
    "a local volume whose directory is missing",
    { local: { path: "/mnt/none" } },
    'MountVolume.NewMounter initialization failed for volume "pv-data" : path "/mnt/none" does not exist',
  ],
  [
    "a local volume that is a file",
    { local: { path: "/mnt/disk/data" } },
    'MountVolume.NewMounter initialization failed for volume "pv-data" : only directory and block device are supported',
  ],
  [
    "a local volume whose path leads back",
    { local: { path: "/mnt/../mnt/disk" } },
    "MountVolume.SetUp failed for volume \"pv-data\" : invalid path: /mnt/../mnt/disk must not contain '..'",
  ],
  [
    "a hostPath volume with mount options",
    { hostPath: { path: "/mnt/disk" }, mountOptions: ["ro"] },
    'MountVolume.MountOptionSupport check failed for volume "pv-data" : mount options are not supported for this volume type',
  ],
  [
    "a local volume with mount options that a bind mount does not take",
    { ...local, mountOptions: ["ro", "noexec"] },
    'MountVolume.SetUp failed for volume "pv-data" : mountOptions of local volumes are not supported by this release yet: noexec',
  ],
  [
    "a hostPath volume of the wrong type",
    { hostPath: { path: "/mnt/disk", type: "File" } },
    'MountVolume.SetUp failed for volume "pv-data" : hostPath type check failed: /mnt/disk is not a file: it is a directory',
  ],
  [
    "a hostPath volume whose path leads back",
    { hostPath: { path: "/mnt/disk/.." } },
    "MountVolume.SetUp failed for volume \"pv-data\" : invalid HostPath `/mnt/disk/..`: must not contain '..'",
  ],
];
for (const [sentence, spec, message] of failures)
  test(`${sentence}: the pod waits with the kubelet's event`, async () => {
    const prepare = async (harness: AgentHarness) => {
      withLabel(harness);
      await bind(harness, "data", spec);
    };
    expect(await failureOf(prepare)).toBe(`Warning FailedMount: ${message}`);
  });

test("a volume of this node is mounted, and an ephemeral volume uses the pod's own claim", async () => {
  const harness = await runInCluster(async (on) => {
    withLabel(on);
    await makeDisk(on);
    await bind(on, "data", onNode("here"));
    await on.apply("web", volumesOf({ persistentVolumeClaim: { claimName: "data", readOnly: true } }));
    await on.advance("5s");
  });
  expect([await harness.apiPods(), mountsOf(harness)]).toEqual([
    ["web Running, ready: a running"],
    [`${localDir} read-only`],
  ]);
  expect(await failureOf((on) => bind(on, "web-v", local), { ephemeral: {} })).toBe(
    "Warning FailedMount: Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]: PVC default/web-v was not created for pod default/web (pod is not owner)",
  );
});

test("a volume belongs to the first pod's fsGroup while other pods use it", async () => {
  const harness = await runInCluster(async (on) => {
    await makeDisk(on);
    await bind(on, "data", local);
    await on.apply("one", { ...volumesOf(), securityContext: { fsGroup: 2000 } });
    await on.advance("5s");
    await on.apply("two", { ...volumesOf(), securityContext: { fsGroup: 3000 } });
    await on.advance("5s");
  });
  expect(await harness.apiPods()).toEqual(["one Running, ready: a running", "two Running, ready: a running"]);
  expect(await harness.disk.at("/").stat("mnt/disk")).toMatchObject({ group: 2000, mode: 0o2775 });
});

test("a pod runs although a file of its volume cannot be given to its fsGroup, and the log has one line about it", async () => {
  const harness = await runInCluster(async (on) => {
    await makeDisk(on);
    await on.disk.at("/").makeFile("mnt/disk/locked", 0o600, "");
    for (const each of ["data", "locked"]) on.disk.immutableFiles.add(`/mnt/disk/${each}`);
    await bind(on, "data", local);
    await on.apply("web", { ...volumesOf(), securityContext: { fsGroup: 2000 } });
    await on.advance("90s");
  });
  expect(await harness.apiPods()).toEqual(["web Running, ready: a running"]);
  expect(harness.log.filter((line) => line.includes("fsGroup"))).toEqual([
    "0s default/web: a file of a volume cannot be given to the pod's fsGroup 2000: /mnt/disk/data cannot be changed: permission denied",
  ]);
  expect(await harness.disk.at("/").stat("mnt/disk")).toMatchObject({ group: 2000, mode: 0o2775 });
});

test("a volume for one pod alone waits until the pod that uses it has ended", async () => {
  const harness = await runInCluster(async (on) => {
    await makeDisk(on);
    await bind(on, "data", { ...local, accessModes: ["ReadWriteOncePod"] });
    await on.apply("one", volumesOf());
    await on.advance("5s");
    await on.apply("two", volumesOf());
    await on.advance("5s");
  });
  expect(await harness.apiPods()).toEqual([
    "one Running, ready: a running",
    "two Pending: a waiting ContainerCreating",
  ]);
  expect((await harness.events("two"))[0]).toEndWith(
    'MountVolume.SetUp failed for volume "pv-data" : volume uses the ReadWriteOncePod access mode and is already in use by another pod',
  );
  await harness.deletePod("one", 1);
  await harness.advance("60s");
  expect(await harness.apiPods()).toEqual(["two Running, ready: a running"]);
});

test("a directory that has files though nothing is mounted there is kept", async () => {
  const harness = await runInCluster(async (on) => {
    await makeDisk(on);
    await bind(on, "data", local);
    await on.apply("web", volumesOf());
    await on.advance("5s");
    const [mountPoint = ""] = on.mounts.mountPoints;
    await on.mounts.unmount(mountPoint);
    await on.disk.at("/").makeFile(`${mountPoint}/written`, 0o600, "mine");
    await on.deletePod("web");
    await on.advance("60s");
  });
  const kept = harness.disk.paths().filter((path) => path.endsWith("/written"));
  expect(kept).toHaveLength(1);
  expect(harness.log.filter((line) => line.includes("nothing is mounted there, and it contains written"))).not.toEqual(
    [],
  );
});
