import type {
  Container,
  Pod,
  PodSpec,
  ResourceRequirements,
  RuntimeClass,
} from "../../../proto/kubernetes/gen/types.ts";
import { podOf } from "../../e2e/manifest.ts";
import { resizePods } from "./resize-cases.ts";

/** A RuntimeClass whose pods have an overhead. */
export const heavyClass: RuntimeClass = {
  apiVersion: "node.k8s.io/v1",
  kind: "RuntimeClass",
  metadata: { name: "heavy" },
  handler: "runc",
  overhead: { podFixed: { cpu: "50m", memory: "24Mi" } },
};

const equal = (cpu: string, memory: string, more: Readonly<Record<string, string>> = {}): ResourceRequirements => ({
  requests: { cpu, memory, ...more },
  limits: { cpu, memory, ...more },
});
const requests = (list: Readonly<Record<string, string>>): ResourceRequirements => ({ requests: list });
const limits = (list: Readonly<Record<string, string>>): ResourceRequirements => ({ limits: list });
const half: ResourceRequirements = {
  requests: { cpu: "20m", memory: "32Mi" },
  limits: { cpu: "500m", memory: "64Mi" },
};

/** One app container of each list of resources: `main`, `second`, …; of an init container the kind. */
type Case = {
  readonly containers: readonly ResourceRequirements[];
  readonly init?: readonly { readonly isSidecar: boolean; readonly resources: ResourceRequirements }[];
  readonly spec?: Partial<PodSpec>;
};
const sidecar = (resources: ResourceRequirements) => ({ isSidecar: true, resources });
const init = (resources: ResourceRequirements) => ({ isSidecar: false, resources });
const heavy = { runtimeClassName: "heavy" };

/**
 * Pods of all QoS classes by name, with resources at the edges of what the API and the kernel accept. Each batch fits
 * into a node of 2 CPUs and 3 GiB, with 16 huge pages of 2 MiB. With a small CPU limit a container
 * would start for minutes on an emulated processor, so such limits are among those of pods that are resized.
 */
const cases: Readonly<Record<string, Case>> = {
  guaranteed: { containers: [equal("400m", "64Mi")] },
  "guaranteed-two": { containers: [equal("300m", "32Mi"), equal("200m", "48Mi")] },
  "guaranteed-overhead": { containers: [equal("300m", "32Mi")], spec: heavy },
  "guaranteed-init": { init: [init(equal("400m", "64Mi"))], containers: [equal("300m", "32Mi")] },
  "guaranteed-sidecar": {
    init: [sidecar(equal("200m", "32Mi")), init(equal("350m", "48Mi"))],
    containers: [equal("250m", "40Mi")],
  },
  "guaranteed-huge-pages": { containers: [equal("300m", "32Mi", { "hugepages-2Mi": "4Mi" })] },
  "guaranteed-pod-level": { containers: [{}], spec: { resources: equal("400m", "64Mi") } },
  "guaranteed-odd-memory": { containers: [equal("300m", "40000001")] },
  // The largest request with the weight 1, and the smallest one with 2.
  "burstable-28m": { containers: [requests({ cpu: "28m" })] },
  "burstable-29m": { containers: [requests({ cpu: "29m" })] },
  "burstable-memory": { containers: [requests({ memory: "32Mi" })] },
  "burstable-fraction-of-a-byte": { containers: [limits({ memory: "40000000500m" })] },
  "burstable-limits": { containers: [half, half] },
  "burstable-cpu-unlimited": { containers: [half, { requests: { cpu: "10m" }, limits: { memory: "48Mi" } }] },
  "burstable-memory-unlimited": { containers: [half, { requests: { memory: "32Mi" }, limits: { cpu: "400m" } }] },
  "burstable-limit-of-0": { containers: [half, limits({ cpu: "0", memory: "0" })] },
  "burstable-cpu-limit": { containers: [limits({ cpu: "400m" })] },
  "burstable-init-unlimited": { init: [init({})], containers: [half] },
  "burstable-sidecar-unlimited": { init: [sidecar({})], containers: [half] },
  "burstable-overhead": { containers: [half], spec: heavy },
  "burstable-huge-pages": { containers: [limits({ "hugepages-2Mi": "2Mi", memory: "32Mi" })] },
  "burstable-many-cpus": {
    containers: [{ requests: { cpu: "10m", memory: "32Mi" }, limits: { cpu: "1000", memory: "1Ti" } }],
  },
  // The kernel accepts 4m more, but systemd counts in hundredths of a CPU.
  "burstable-largest-quota": { containers: [{ requests: { cpu: "10m" }, limits: { cpu: "175921860440m" } }] },
  "burstable-pod-level": {
    containers: [half, {}],
    spec: { resources: { requests: { cpu: "60m", memory: "64Mi" }, limits: { cpu: "900m", memory: "128Mi" } } },
  },
  "burstable-pod-level-memory": {
    containers: [half, {}],
    spec: { resources: { requests: { memory: "64Mi" }, limits: { memory: "96Mi" } } },
  },
  besteffort: { containers: [{}] },
  "besteffort-init": { init: [init({})], containers: [{}] },
  "besteffort-overhead": { containers: [{}], spec: heavy },
};

const containerNames = ["main", "second"];
/** How many pods each batch has, in the order of the cases. */
const batchSizes = [4, 4, 10, 10];

/** The pods whose cgroups are compared, as they are created. They use the host's network, which has no cgroups. */
export const cgroupPods: readonly Pod[] = Object.entries(cases).map(([name, podCase]) => {
  const base = podOf(name);
  const [template] = base.spec.containers as readonly [Container];
  const container = (containerName: string, resources: ResourceRequirements): Container => ({
    ...template,
    name: containerName,
    resources,
  });
  const initContainers = (podCase.init ?? []).map(({ isSidecar, resources }, at) =>
    isSidecar
      ? { ...container(`init-${at}`, resources), restartPolicy: "Always" as const }
      : { ...container(`init-${at}`, resources), command: ["true"] },
  );
  return {
    ...base,
    spec: {
      ...base.spec,
      containers: podCase.containers.map((resources, at) => container(containerNames[at] ?? `c${at}`, resources)),
      ...(initContainers.length > 0 && { initContainers }),
      hostNetwork: true,
      automountServiceAccountToken: false,
      terminationGracePeriodSeconds: 1,
      ...podCase.spec,
    },
  };
});

/**
 * The pods in batches, one after the other on a node: an emulated processor starts all of them at once too slowly. The first
 * batch is the node without pods; those of the last are resized once they run.
 */
export const cgroupBatches: Readonly<Record<string, readonly Pod[]>> = {
  none: [],
  ...Object.fromEntries(
    batchSizes.map((size, part) => {
      const first = batchSizes.slice(0, part).reduce((sum, each) => sum + each, 0);
      return [`part ${part + 1}`, cgroupPods.slice(first, first + size)];
    }),
  ),
  resized: resizePods,
};
