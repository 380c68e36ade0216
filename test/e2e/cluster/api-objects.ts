import type { Container, Pod, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { podOf } from "../manifest.ts";

/** An object of the API as a user writes it. */
export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: unknown;
}

/** The spec of {@link podOf}, by default without a service account token. */
export function podSpec(container: Partial<Container> = {}, spec: Partial<PodSpec> = {}): PodSpec {
  const own = { automountServiceAccountToken: false, ...spec };
  return podOf("", { imagePullPolicy: "IfNotPresent", ...container }, own).spec;
}

/** A pod without a controller. It has the label `app=NAME`, like the pods of workloads. */
export function barePod(name: string, container?: Partial<Container>, spec?: Partial<PodSpec>): Pod & Manifest {
  return { apiVersion: "v1", kind: "Pod", metadata: { name, labels: { app: name } }, spec: podSpec(container, spec) };
}

export function deployment(name: string, replicas: number, spec = podSpec()): Manifest {
  return workload("apps/v1", "Deployment", name, spec, { replicas, ...selectorOf(name) });
}

export function daemonSet(name: string, spec = podSpec()): Manifest {
  return workload("apps/v1", "DaemonSet", name, spec, selectorOf(name));
}

/** A Job with `completions` parallel pods, which fails with its first failed pod. */
export function job(
  name: string,
  completions: number,
  container: Partial<Container>,
  more: Partial<PodSpec> = {},
): Manifest {
  const spec = podSpec(container, { restartPolicy: "Never", ...more });
  return workload("batch/v1", "Job", name, spec, { completions, parallelism: completions, backoffLimit: 0 });
}

const labelsOf = (name: string) => ({ app: name });
const selectorOf = (name: string) => ({ selector: { matchLabels: labelsOf(name) } });

function workload(apiVersion: string, kind: string, name: string, spec: PodSpec, fields: object): Manifest {
  const template = { metadata: { labels: labelsOf(name) }, spec };
  return { apiVersion, kind, metadata: { name }, spec: { ...fields, template } };
}
