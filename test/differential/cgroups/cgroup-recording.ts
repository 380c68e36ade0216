import { createHash } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { allContainerStatuses } from "../../../proto/kubernetes/containers.ts";
import type { ContainerStatus, Pod, PodQOSClass, PodSpec, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import type { ResourceList } from "../../../proto/kubernetes/resource-list.ts";
import { ifAbsent } from "../../bed/if-absent.ts";
import { builtVersion } from "../../upstream/programs.ts";
import type { CgroupDriver } from "../../vm/node/system-files.ts";
import { cgroupBatches, heavyClass } from "./cgroup-cases.ts";
import type { CgroupFiles, CgroupTree } from "./cgroup-tree.ts";
import { resizePatch } from "./resize-cases.ts";

const folder = join(import.meta.dirname, "../../golden/kubelet-cgroups");

/** The facts of the recorded node that its cgroups depend on. */
export interface RecordedNode {
  /** The capacity of the Node object. */
  readonly capacity: ResourceList;
  /** The kernel's list of CPUs, such as `0-1`. */
  readonly onlineCpus: string;
  /** The processes that the kernel allows: the smaller of `pid_max` and `threads-max`. */
  readonly pids: number;
  /** The kernel's huge page sizes, in bytes. */
  readonly hugePageSizes: readonly number[];
}

/** A pod as the API server has it: its QoS class, and the part of its spec that its cgroups depend on. */
export interface RecordedPod {
  /** The hash of the pod as it was created. */
  readonly hash: string;
  readonly qosClass: PodQOSClass;
  readonly spec: PodSpec;
  readonly status: ResourceStatus;
}

/** What the status of a pod says of the resources that its running containers and sidecars have. */
export interface ResourceStatus {
  readonly containers: Readonly<
    Record<string, Pick<ContainerStatus, "resources" | "allocatedResources" | "restartCount">>
  >;
  /** The conditions of a resize, by type, with their reasons. */
  readonly resizes: Readonly<Record<string, string>>;
}

/** Every cgroup of a stock node that the reference kubelet runs, with the pods of one batch. */
export interface RecordedBatch {
  readonly node: RecordedNode;
  readonly pods: Readonly<Record<string, RecordedPod>>;
  readonly cgroups: Readonly<Record<string, CgroupFiles>>;
}

/** The batches by name. */
export interface CgroupRecording {
  /** The versions of the kubelet, the kernel, containerd and runc. */
  readonly versions: Readonly<Record<"kubelet" | "kernel" | "containerd" | "runc", string>>;
  readonly batches: Readonly<Record<string, RecordedBatch>>;
}

/** The kubelet's version, from `1.36.3-etcd-3.6.8`. */
export const kubeletVersion = () => builtVersion().split("-etcd-")[0] ?? "";

const howToRecord = "record the kubelet by npm run vm -- record-cgroups";

/** Reads the recording. Throws if it is of another kubelet, or of other pods, and names their batches. */
export async function readCgroupRecording(driver: CgroupDriver): Promise<CgroupRecording> {
  const recording = await findCgroupRecording(driver);
  if (recording === undefined)
    throw new Error(`the cgroups of the kubelet with ${driver} are not recorded: ${howToRecord}`);
  const { kubelet } = recording.versions;
  if (kubelet !== kubeletVersion())
    throw new Error(`the cgroups are of kubelet ${kubelet}, not ${kubeletVersion()}: ${howToRecord}`);
  const stale = staleBatches(recording);
  if (stale.length > 0)
    throw new Error(`the recorded cgroups lack these batches, or have other pods: ${stale.join(", ")}: ${howToRecord}`);
  return recording;
}

/** Reads the recording, stale or not; undefined if there is none. */
export async function findCgroupRecording(driver: CgroupDriver): Promise<CgroupRecording | undefined> {
  const text = await readFile(pathOf(driver), "utf8").catch(ifAbsent(undefined));
  return text === undefined ? undefined : (JSON.parse(text) as CgroupRecording);
}

/** The names of batches whose pods are not recorded as they are now, and of recorded ones that are no more. */
export function staleBatches(
  { batches }: Pick<CgroupRecording, "batches">,
  current: Readonly<Record<string, readonly Pod[]>> = cgroupBatches,
): readonly string[] {
  const recordedHashes = (name: string) =>
    batches[name] && Object.entries(batches[name].pods).map(([pod, { hash }]) => `${pod} ${hash}`);
  const currentHashes = (name: string) => current[name]?.map((pod) => `${pod.metadata.name} ${hashOf(pod)}`);
  const names = new Set([...Object.keys(current), ...Object.keys(batches)]);
  return [...names].filter(
    (name) => !isDeepStrictEqual(recordedHashes(name)?.toSorted(), currentHashes(name)?.toSorted()),
  );
}

/**
 * Replaces one batch of the recording, with one line for each cgroup and each pod, and removes those that are no more.
 * Batches that other versions have recorded are removed too.
 */
export async function writeRecordedBatch(
  driver: CgroupDriver,
  versions: CgroupRecording["versions"],
  name: string,
  batch: RecordedBatch,
): Promise<void> {
  const before = await findCgroupRecording(driver);
  const kept = before !== undefined && isDeepStrictEqual(before.versions, versions) ? before.batches : {};
  const all: CgroupRecording["batches"] = { ...kept, [name]: batch };
  const batches = Object.fromEntries(
    Object.keys(cgroupBatches).flatMap((each) => (all[each] ? [[each, all[each]]] : [])),
  );
  await mkdir(folder, { recursive: true });
  await writeFile(pathOf(driver), `${printJson({ versions, batches }, 4)}\n`);
}

/** JSON with a line of its own for each field of the outer `levels` levels. */
function printJson(value: unknown, levels: number, indent = ""): string {
  if (levels === 0 || typeof value !== "object" || value === null || Array.isArray(value)) return JSON.stringify(value);
  const inner = `${indent} `;
  const lines = Object.entries(value).map(
    ([key, each]) => `${inner}${JSON.stringify(key)}: ${printJson(each, levels - 1, inner)}`,
  );
  return lines.length === 0 ? "{}" : `{\n${lines.join(",\n")}\n${indent}}`;
}

/** What a recording says of a pod of the API server that was created as `created`. */
export function recordPod(created: Pod, { spec, status }: Pod): RecordedPod {
  if (status?.qosClass === undefined) throw new Error(`the API server gives ${created.metadata.name} no QoS class`);
  const { containers, initContainers, resources, overhead } = spec;
  const shorten = (list: typeof containers) =>
    list.map(({ name, resources: own, restartPolicy }) => ({
      name,
      ...(own !== undefined && { resources: own }),
      ...(restartPolicy !== undefined && { restartPolicy }),
    }));
  return {
    hash: hashOf(created),
    qosClass: status.qosClass,
    spec: {
      containers: shorten(containers),
      ...(initContainers !== undefined && { initContainers: shorten(initContainers) }),
      ...(resources !== undefined && { resources }),
      ...(overhead !== undefined && { overhead }),
    },
    status: resourceStatus(status),
  };
}

/** Reads the part of a pod's status that is about its resources. */
export function resourceStatus(status: PodStatus | undefined): ResourceStatus {
  const running = allContainerStatuses(status).filter(({ state }) => state?.running !== undefined);
  const resizes = (status?.conditions ?? []).filter(({ type }) => type.startsWith("PodResize"));
  return {
    containers: Object.fromEntries(
      running.map(({ name, resources, allocatedResources, restartCount }) => [
        name,
        {
          ...(resources !== undefined && { resources }),
          ...(allocatedResources !== undefined && { allocatedResources }),
          restartCount,
        },
      ]),
    ),
    resizes: Object.fromEntries(resizes.map(({ type, reason = "" }) => [type, reason])),
  };
}

/** The hash of the pod as it is created, of its RuntimeClass, and of its resize. */
function hashOf(pod: Pod): string {
  const runtimeClass = pod.spec.runtimeClassName === undefined ? undefined : heavyClass;
  const resize = resizePatch(pod.metadata.name ?? "");
  return createHash("sha256").update(JSON.stringify({ pod, runtimeClass, resize })).digest("hex").slice(0, 16);
}

/** A tree as it is recorded. */
export const toRecord = (tree: CgroupTree): Readonly<Record<string, CgroupFiles>> => Object.fromEntries(tree);

const pathOf = (driver: CgroupDriver) => join(folder, `${driver}.json`);
