import { expect, test } from "bun:test";
import { claimKey, type KnownClaim } from "../../../proto/kubernetes/claims.ts";
import type { PersistentVolumeSpec, Pod, Volume } from "../../../proto/kubernetes/gen/types.ts";
import { nodeFacts } from "../../../test/fakes/node-facts.ts";
import { measurableVolumes } from "./measurable-volumes.ts";

const podWith = (volume: Volume, isMounted = true): Pod => ({
  metadata: { name: "web", namespace: "shop", uid: "u-1" },
  spec: {
    containers: [{ name: "a", ...(isMounted && { volumeMounts: [{ name: volume.name, mountPath: "/v" }] }) }],
    volumes: [volume],
  },
});
const bound = (spec: PersistentVolumeSpec): KnownClaim => ({
  claim: { metadata: { name: "data" }, spec: {} },
  persistentVolume: { metadata: { name: "pv-1" }, spec },
});
const factsWith = (known: KnownClaim | undefined) => ({
  ...nodeFacts,
  cluster: {
    ...{ services: [], runtimeHandlers: undefined, referencedObjects: new Map(), tokens: new Map(), nodeLabels: {} },
    claims: new Map(known && [[claimKey({ namespace: "shop", name: "data", podUid: "u-1" }), known]]),
  },
});
const below = "pods/u-1/volumes/kubernetes.io~";
const claimed: Volume = { name: "v", persistentVolumeClaim: { claimName: "data" } };

const rows: readonly [sentence: string, volume: Volume, known: KnownClaim | undefined, expected: object][] = [
  [
    "an emptyDir shares the disk of the node",
    { name: "v", emptyDir: { sizeLimit: "1Mi" } },
    undefined,
    { kind: "emptyDir", folder: `${below}empty-dir/v`, measurement: "du", limitBytes: 2 ** 20 },
  ],
  [
    "one in memory is limited by what pods may use of the memory, too",
    { name: "v", emptyDir: { medium: "Memory" } },
    undefined,
    { kind: "emptyDir", folder: `${below}empty-dir/v`, measurement: "du", limitBytes: 2 ** 33 },
  ],
  [
    "an emptyDir on disk may have no limit",
    { name: "v", emptyDir: {} },
    undefined,
    { kind: "emptyDir", folder: `${below}empty-dir/v`, measurement: "du" },
  ],
  [
    "a limit that is no quantity is none",
    { name: "v", emptyDir: { sizeLimit: "much" } },
    undefined,
    { kind: "emptyDir", folder: `${below}empty-dir/v`, measurement: "du" },
  ],
  [
    "neither is one in memory",
    { name: "v", emptyDir: { medium: "Memory", sizeLimit: "much" } },
    undefined,
    { kind: "emptyDir", folder: `${below}empty-dir/v`, measurement: "du" },
  ],
  [
    "the files of a Secret are added up",
    { name: "v", secret: { secretName: "s" } },
    undefined,
    { kind: "secret", folder: `${below}secret/v`, measurement: "du" },
  ],
  ["a path of the node is not measured", { name: "v", hostPath: { path: "/srv" } }, undefined, { kind: "hostPath" }],
  [
    "a local volume is asked for the figures of its file system, by its own name",
    claimed,
    bound({ local: { path: "/srv" } }),
    { kind: "persistentVolumeClaim", claim: "data", folder: `${below}local-volume/pv-1`, measurement: "statfs" },
  ],
  [
    "a volume of a server is asked for the figures of its file system: no file of it is looked at",
    { name: "v", nfs: { server: "192.0.2.7", path: "/share" } },
    undefined,
    { kind: "nfs", folder: `${below}nfs/v`, measurement: "statfs" },
  ],
  [
    "a claim of a path of the node is not measured",
    claimed,
    bound({ hostPath: { path: "/srv" } }),
    { kind: "persistentVolumeClaim", claim: "data" },
  ],
  ["a claim that is not bound is not measured", claimed, undefined, { kind: "persistentVolumeClaim", claim: "data" }],
  ["a volume without a driver is not measured", { name: "v", csi: { driver: "d" } }, undefined, { kind: "csi" }],
];
for (const [sentence, volume, known, expected] of rows)
  test(sentence, () => {
    expect(measurableVolumes(podWith(volume), factsWith(known))).toEqual([{ name: "v", ...expected } as never]);
  });

test("a volume that no container uses is not on the node", () => {
  expect(measurableVolumes(podWith({ name: "v", emptyDir: {} }, false), nodeFacts)).toEqual([]);
});
