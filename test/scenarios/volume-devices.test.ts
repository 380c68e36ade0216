// Block devices of persistent volumes: mapped, given to containers, refused, and removed.
import { expect, test } from "bun:test";
import { dirname } from "node:path/posix";
import { persistentVolumeClaims, persistentVolumes } from "../../kube/resource.ts";
import type { Container, PersistentVolumeSpec, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { settlePromises } from "../fakes/clock.ts";
import { apiScenario, runInCluster } from "./api-scenario.ts";
import type { AgentHarness } from "./harness.ts";

const claims = persistentVolumeClaims("default");
const block: PersistentVolumeSpec = { local: { path: "/dev/disk/by-id/fast" }, volumeMode: "Block" };

/** Adds a disk with a link to it, as udev does. */
async function addDisk({ disk }: AgentHarness): Promise<void> {
  await disk.at("/").makeFolder("dev/disk/by-id", 0o755);
  disk.addDevice("/dev/sdb");
  await disk.at("/").link("dev/disk/by-id/fast", "../../sdb");
}

/** Creates the claim `data`, and a volume that is bound to it. */
async function bind({ kube }: AgentHarness, spec: PersistentVolumeSpec): Promise<void> {
  const { metadata } = await kube.user.create(claims, {
    metadata: { name: "data", namespace: "default" },
    spec: { volumeName: "pv-data" },
    status: { phase: "Bound" },
  });
  const claimRef = { namespace: "default", name: "data", uid: metadata.uid ?? "" };
  await kube.user.create(persistentVolumes, { metadata: { name: "pv-data" }, spec: { ...spec, claimRef } });
  await settlePromises();
}

const withDevice: Partial<Container> = { volumeDevices: [{ name: "v", devicePath: "/dev/data" }] };
const specOf = (container: Partial<Container> = withDevice, isReadOnly = false): Partial<PodSpec> => ({
  volumes: [{ name: "v", persistentVolumeClaim: { claimName: "data", ...(isReadOnly && { readOnly: true }) } }],
  containers: [{ name: "a", image: "busybox:1", imagePullPolicy: "IfNotPresent", ...container }],
});

const withoutUid = (text: string) => text.replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "UID");
const link = "/root/pods/UID/volumeDevices/kubernetes.io~local-volume/pv-data";
const mountPoint = "/root/plugins/kubernetes.io~local-volume/volumeDevices/pv-data/UID";
const devicesOf = ({ runtime }: AgentHarness) =>
  [...runtime.containers.values()].flatMap(({ config }) =>
    config.devices.map((each) => `${withoutUid(each.hostPath)} at ${each.containerPath} ${each.permissions}`),
  );
/** Where the links of pods lead, and what is mounted. */
async function mapped({ disk, mounts }: AgentHarness): Promise<readonly string[]> {
  const links = disk.paths().filter((path) => withoutUid(path) === link);
  const targets = links.map(async (path) => `${link} -> ${await disk.at("/").readLink(path)}`);
  return [...(await Promise.all(targets)), ...mounts.mountPoints.map((path) => `mount ${withoutUid(path)}`)];
}

apiScenario(
  "a container gets the block device of a local volume",
  async (harness) => {
    await addDisk(harness);
    await bind(harness, block);
    await harness.apply("web", specOf());
    await harness.advance("5s");
  },
  async (end, harness) => {
    expect(end.api).toEqual(["web Running, ready: a running"]);
    expect(devicesOf(harness)).toEqual([`${link} at /dev/data mrw`]);
    expect(await mapped(harness)).toEqual([`${link} -> /dev/sdb`, `mount ${mountPoint}`]);
  },
);

apiScenario(
  "a deleted pod leaves the device, and nothing that leads to it",
  async (harness) => {
    await addDisk(harness);
    await bind(harness, block);
    await harness.apply("web", specOf());
    await harness.advance("5s");
    await harness.deletePod("web");
    await harness.advance("40s");
  },
  async (end, harness) => {
    expect(end).toEqual({ node: [], api: [] });
    expect(await mapped(harness)).toEqual([]);
    const left = harness.disk.paths().filter((path) => path.includes("pv-data"));
    expect([left, harness.disk.nodes.get("/dev/sdb")?.kind]).toEqual([[], "block device"]);
  },
);

test("the events of a mapped device are the kubelet's, and a pod that waited has them, too", async () => {
  const harness = await runInCluster(async (on) => {
    await bind(on, block);
    await on.apply("web", specOf());
    await on.advance("1s");
    await addDisk(on);
    await on.advance("60s");
  });
  const succeeded = (what: string, path: string) =>
    `1x Normal SuccessfulMountVolume: MapVolume.MapPodDevice succeeded for volume "pv-data" ${what} "${path}"`;
  expect(
    (await harness.events("web")).map(withoutUid).filter((line) => line.includes("SuccessfulMountVolume")),
  ).toEqual([succeeded("globalMapPath", dirname(mountPoint)), succeeded("volumeMapPath", dirname(link))]);
});

test("a claim that the pod may only read gives a device that can only be read", async () => {
  const harness = await runInCluster(async (on) => {
    await addDisk(on);
    await bind(on, block);
    await on.apply("web", specOf(withDevice, true));
    await on.advance("5s");
  });
  expect(devicesOf(harness)).toEqual([`${link} at /dev/data r`]);
});

test("two pods share a device, and it stays mapped for the other one", async () => {
  const harness = await runInCluster(async (on) => {
    await addDisk(on);
    await bind(on, block);
    await on.apply("one", specOf());
    await on.apply("two", specOf());
    await on.advance("5s");
    await on.deletePod("one", 1);
    await on.advance("40s");
  });
  expect(await harness.apiPods()).toEqual(["two Running, ready: a running"]);
  expect(await mapped(harness)).toEqual([`${link} -> /dev/sdb`, `mount ${mountPoint}`]);
});

test("after a reboot the device is mapped again before the next container starts", async () => {
  const harness = await runInCluster(async (on) => {
    await addDisk(on);
    await bind(on, block);
    await on.apply("web", specOf());
    await on.advance("5s");
  });
  await harness.stop();
  harness.mounts.unmountAll();
  await harness.exit("a", 255);
  await harness.start();
  await harness.advance("5s");
  expect(await harness.apiPods()).toEqual(["web Running, ready: a running (restarts: 1)"]);
  expect(await mapped(harness)).toEqual([`${link} -> /dev/sdb`, `mount ${mountPoint}`]);
});

const failedMap = (step: string, why: string) =>
  `Warning FailedMapVolume: MapVolume.${step} for volume "pv-data" : ${why}`;
const notProcessed = (why: string) =>
  `Warning FailedMount: Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]: ${why}`;
const failures: readonly [
  sentence: string,
  event: string,
  spec: PersistentVolumeSpec,
  container?: Partial<Container>,
][] = [
  [
    "a device that is missing",
    failedMap("EvalHostSymlinks failed", "lstat /dev/none: no such file or directory"),
    { ...block, local: { path: "/dev/none" } },
  ],
  [
    "a directory in place of a device",
    failedMap("MapBlockVolume failed", "/dev/disk is no block device: it is a directory"),
    { ...block, local: { path: "/dev/disk" } },
  ],
  [
    "a hostPath volume",
    failedMap(
      "FindMapperPluginBySpec failed to find BlockVolumeMapper plugin. Volume plugin is nil.",
      "hostPath volumes cannot be of volumeMode Block",
    ),
    { hostPath: { path: "/dev/sdb" }, volumeMode: "Block" },
  ],
  [
    "a device of another node",
    'Warning FailedMount: MapVolume.NodeAffinity check failed for volume "pv-data" : no matching NodeSelectorTerms',
    {
      ...block,
      nodeAffinity: {
        required: { nodeSelectorTerms: [{ matchExpressions: [{ key: "disk", operator: "Exists" }] }] },
      },
    },
  ],
  [
    "a block volume that is mounted",
    notProcessed("volume v has volumeMode Block, but is specified in volumeMounts"),
    block,
    { volumeMounts: [{ name: "v", mountPath: "/data" }] },
  ],
  [
    "a file system that is used as a device",
    notProcessed("volume v has volumeMode Filesystem, but is specified in volumeDevices"),
    { local: { path: "/dev/disk" } },
  ],
];
for (const [sentence, event, spec, container] of failures)
  test(`${sentence}: the pod waits with the kubelet's event`, async () => {
    const harness = await runInCluster(async (on) => {
      on.nodeObject = { metadata: { name: "node", labels: {} }, spec: {} };
      await addDisk(on);
      await bind(on, spec);
      await on.apply("web", specOf(container));
      await on.advance("5s");
    });
    expect(await harness.apiPods()).toEqual(["web Pending: a waiting ContainerCreating"]);
    expect(harness.runtime.sandboxes.size).toBe(0);
    expect((await harness.events("web")).map((line) => line.replace(/^\d+x /, ""))).toEqual([event]);
    expect(await mapped(harness)).toEqual([]);
  });

test("a device for one pod alone waits until the pod that uses it has ended", async () => {
  const harness = await runInCluster(async (on) => {
    await addDisk(on);
    await bind(on, { ...block, accessModes: ["ReadWriteOncePod"] });
    await on.apply("one", specOf());
    await on.advance("5s");
    await on.apply("two", specOf());
    await on.advance("5s");
  });
  expect((await harness.events("two"))[0]).toEndWith(
    failedMap(
      "SetUpDevice failed",
      "volume uses the ReadWriteOncePod access mode and is already in use by another pod",
    ),
  );
  await harness.deletePod("one", 1);
  await harness.advance("60s");
  expect(await harness.apiPods()).toEqual(["two Running, ready: a running"]);
});
