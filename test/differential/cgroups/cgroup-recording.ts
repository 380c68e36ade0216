import { createHash } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Pod, PodQOSClass, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import type { ResourceList } from "../../../proto/kubernetes/resource-list.ts";
import { ifAbsent } from "../../bed/if-absent.ts";
import { builtVersion } from "../../upstream/programs.ts";
import type { CgroupDriver } from "../../vm/node/system-files.ts";
import { cgroupPods, heavyClass, unrecordedPods } from "./cgroup-cases.ts";
import type { CgroupFiles, CgroupTree } from "./cgroup-tree.ts";

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
}

/** Every cgroup of a stock node that the reference kubelet runs, with all pods of the cases. */
export interface CgroupRecording {
  /** The versions of the kubelet, the kernel, containerd and runc. */
  readonly versions: Readonly<Record<"kubelet" | "kernel" | "containerd" | "runc", string>>;
  readonly node: RecordedNode;
  readonly pods: Readonly<Record<string, RecordedPod>>;
  readonly cgroups: Readonly<Record<string, CgroupFiles>>;
}

/** The kubelet's version, from `1.36.3-etcd-3.6.8`. */
export const kubeletVersion = () => builtVersion().split("-etcd-")[0] ?? "";

const howToRecord = "record the kubelet by npm run vm -- record-cgroups";

/** Reads the recording. Throws if it is of another kubelet, or of other pods, which it names. */
export async function readCgroupRecording(driver: CgroupDriver): Promise<CgroupRecording> {
  const text = await readFile(pathOf(driver), "utf8").catch(ifAbsent(undefined));
  if (text === undefined) throw new Error(`the cgroups of the kubelet with ${driver} are not recorded: ${howToRecord}`);
  const recording = JSON.parse(text) as CgroupRecording;
  const { kubelet } = recording.versions;
  if (kubelet !== kubeletVersion())
    throw new Error(`the cgroups are of kubelet ${kubelet}, not ${kubeletVersion()}: ${howToRecord}`);
  const stale = staleCases(recording).filter((name) => !unrecordedPods.includes(name));
  if (stale.length > 0)
    throw new Error(`the recorded cgroups lack these pods, or have others: ${stale.join(", ")}: ${howToRecord}`);
  return recording;
}

/**
 * The names of pods that are not recorded as they are now, and of recorded ones that are no more.
 * @internal
 */
export function staleCases({ pods }: Pick<CgroupRecording, "pods">, current = cgroupPods): readonly string[] {
  const hashes = new Map(current.map((pod) => [pod.metadata.name ?? "", hashOf(pod)]));
  const names = new Set([...hashes.keys(), ...Object.keys(pods)]);
  return [...names].filter((name) => pods[name]?.hash !== hashes.get(name)).toSorted();
}

/** Replaces the recording, with one line for each cgroup and each pod. */
export async function writeCgroupRecording(driver: CgroupDriver, recording: CgroupRecording): Promise<void> {
  await mkdir(folder, { recursive: true });
  const fields = Object.entries(recording).map(([name, value]) => {
    const lines = Object.entries(value as object).map(
      ([key, each]) => `  ${JSON.stringify(key)}: ${JSON.stringify(each)}`,
    );
    return ` ${JSON.stringify(name)}: {\n${lines.join(",\n")}\n }`;
  });
  await writeFile(pathOf(driver), `{\n${fields.join(",\n")}\n}\n`);
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
  };
}

/** The hash of the pod as it is created, and of its RuntimeClass. */
function hashOf(pod: Pod): string {
  const runtimeClass = pod.spec.runtimeClassName === undefined ? undefined : heavyClass;
  return createHash("sha256").update(JSON.stringify({ pod, runtimeClass })).digest("hex").slice(0, 16);
}

/** A tree as it is recorded. */
export const toRecord = (tree: CgroupTree): Readonly<Record<string, CgroupFiles>> => Object.fromEntries(tree);

const pathOf = (driver: CgroupDriver) => join(folder, `${driver}.json`);
