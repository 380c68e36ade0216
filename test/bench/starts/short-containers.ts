import { busyboxImage } from "../../bed/images/images.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { benchPod } from "../bench-pod.ts";
import { jobsPath, podsPath } from "../cluster/api-watch.ts";
import { type ClusterSubjects, deletePods, startPods } from "../cluster/cluster-rounds.ts";
import type { ComparedNode } from "../cluster/compared-node.ts";

type Subjects = Pick<ClusterSubjects, "api" | "watch" | "names">;

/** The Job of the bench: its pods run `true`. */
export const JOB = { completions: 40, parallelism: 8 } as const;
/** The number of init containers that run `true`. */
export const INIT_CONTAINERS = 5;

const TIMEOUT_MS = 60_000;

/** Measures from the create request of a Job to its condition Complete. */
export async function measureJob(subjects: Subjects, { nodeName }: ComparedNode): Promise<number> {
  const { api, watch } = subjects;
  const [name = ""] = subjects.names(1);
  const complete = watch.jobComplete(name);
  const requestedAt = Date.now();
  await api.create(jobsPath, jobOf(name, nodeName));
  const lastedMs = (await complete) - requestedAt;
  await api.remove(`${jobsPath}/${name}`, { propagationPolicy: "Background" });
  const isEmpty = async () => (await api.list(`${podsPath}?labelSelector=job-name=${name}`)).items.length === 0;
  await pollUntil("the pods of the Job to be gone", TIMEOUT_MS, isEmpty);
  return lastedMs;
}

function jobOf(name: string, nodeName: string): object {
  const spec = {
    restartPolicy: "Never",
    automountServiceAccountToken: false,
    nodeSelector: { "kubernetes.io/hostname": nodeName },
    containers: [{ name: "main", image: busyboxImage, command: ["true"] }],
  };
  return { apiVersion: "batch/v1", kind: "Job", metadata: { name }, spec: { ...JOB, template: { spec } } };
}

/** Measures from the create request of a pod with init containers to its condition Ready. */
export async function measureInitContainers(subjects: Subjects, member: ComparedNode): Promise<number> {
  const [name = ""] = subjects.names(1);
  const initContainers = Array.from({ length: INIT_CONTAINERS }, (_, at) => ({
    ...{ name: `init-${at}`, image: busyboxImage, command: ["true"] },
  }));
  const { containers } = benchPod(name).spec;
  const { wall } = await startPods(subjects, member, [name], { initContainers, containers });
  await deletePods(subjects, [name]);
  return wall;
}
