import { expect, test } from "bun:test";
import { MountPropagation } from "../../../proto/cri/gen/api.ts";
import type { Container, Pod, VolumeMount } from "../../../proto/kubernetes/gen/types.ts";
import { nodeFacts } from "../../../test/fakes/node-facts.ts";
import { TranslateError } from "../translate-error.ts";
import { mountsOf } from "./mounts.ts";

const pod: Pod = {
  metadata: { name: "web", uid: "u-1" },
  spec: {
    containers: [],
    volumes: [
      { name: "cache", emptyDir: {} },
      { name: "logs", hostPath: { path: "/var/log" } },
      { name: "secret", secret: { secretName: "s" } },
    ],
  },
};
const cache = "/root-dir/pods/u-1/volumes/kubernetes.io~empty-dir/cache";

function mounts(...volumeMounts: readonly VolumeMount[]) {
  const container: Container = { name: "a", volumeMounts };
  return mountsOf(container, { pod, attempt: 0, podIPs: [], facts: nodeFacts }).slice(0, -1);
}

test("mounts keep the order of the spec, and a volume may be mounted twice", () => {
  const found = mounts(
    { name: "logs", mountPath: "/logs" },
    { name: "cache", mountPath: "/b" },
    { name: "cache", mountPath: "/a" },
  );
  expect(found.map(({ containerPath, hostPath }) => [containerPath, hostPath])).toEqual([
    ["/logs", "/var/log"],
    ["/b", cache],
    ["/a", cache],
  ]);
});

const terminationMessages: readonly [sentence: string, path: string | undefined, expected: readonly string[]][] = [
  ["a container without mounts gets a termination-message file per instance", undefined, ["/dev/termination-log"]],
  ["terminationMessagePath sets the mount path", "/tmp/why", ["/tmp/why"]],
  ["a relative terminationMessagePath starts at the root", "why", ["/why"]],
  ["an empty terminationMessagePath mounts no file", "", []],
];
for (const [sentence, terminationMessagePath, expected] of terminationMessages)
  test(sentence, () => {
    const container = { name: "a", ...(terminationMessagePath === undefined ? {} : { terminationMessagePath }) };
    const found = mountsOf(container, { pod, attempt: 26, podIPs: [], facts: nodeFacts });
    expect(found.map(({ containerPath }) => containerPath)).toEqual([...expected]);
    for (const { hostPath } of found) expect(hostPath).toBe("/root-dir/pods/u-1/containers/a/0000001a");
  });

test("SELinux relabels the pod's own volumes only", () => {
  const container: Container = {
    name: "a",
    volumeMounts: [
      { name: "cache", mountPath: "/cache" },
      { name: "logs", mountPath: "/logs" },
    ],
  };
  const found = mountsOf(container, { pod, attempt: 0, podIPs: ["10.0.0.7"], facts: nodeFacts });
  expect(found.map(({ containerPath, selinuxRelabel }) => [containerPath, selinuxRelabel])).toEqual([
    ["/cache", true],
    ["/logs", false],
    ["/etc/hosts", true],
    ["/dev/termination-log", true],
  ]);
});

test("an unknown mountPropagation is an error", () => {
  const newer = Object.assign({ name: "cache", mountPath: "/x" }, { mountPropagation: "Sideways" }) as VolumeMount;
  expect(() => mounts(newer)).toThrow(
    expect.objectContaining({
      reason: "CreateContainerConfigError",
      message: 'invalid MountPropagation mode: "Sideways"',
    }),
  );
});

const { PROPAGATION_PRIVATE, PROPAGATION_HOST_TO_CONTAINER, PROPAGATION_BIDIRECTIONAL } = MountPropagation;
const rows: readonly [sentence: string, mount: Partial<VolumeMount>, expected: object][] = [
  ["a mount is writable and private by default", {}, { readonly: false, propagation: PROPAGATION_PRIVATE }],
  ["readOnly makes a mount read-only", { readOnly: true }, { readonly: true }],
  ["the propagation None is private", { mountPropagation: "None" }, { propagation: PROPAGATION_PRIVATE }],
  ["HostToContainer", { mountPropagation: "HostToContainer" }, { propagation: PROPAGATION_HOST_TO_CONTAINER }],
  ["Bidirectional", { mountPropagation: "Bidirectional" }, { propagation: PROPAGATION_BIDIRECTIONAL }],
  ["a relative mountPath starts at the root", { mountPath: "srv/x" }, { containerPath: "/srv/x" }],
];
for (const [sentence, mount, expected] of rows)
  test(sentence, () => {
    expect(mounts({ name: "cache", mountPath: "/x", ...mount })).toMatchObject([expected]);
  });

for (const name of ["none", "secret"])
  test(`the unsupported volume ${name} is a configuration error that names container and volume`, () => {
    const translate = () => mounts({ name, mountPath: "/x" });
    expect(translate).toThrow(TranslateError);
    expect(translate).toThrow(`container a mounts volume ${name}, which the pod does not have`);
  });
