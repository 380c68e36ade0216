import type { Container, Pod, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { podOf } from "../manifest.ts";

/** An object of the API as a user writes it down. */
export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: unknown;
}

/** What {@link podOf} gives, without an account. */
export function specOf(container: Partial<Container> = {}, spec: Partial<PodSpec> = {}): PodSpec {
  const wanted = podOf("", { imagePullPolicy: "IfNotPresent", ...container }, spec).spec;
  return { ...wanted, automountServiceAccountToken: false };
}

/** A pod of no workload, under the label `app=NAME`, as those of workloads are. */
export function barePod(name: string, container?: Partial<Container>, spec?: Partial<PodSpec>): Pod & Manifest {
  return { apiVersion: "v1", kind: "Pod", metadata: { name, labels: { app: name } }, spec: specOf(container, spec) };
}

export function deployment(name: string, replicas: number, spec = specOf()): Manifest {
  return workload("apps/v1", "Deployment", name, spec, { replicas, ...selectorOf(name) });
}

export function daemonSet(name: string, spec = specOf()): Manifest {
  return workload("apps/v1", "DaemonSet", name, spec, selectorOf(name));
}

/** One that has to complete so often, and fails with its first pod that fails. */
export function job(
  name: string,
  completions: number,
  container: Partial<Container>,
  more: Partial<PodSpec> = {},
): Manifest {
  const spec = specOf(container, { restartPolicy: "Never", ...more });
  return workload("batch/v1", "Job", name, spec, { completions, parallelism: completions, backoffLimit: 0 });
}

const labelsOf = (name: string) => ({ app: name });
const selectorOf = (name: string) => ({ selector: { matchLabels: labelsOf(name) } });

function workload(apiVersion: string, kind: string, name: string, spec: PodSpec, fields: object): Manifest {
  const template = { metadata: { labels: labelsOf(name) }, spec };
  return { apiVersion, kind, metadata: { name }, spec: { ...fields, template } };
}
