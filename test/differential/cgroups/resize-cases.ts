import type { Container, Pod, ResourceRequirements } from "../../../proto/kubernetes/gen/types.ts";
import { podOf } from "../../e2e/manifest.ts";

/** The amount before and after the slash is request and limit; one amount is both. */
function sized(cpu: string, memory: string): ResourceRequirements {
  const [cpuRequest = "", cpuLimit = cpuRequest] = cpu.split("/");
  const [memoryRequest = "", memoryLimit = memoryRequest] = memory.split("/");
  return { requests: { cpu: cpuRequest, memory: memoryRequest }, limits: { cpu: cpuLimit, memory: memoryLimit } };
}
const requests = (cpu: string, memory: string): ResourceRequirements => ({ requests: { cpu, memory } });

/** The resources of a container or sidecar at its start, and those that it gets while it runs. */
interface ResizedContainer {
  readonly before: ResourceRequirements;
  readonly after: ResourceRequirements;
  readonly isSidecar?: boolean;
  /** A resource whose change restarts the container. */
  readonly restartsFor?: "cpu" | "memory";
}

const small = sized("20m/400m", "32Mi/64Mi");
const large = sized("40m/600m", "48Mi/96Mi");

const cases: Readonly<Record<string, Readonly<Record<string, ResizedContainer>>>> = {
  "resize-up": { main: { before: small, after: large } },
  "resize-down": { main: { before: large, after: small } },
  "resize-guaranteed": { main: { before: sized("200m", "32Mi"), after: sized("220m", "48Mi") } },
  "resize-of-requests": { main: { before: requests("20m", "32Mi"), after: requests("30m", "40Mi") } },
  "resize-of-limits": { main: { before: small, after: sized("20m/500m", "32Mi/80Mi") } },
  "resize-adds-limits": { main: { before: requests("20m", "32Mi"), after: small } },
  "resize-below-minimum": { main: { before: small, after: sized("1m/5m", "32Mi/64Mi") } },
  // Quotas around the smallest one that the kernel accepts, which systemd rounds up to whole percents.
  "resize-to-1m": { main: { before: sized("200m", "32Mi"), after: sized("1m", "32Mi") } },
  "resize-to-10m": { main: { before: sized("200m", "32Mi"), after: sized("10m", "32Mi") } },
  "resize-to-11m": { main: { before: sized("200m", "32Mi"), after: sized("11m", "32Mi") } },
  "resize-in-decimals": { main: { before: sized("20m/400m", "32M/64M"), after: sized("20m/410m", "40M/80M") } },
  "resize-restarts-for-memory": {
    main: { before: small, after: sized("20m/410m", "48Mi/96Mi"), restartsFor: "memory" },
  },
  "resize-restarts-for-cpu-only": {
    main: { before: small, after: sized("20m/400m", "48Mi/96Mi"), restartsFor: "cpu" },
  },
  "resize-of-two": { main: { before: small, after: large }, other: { before: large, after: small } },
  "resize-of-sidecar": {
    proxy: { before: small, after: sized("30m/420m", "40Mi/80Mi"), isSidecar: true },
    main: { before: sized("200m", "32Mi"), after: sized("200m", "32Mi") },
  },
};

/** Pods that are resized while they run, as they are created. */
export const resizePods: readonly Pod[] = Object.entries(cases).map(([name, resized]) => {
  const { spec, ...pod } = podOf(name);
  const [template] = spec.containers as readonly [Container];
  const containers = Object.entries(resized).map(
    ([container, { before, restartsFor, isSidecar = false }]): Container & { readonly isSidecar: boolean } => ({
      ...template,
      name: container,
      resources: before,
      ...(restartsFor !== undefined && {
        resizePolicy: [{ resourceName: restartsFor, restartPolicy: "RestartContainer" }],
      }),
      isSidecar,
    }),
  );
  const initContainers = containers.flatMap(({ isSidecar, ...container }) =>
    isSidecar ? [{ ...container, restartPolicy: "Always" as const }] : [],
  );
  return {
    ...pod,
    spec: {
      ...spec,
      containers: containers.flatMap(({ isSidecar, ...container }) => (isSidecar ? [] : [container])),
      ...(initContainers.length > 0 && { initContainers }),
      hostNetwork: true,
      automountServiceAccountToken: false,
      terminationGracePeriodSeconds: 1,
    },
  };
});

/** The patch of the subresource `resize` of a pod; undefined for a pod that is not resized. */
export function resizePatch(name: string): Readonly<Record<string, unknown>> | undefined {
  const resized = cases[name];
  if (resized === undefined) return undefined;
  const [init, app] = [true, false].map((ofSidecars) =>
    Object.entries(resized).flatMap(([container, { after, isSidecar = false }]) =>
      isSidecar === ofSidecars ? [{ name: container, resources: after }] : [],
    ),
  );
  return { spec: { ...(init!.length > 0 && { initContainers: init }), containers: app } };
}
