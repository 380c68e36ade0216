import { expect, test } from "bun:test";
import { claimKey } from "../../../proto/kubernetes/claims.ts";
import type { Container, PersistentVolumeSpec, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { devicesOf } from "./devices.ts";

const podOf = (isReadOnly: boolean): Pod => ({
  metadata: { name: "web", namespace: "shop", uid: "u-1" },
  spec: {
    containers: [],
    volumes: [
      { name: "v", persistentVolumeClaim: { claimName: "data", readOnly: isReadOnly } },
      { name: "scratch", emptyDir: {} },
    ],
  },
});

function shown(name: string, devicePath: string, { isReadOnly = false, spec = {} as PersistentVolumeSpec } = {}) {
  const source: PersistentVolumeSpec = { local: { path: "/dev/sdb" }, volumeMode: "Block", ...spec };
  const known = {
    claim: { metadata: {}, spec: {} },
    persistentVolume: { metadata: { name: "pv-1" }, spec: source },
  };
  const cluster = {
    services: [],
    runtimeHandlers: undefined,
    referencedObjects: new Map(),
    tokens: new Map(),
    claims: new Map([[claimKey({ namespace: "shop", name: "data", podUid: "u-1" }), known]]),
    nodeLabels: {},
  };
  const container: Container = { name: "a", image: "a", volumeDevices: [{ name, devicePath }] };
  const input = { pod: podOf(isReadOnly), facts: { rootDir: "/r", cluster } };
  return devicesOf(container, input).map((each) => `${each.hostPath} ${each.containerPath} ${each.permissions}`);
}

const link = "/r/pods/u-1/volumeDevices/kubernetes.io~local-volume/pv-1";

test("a device is the symlink of the pod, with the rights that the claim gives", () => {
  expect(shown("v", "/dev/x")).toEqual([`${link} /dev/x mrw`]);
  expect(shown("v", "/dev/x", { isReadOnly: true })).toEqual([`${link} /dev/x r`]);
  // Options are for mounts.
  expect(shown("v", "/dev/x", { spec: { mountOptions: ["ro"] } })).toEqual([`${link} /dev/x mrw`]);
});

test.each([
  ["a relative path", "v", "dev/x", "error DevicePath `dev/x` must be an absolute path"],
  ["a volume without a claim", "scratch", "/dev/x", 'cannot find volume "scratch" to pass into container "a"'],
  ["a volume that the pod does not have", "none", "/dev/x", 'cannot find volume "none" to pass into container "a"'],
])("%s is refused", (_what, name, path, message) => {
  expect(() => shown(name, path)).toThrow(message);
});
