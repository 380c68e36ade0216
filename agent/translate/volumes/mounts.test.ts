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

test("mounts stand in the order of the spec, a volume as often as it is asked for", () => {
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

const ownWords: readonly [sentence: string, path: string | undefined, expected: readonly string[]][] = [
  [
    "a container without mounts still has the file for its last words, one an instance",
    undefined,
    ["/dev/termination-log"],
  ],
  ["the file is where the container wants it", "/tmp/why", ["/tmp/why"]],
  ["a relative path of that file is meant from the root", "why", ["/why"]],
  ["a container that wants no such file has none", "", []],
];
for (const [sentence, terminationMessagePath, expected] of ownWords)
  test(sentence, () => {
    const container = { name: "a", ...(terminationMessagePath === undefined ? {} : { terminationMessagePath }) };
    const found = mountsOf(container, { pod, attempt: 26, podIPs: [], facts: nodeFacts });
    expect(found.map(({ containerPath }) => containerPath)).toEqual([...expected]);
    for (const { hostPath } of found) expect(hostPath).toBe("/root-dir/pods/u-1/containers/a/0000001a");
  });

test("where SELinux is on, what is the pod's own is labelled for it, and nothing else", () => {
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

test("a propagation that a newer API may have is an error, since no other one would do", () => {
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
  ["a mount may be written and is private", {}, { readonly: false, propagation: PROPAGATION_PRIVATE }],
  ["readOnly cannot be written", { readOnly: true }, { readonly: true }],
  ["None is private", { mountPropagation: "None" }, { propagation: PROPAGATION_PRIVATE }],
  ["HostToContainer", { mountPropagation: "HostToContainer" }, { propagation: PROPAGATION_HOST_TO_CONTAINER }],
  ["Bidirectional", { mountPropagation: "Bidirectional" }, { propagation: PROPAGATION_BIDIRECTIONAL }],
  ["a relative path is meant from the root", { mountPath: "srv/x" }, { containerPath: "/srv/x" }],
];
for (const [sentence, mount, expected] of rows)
  test(sentence, () => {
    expect(mounts({ name: "cache", mountPath: "/x", ...mount })).toMatchObject([expected]);
  });

for (const name of ["none", "secret"])
  test(`the volume ${name}, which cannot be mounted, is a configuration error that names both`, () => {
    const translate = () => mounts({ name, mountPath: "/x" });
    expect(translate).toThrow(TranslateError);
    expect(translate).toThrow(`container a mounts volume ${name}, which the pod does not have`);
  });
