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
      { name: "driver", csi: { driver: "example.com" } },
    ],
  },
};
const cache = "/root-dir/pods/u-1/volumes/kubernetes.io~empty-dir/cache";

function mounts(...volumeMounts: readonly VolumeMount[]) {
  const container: Container = { name: "a", volumeMounts };
  const facts = { ...nodeFacts, hasSELinux: true };
  return mountsOf(container, { pod, attempt: 0, podIPs: [], facts }).slice(0, -1);
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

test("of a subPath the place where it is mounted on the node is mounted, by the number of the volumeMount", () => {
  const found = mounts(
    { name: "cache", mountPath: "/a", subPath: "" },
    { name: "cache", mountPath: "/b", subPath: "one" },
    { name: "logs", mountPath: "/c", subPathExpr: "$(NAME)", readOnly: true },
  );
  expect(found.map(({ hostPath, readonly }) => [hostPath, readonly])).toEqual([
    [cache, false],
    ["/root-dir/pods/u-1/volume-subpaths/cache/a/1", false],
    ["/root-dir/pods/u-1/volume-subpaths/logs/a/2", true],
  ]);
});

test("volumes whose files the agent writes are mounted read-only", () => {
  const found = mounts({ name: "secret", mountPath: "/s" }, { name: "cache", mountPath: "/c" });
  expect(found.map(({ containerPath, readonly, selinuxRelabel }) => [containerPath, readonly, selinuxRelabel])).toEqual(
    [
      ["/s", true, true],
      ["/c", false, true],
    ],
  );
});

test("the runtime mounts the image of a volume: by its reference, read-only, at its subPath", () => {
  const withImage: Pod = {
    metadata: { ...pod.metadata, annotations: { team: "a" } },
    spec: { containers: [], volumes: [{ name: "model", image: { reference: "model:1" } }] },
  };
  const volumeMounts = [
    { name: "model", mountPath: "/model" },
    { name: "model", mountPath: "part", subPathExpr: "of/$(PART)", mountPropagation: "HostToContainer" as const },
  ];
  const input = { pod: withImage, attempt: 0, podIPs: [], facts: nodeFacts };
  const volumeImages = new Map([["model", "sha256:1"]]);
  const environment = new Map([["PART", "weights"]]);
  const found = mountsOf({ name: "a", volumeMounts }, { ...input, volumeImages, environment }).slice(0, -1);
  const image = { image: "sha256:1", userSpecifiedImage: "model:1", annotations: { team: "a" } };
  expect(found).toMatchObject([
    { containerPath: "/model", hostPath: "", image, imageSubPath: "", readonly: true, selinuxRelabel: false },
    { containerPath: "/part", hostPath: "", image, imageSubPath: "of/weights", readonly: true, propagation: 1 },
  ]);
  expect(() => mountsOf({ name: "a", volumeMounts }, { ...input, environment })).toThrow(
    'cannot find volume "model" to mount into container "a"',
  );
  const leaving = [{ name: "model", mountPath: "/model", subPath: "../x" }];
  expect(() => mountsOf({ name: "a", volumeMounts: leaving }, { ...input, volumeImages })).toThrow(
    "unable to provision SubPath `../x`: must not contain '..'",
  );
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

const relabelled: readonly [sentence: string, hasSELinux: boolean, containerPaths: readonly string[]][] = [
  [
    "with SELinux the runtime relabels the pod's own files only",
    true,
    ["/cache", "/etc/hosts", "/dev/termination-log"],
  ],
  ["without SELinux it relabels none", false, []],
];
for (const [sentence, hasSELinux, expected] of relabelled)
  test(sentence, () => {
    const container: Container = {
      name: "a",
      volumeMounts: [
        { name: "cache", mountPath: "/cache" },
        { name: "logs", mountPath: "/logs" },
      ],
    };
    const facts = { ...nodeFacts, hasSELinux };
    const found = mountsOf(container, { pod, attempt: 0, podIPs: ["10.0.0.7"], facts });
    expect(found.length).toBe(4);
    expect(found.filter((each) => each.selinuxRelabel).map(({ containerPath }) => containerPath)).toEqual([
      ...expected,
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

test("recursiveReadOnly is passed on where the handler of the pod's RuntimeClass supports it, else Enabled is an error", () => {
  const recursive = (recursiveReadOnly: "Enabled" | "IfPossible", runtimeClassName?: string) => {
    const volumeMounts = [{ name: "cache", mountPath: "/x", readOnly: true, recursiveReadOnly }];
    const ofClass = { ...pod, spec: { ...pod.spec, ...(runtimeClassName && { runtimeClassName }) } };
    const facts = { ...nodeFacts, recursiveReadOnlyClasses: new Set(["", "sandboxed"]) };
    return mountsOf({ name: "a", volumeMounts }, { pod: ofClass, attempt: 0, podIPs: [], facts })[0]?.recursiveReadOnly;
  };
  expect([recursive("Enabled"), recursive("Enabled", "sandboxed"), recursive("IfPossible", "other")]).toEqual([
    true,
    true,
    false,
  ]);
  expect(() => recursive("Enabled", "other")).toThrow(
    expect.objectContaining({
      reason: "CreateContainerConfigError",
      message:
        'failed to resolve recursive read-only mode: volume "cache" requested recursive read-only mode, but it is not supported by the runtime',
    }),
  );
});

for (const name of ["none", "driver"])
  test(`the unsupported volume ${name} is a configuration error that names container and volume`, () => {
    const translate = () => mounts({ name, mountPath: "/x" });
    expect(translate).toThrow(TranslateError);
    expect(translate).toThrow(`cannot find volume "${name}" to mount into container "a"`);
  });
