import { expect, test } from "bun:test";
import { missingDriverError, type SourceWithoutDriver } from "./missing-drivers.ts";

const setUp = (why: string) => `MountVolume.SetUp failed for volume "data" : ${why}`;
const csi = (driver: string, kind?: string) =>
  setUp(
    `kubernetes.io/csi: mounter.SetUpAt failed to get CSI client: driver name ${driver} not found in the list of registered CSI drivers${kind === undefined ? "" : ` (${kind} volumes need it)`}`,
  );
const noPlugin = (why: string) =>
  `Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], failed to process volumes=[data]: failed to get Plugin from volumeSpec for volume "data" err=no volume plugin matched: ${why}`;
const removed = (kind: string) => noPlugin(`Kubernetes has removed ${kind} volumes`);
const notSupported = (kind: string) => setUp(`${kind} volumes are not supported by this release yet`);

// The type makes this table and those of the product total: a new source of the API does not compile before it is in one.
const messages: { readonly [Kind in SourceWithoutDriver]: string } = {
  awsElasticBlockStore: csi("ebs.csi.aws.com", "awsElasticBlockStore"),
  azureDisk: csi("disk.csi.azure.com", "azureDisk"),
  azureFile: csi("file.csi.azure.com", "azureFile"),
  cephfs: removed("cephfs"),
  cinder: csi("cinder.csi.openstack.org", "cinder"),
  csi: csi("driver.example.com"),
  fc: notSupported("fc"),
  flexVolume: noPlugin("flexVolume driver driver.example.com is not supported"),
  flocker: removed("flocker"),
  gcePersistentDisk: csi("pd.csi.storage.gke.io", "gcePersistentDisk"),
  gitRepo: setUp(
    "git-repo volume plugin has been disabled; if necessary, it may be re-enabled by enabling the feature-gate `GitRepoVolumeDriver`",
  ),
  glusterfs: removed("glusterfs"),
  iscsi: notSupported("iscsi"),
  photonPersistentDisk: removed("photonPersistentDisk"),
  portworxVolume: csi("pxd.portworx.com", "portworxVolume"),
  quobyte: removed("quobyte"),
  rbd: removed("rbd"),
  scaleIO: removed("scaleIO"),
  storageos: removed("storageos"),
  vsphereVolume: csi("csi.vsphere.vmware.com", "vsphereVolume"),
};

for (const [kind, message] of Object.entries(messages))
  test(`a pod with a ${kind} volume waits and says which driver is missing`, () => {
    const volume: object = { name: "data", [kind]: { driver: "driver.example.com" } };
    expect(missingDriverError({ specName: "data", nameInPod: "data" }, volume)).toMatchObject({
      name: "TranslateError",
      reason: "FailedMount",
      message,
    });
  });

test("a persistent volume is named by its own name, and the pod's by its name in the pod", () => {
  const names = { specName: "pv-1", nameInPod: "data" };
  expect(missingDriverError(names, { csi: { driver: "d.example.com" } }).message).toStartWith(
    'MountVolume.SetUp failed for volume "pv-1" : kubernetes.io/csi',
  );
  expect(missingDriverError(names, { rbd: {} }).message).toMatch(
    /failed to process volumes=\[data\]: failed to get Plugin from volumeSpec for volume "pv-1" err=/,
  );
});

test("a source that only a newer API server has is named", () => {
  expect(missingDriverError({ specName: "v", nameInPod: "v" }, { hologram: {} } as object).message).toBe(
    'MountVolume.SetUp failed for volume "v" : hologram volumes are not supported by this release yet',
  );
});
