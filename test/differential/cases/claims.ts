import type {
  HostPathType,
  PersistentVolumeClaimSpec,
  PersistentVolumeSpec,
  PodSpec,
} from "../../../proto/kubernetes/gen/types.ts";
import { noVolumeCase, type VolumesByName, volumeCase } from "./content-volumes.ts";
import { propagationCase } from "./directory-volumes.ts";
import {
  type HOST_DISKS,
  HOST_FOLDER,
  hasRepeatedEvent,
  isThereAndHasEnded,
  NODE_NAME,
  type ObjectOfCase,
  type PodCase,
  SIDE_NAMESPACE,
} from "./pod-case.ts";

const resources = { requests: { storage: "1Mi" } };
const once = ["ReadWriteOnce"] as const;
const nameOfVolume = (name: string) => `pv-${name}-${SIDE_NAMESPACE}`;

const persistentVolume = (name: string, source: PersistentVolumeSpec): ObjectOfCase => ({
  apiVersion: "v1",
  kind: "PersistentVolume",
  metadata: { name: nameOfVolume(name) },
  spec: {
    accessModes: once,
    capacity: { storage: "1Mi" },
    persistentVolumeReclaimPolicy: "Retain",
    storageClassName: "",
    ...source,
  },
});
const claimSpec = (name: string, more: Partial<PersistentVolumeClaimSpec> = {}): PersistentVolumeClaimSpec => ({
  accessModes: once,
  resources,
  storageClassName: "",
  volumeName: nameOfVolume(name),
  ...more,
});
const claim = (name: string, more?: Partial<PersistentVolumeClaimSpec>): ObjectOfCase => ({
  apiVersion: "v1",
  kind: "PersistentVolumeClaim",
  metadata: { name },
  spec: claimSpec(name, more),
});

/** A claim, and the volume that it is bound to. */
const bound = (name: string, source: PersistentVolumeSpec, more: Partial<PersistentVolumeClaimSpec> = {}) => [
  persistentVolume(name, source),
  claim(name, {
    ...(source.accessModes && { accessModes: source.accessModes }),
    ...(source.volumeMode && { volumeMode: source.volumeMode }),
    ...more,
  }),
];
const onNode = (node: string): PersistentVolumeSpec => ({
  nodeAffinity: {
    required: {
      nodeSelectorTerms: [{ matchExpressions: [{ key: "kubernetes.io/hostname", operator: "In", values: [node] }] }],
    },
  },
});
/** A folder of the node; a local volume has to name its nodes. */
const local = (path: string): PersistentVolumeSpec => ({ local: { path }, ...onNode(NODE_NAME) });
/** A folder of a case's own, since cases run at once. */
const disk = (name: (typeof HOST_DISKS)[number]): PersistentVolumeSpec => local(`${HOST_FOLDER}/${name}`);
const anyDisk = disk("disk");
const hostPath = (path: string, type?: HostPathType): PersistentVolumeSpec => ({
  hostPath: { path, ...(type !== undefined && { type }) },
});
const claimed = (claimName: string, readOnly?: boolean): VolumesByName[string] => ({
  persistentVolumeClaim: { claimName, ...(readOnly !== undefined && { readOnly }) },
});
/** Not by the scheduler, which keeps back pods whose claims are not bound. */
const placed: Partial<PodSpec> = { nodeName: NODE_NAME };
const ofGroup = { securityContext: { fsGroup: 2345 } };

/** A pod that is created once its claim is bound. */
const withClaim = (podCase: PodCase, name: string, source: PersistentVolumeSpec): PodCase => ({
  ...podCase,
  objects: bound(name, source),
  boundClaims: [name],
});

const boundCases: readonly PodCase[] = [
  withClaim(
    volumeCase("claim-of-local-volume", ["files", "texts", "mountinfo", "writes"], { v: claimed("local") }),
    "local",
    disk("disk-of-local"),
  ),
  withClaim(
    volumeCase("claim-of-host-path", ["files", "texts", "mountinfo"], { v: claimed("host") }),
    "host",
    hostPath(`${HOST_FOLDER}/disk-of-host`, "Directory"),
  ),
  withClaim(
    volumeCase("claim-of-host-path-that-is-made", ["files", "writes"], { v: claimed("made") }),
    "made",
    hostPath(`${HOST_FOLDER}/made-for-claim`, "DirectoryOrCreate"),
  ),
  withClaim(
    volumeCase("claim-of-a-group", ["files", "writes"], { v: claimed("of-group") }, { spec: ofGroup }),
    "of-group",
    disk("disk-of-group"),
  ),
  withClaim(
    volumeCase("claim-read-only-of-a-group", ["files"], { v: claimed("of-readers", true) }, { spec: ofGroup }),
    "of-readers",
    disk("disk-of-readers"),
  ),
  withClaim(
    volumeCase("claim-read-only", ["mountinfo", "writes"], { v: claimed("for-reader", true) }),
    "for-reader",
    anyDisk,
  ),
  withClaim(
    volumeCase(
      "claim-mounted-read-only",
      ["mountinfo", "writes"],
      { v: claimed("mounted") },
      { how: { v: { readOnly: true } } },
    ),
    "mounted",
    anyDisk,
  ),
  withClaim(volumeCase("claim-for-many-readers", ["mountinfo", "writes"], { v: claimed("many") }), "many", {
    ...anyDisk,
    accessModes: ["ReadOnlyMany"],
  }),
  withClaim(volumeCase("claim-for-one-pod", ["mountinfo", "writes"], { v: claimed("single") }), "single", {
    ...anyDisk,
    accessModes: ["ReadWriteOncePod"],
  }),
  withClaim(volumeCase("claim-with-option-ro", ["mountinfo", "writes"], { v: claimed("option") }), "option", {
    ...anyDisk,
    mountOptions: ["ro"],
  }),
  withClaim(
    volumeCase("claim-twice", ["mountinfo"], { one: claimed("twice"), two: claimed("twice") }),
    "twice",
    anyDisk,
  ),
  withClaim(
    volumeCase(
      "sub-path-of-a-claim",
      ["files", "mountinfo", "writes"],
      { v: claimed("below") },
      { how: { v: { subPath: "deep" } } },
    ),
    "below",
    disk("disk-of-sub-path"),
  ),
  {
    ...volumeCase("ephemeral-volume", ["files", "mountinfo", "writes"], {
      v: { ephemeral: { volumeClaimTemplate: { spec: claimSpec("own") } } },
    }),
    objects: [persistentVolume("own", disk("disk-of-ephemeral"))],
  },
  withClaim(propagationCase("propagation-in-claim", claimed("shared")), "shared", disk("disk-of-mounts")),
];

/** A pod that waits for its claim. */
const waiting = (name: string, volume: VolumesByName[string], objects: PodCase["objects"] = []): PodCase => ({
  ...noVolumeCase(name, { v: volume }, { spec: placed }),
  objects,
});
/** A pod that waits though its claim is bound. */
const refused = (name: string, source: PersistentVolumeSpec): PodCase =>
  withClaim(waiting(`claim-${name}`, claimed(name)), name, source);
const claimOfOthers = "no-volume-ephemeral-of-others-v";

const waitingCases: readonly PodCase[] = [
  waiting("claim-missing", claimed("none")),
  waiting("claim-unbound", claimed("unbound"), [claim("unbound")]),
  waiting(
    "claim-of-other-access",
    claimed("many-writers"),
    bound("many-writers", anyDisk, { accessModes: ["ReadWriteMany"] }),
  ),
  waiting(
    "claim-too-large",
    claimed("large"),
    bound("large", anyDisk, { resources: { requests: { storage: "2Mi" } } }),
  ),
  refused("elsewhere", { ...anyDisk, ...onNode("another-node") }),
  refused("local-missing", local(`${HOST_FOLDER}/no-disk`)),
  refused("local-file", local(`${HOST_FOLDER}/file`)),
  refused("host-path-with-options", { ...hostPath(`${HOST_FOLDER}/disk`), mountOptions: ["ro"] }),
  refused("host-path-of-wrong-type", hostPath(`${HOST_FOLDER}/disk`, "File")),
  refused("block", { ...anyDisk, volumeMode: "Block" }),
  withClaim(
    waiting("ephemeral-of-others", { ephemeral: { volumeClaimTemplate: { spec: claimSpec("others") } } }),
    claimOfOthers,
    anyDisk,
  ),
  {
    ...volumeCase("no-volume-claim-until-it-is-bound", ["files"], { v: claimed("awaited") }, { spec: placed }),
    until: hasRepeatedEvent("FailedMount"),
    afterwards: { kind: "apply objects", objects: bound("awaited", disk("disk-awaited")), until: isThereAndHasEnded },
  },
];

/** PersistentVolumeClaims and ephemeral volumes: bound to volumes of the node, not bound, missing, and of others. */
export const claimCases: readonly PodCase[] = [...waitingCases, ...boundCases];
