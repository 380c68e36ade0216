import { expect, test } from "bun:test";
import { claimKey, type KnownClaim } from "../../../proto/kubernetes/claims.ts";
import type { PersistentVolumeSpec, Pod, Volume } from "../../../proto/kubernetes/gen/types.ts";
import { nodeFacts } from "../../../test/fakes/node-facts.ts";
import { claimedVolumeOf } from "./claimed-volume.ts";
import { volumeLocation } from "./volume-location.ts";

const claims = (name: string, known: KnownClaim) =>
  new Map([[claimKey({ namespace: "shop", name, podUid: "u-1" }), known]]);
const bound = (
  spec: PersistentVolumeSpec,
  claim: object = {},
  annotations: Readonly<Record<string, string>> = {},
): KnownClaim => ({
  claim: { metadata: { name: "data", ...claim }, spec: {} },
  persistentVolume: { metadata: { name: "pv-1", annotations }, spec },
});
const factsWith = (known: ReadonlyMap<string, KnownClaim>) => ({
  ...nodeFacts,
  cluster: {
    services: [],
    runtimeHandlers: undefined,
    referencedObjects: new Map(),
    tokens: new Map(),
    claims: known,
    nodeLabels: {},
  },
});
const podWith = (volume: Volume, container: object = {}): Pod => ({
  metadata: { name: "web", namespace: "shop", uid: "u-1" },
  spec: { containers: [{ name: "a", ...container }], volumes: [volume] },
});
const used: Volume = { name: "v", persistentVolumeClaim: { claimName: "data" } };
const readOnly: Volume = { name: "v", persistentVolumeClaim: { claimName: "data", readOnly: true } };
const ephemeral: Volume = { name: "v", ephemeral: {} };
const local: PersistentVolumeSpec = { local: { path: "/mnt/disk" } };
const ofPod = { ownerReferences: [{ controller: true, uid: "u-1" }] };
const localDir = "/root-dir/pods/u-1/volumes/kubernetes.io~local-volume/pv-1";

const locations: readonly [
  sentence: string,
  volume: Volume,
  known: ReadonlyMap<string, KnownClaim>,
  expected: object,
][] = [
  [
    "a claim of a hostPath volume is the path of the node",
    used,
    claims("data", bound({ hostPath: { path: "/srv" } })),
    { hostPath: "/srv", isReadOnly: false, isRelabelled: false, isNodePath: true },
  ],
  [
    "a claim of a local volume is the pod's mount of it, under the volume's name",
    used,
    claims("data", bound(local)),
    { hostPath: localDir, isReadOnly: false, isRelabelled: true, isNodePath: true },
  ],
  [
    "a claim that the pod may only read",
    readOnly,
    claims("data", bound(local)),
    { hostPath: localDir, isReadOnly: true, isRelabelled: false, isNodePath: true },
  ],
  [
    "a volume that is mounted with the option ro",
    used,
    claims("data", bound({ ...local, mountOptions: ["ro"] })),
    { hostPath: localDir, isReadOnly: true, isRelabelled: false, isNodePath: true },
  ],
  [
    "ReadOnlyMany alone does not make a volume read-only",
    used,
    claims("data", bound({ ...local, accessModes: ["ReadOnlyMany"] })),
    { hostPath: localDir, isReadOnly: false, isRelabelled: true, isNodePath: true },
  ],
  [
    "an ephemeral volume has the claim of pod and volume",
    ephemeral,
    claims("web-v", bound(local, ofPod)),
    { hostPath: localDir, isReadOnly: false, isRelabelled: true, isNodePath: true },
  ],
];
for (const [sentence, volume, known, expected] of locations)
  test(sentence, () => {
    expect(volumeLocation(podWith(volume), volume, factsWith(known))).toEqual(expected as never);
  });

test("a claim of a volume without a driver has no path", () => {
  const known = claims("data", bound({ csi: { driver: "d.example.com", volumeHandle: "1" } }));
  expect(volumeLocation(podWith(used), used, factsWith(known))).toBeUndefined();
});

const unprocessed = (why: string) =>
  `Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]: ${why}`;
const mounted = { volumeMounts: [{ name: "v", mountPath: "/v" }] };
const device = { volumeDevices: [{ name: "v", devicePath: "/dev/v" }] };
const failures: readonly [
  sentence: string,
  volume: Volume,
  known: ReadonlyMap<string, KnownClaim>,
  container: object,
  why: string,
][] = [
  [
    "a claim that is not bound",
    used,
    claims("data", { failure: "PVC is not bound" }),
    mounted,
    "error processing PVC shop/data: PVC is not bound",
  ],
  [
    "a claim that was not read",
    used,
    new Map(),
    mounted,
    "error processing PVC shop/data: failed to fetch PVC from API server: timed out waiting for the condition",
  ],
  [
    "an ephemeral volume whose claim another one has made",
    ephemeral,
    claims("web-v", bound(local)),
    mounted,
    "PVC shop/web-v was not created for pod shop/web (pod is not owner)",
  ],
  [
    "an ephemeral volume whose claim belongs to an earlier pod of the name",
    ephemeral,
    claims("web-v", bound(local, { ownerReferences: [{ controller: true, uid: "u-0" }] })),
    mounted,
    "PVC shop/web-v was not created for pod shop/web (pod is not owner)",
  ],
  [
    "a block volume that a container mounts",
    used,
    claims("data", bound({ ...local, volumeMode: "Block" })),
    mounted,
    "volume v has volumeMode Block, but is specified in volumeMounts",
  ],
  [
    "a file system that a container uses as a device",
    used,
    claims("data", bound(local)),
    device,
    "volume v has volumeMode Filesystem, but is specified in volumeDevices",
  ],
];
for (const [sentence, volume, known, container, why] of failures)
  test(`${sentence} cannot be used, in the kubelet's words`, () => {
    const facts = factsWith(known);
    expect(() => claimedVolumeOf({ pod: podWith(volume, container), facts }, volume)).toThrow(
      expect.objectContaining({ name: "TranslateError", reason: "FailedMount", message: unprocessed(why) }),
    );
  });

test("another volume has no claim", () => {
  expect(claimedVolumeOf({ pod: podWith(used), facts: nodeFacts }, { name: "w", emptyDir: {} })).toBeUndefined();
});

const nfs: PersistentVolumeSpec = { nfs: { server: "192.0.2.7", path: "/share" }, mountOptions: ["soft"] };
const annotated: readonly [annotation: string | undefined, mountOptions: readonly string[], isReadOnly: boolean][] = [
  [undefined, ["soft"], false],
  ["hard,ro", ["hard", "ro"], true],
  ["", [], false],
];
for (const [annotation, mountOptions, isReadOnly] of annotated)
  test(`mount options of a volume whose older annotation is ${JSON.stringify(annotation)}`, () => {
    const annotations = annotation === undefined ? {} : { "volume.beta.kubernetes.io/mount-options": annotation };
    const facts = factsWith(claims("data", bound(nfs, {}, annotations)));
    const claimed = claimedVolumeOf({ pod: podWith(used), facts }, used);
    expect(claimed).toMatchObject({ mountOptions, isReadOnly });
  });
