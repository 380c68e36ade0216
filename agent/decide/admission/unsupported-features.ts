import { nonEphemeralContainers } from "../../../proto/kubernetes/containers.ts";
import type { Container, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { normalizeSysctl, parseSysctlPattern } from "../../../proto/kubernetes/values/sysctl.ts";
import type { Rejection } from "../pod/desired.ts";

/** Where a pod comes from and runs, as far as support for its features depends on it. */
export interface FeatureCheckInput {
  readonly isApiPod: boolean;
  readonly isInCluster: boolean;
  /** Admission checks the pod against the node's resources, and reports devices there. */
  readonly isAdmissionChecked: boolean;
}

const UNSUPPORTED = "PodFeatureUnsupported";
const DEVICES = "extended resources";

/*
 * Pod features that this release does not implement: running the pod without them would be wrong. A row leaves its
 * table when its feature is implemented. A static pod is rejected as Kubernetes rejects a pod whose features a node
 * lacks (`PodFeatureUnsupported`). A pod of the API waits with a message instead, as for a volume that cannot be
 * mounted: its ReplicaSet would replace a failed pod at once, on this node again, and so on for ever.
 */
const podFeatures: readonly [feature: string, isAsked: (spec: Pod["spec"]) => boolean][] = [
  ["resourceClaims", ({ resourceClaims }) => isSet(resourceClaims)],
];

/** What the files of these volumes show needs no API server, or the kubelet refuses it in a static pod. */
const staticPodVolumes = ["hostPath", "emptyDir", "downwardAPI", "projected", "image", "nfs"] as const;

/** Features that need a cluster, or that the kubelet rejects for static pods too, with its own messages. */
const staticPodFeatures: readonly [
  feature: string,
  isAsked: (spec: Pod["spec"], context: FeatureCheckInput) => boolean,
][] = [
  ["ephemeralContainers", ({ ephemeralContainers }) => isSet(ephemeralContainers)],
  ["runtimeClassName", ({ runtimeClassName }, { isInCluster }) => isSet(runtimeClassName) && !isInCluster],
  [
    "volumes other than hostPath, emptyDir, downwardAPI, projected, image and nfs",
    ({ volumes = [] }) => volumes.some((volume) => staticPodVolumes.every((source) => volume[source] === undefined)),
  ],
];

const containerFeatures: readonly [feature: string, isAsked: (container: Container) => boolean][] = [
  // Resources of device plugins. The kubelet runs such a pod without its devices if it does not know the resource.
  [DEVICES, containerRequestsDevices],
  ["resources.claims", ({ resources }) => isSet(resources?.claims)],
];

/** The namespaced sysctls that any pod may set; row for row the kubelet's list. */
const SAFE_SYSCTLS: readonly string[] = [
  "kernel.shm_rmid_forced",
  "net.ipv4.ip_local_port_range",
  "net.ipv4.tcp_syncookies",
  "net.ipv4.ping_group_range",
  "net.ipv4.ip_unprivileged_port_start",
  "net.ipv4.ip_local_reserved_ports",
  "net.ipv4.tcp_keepalive_time",
  "net.ipv4.tcp_keepalive_intvl",
  "net.ipv4.tcp_keepalive_probes",
  "net.ipv4.tcp_fin_timeout",
  "net.ipv4.tcp_rmem",
  "net.ipv4.tcp_wmem",
];

/**
 * The unsupported features that a static pod uses, each once, in the order of the tables; none for a pod of the API,
 * which waits.
 */
export function unsupportedFeatures({ spec }: Pod, context: FeatureCheckInput): readonly string[] {
  if (context.isApiPod) return [];
  const clusterFeatures = staticPodFeatures.filter(([, isUsed]) => isUsed(spec, context)).map(([feature]) => feature);
  const sandboxFeatures = unsupportedInSandbox({ spec }).filter(
    (feature) => feature !== DEVICES || !context.isAdmissionChecked,
  );
  return [...sandboxFeatures, ...clusterFeatures];
}

/** The unsupported features because of which the pod's sandbox cannot be run. */
export function unsupportedInSandbox({ spec }: Pick<Pod, "spec">): readonly string[] {
  return [
    ...podFeatures.filter(([, isUsed]) => isUsed(spec)).map(([feature]) => feature),
    ...featuresUsedBy(containerFeatures, nonEphemeralContainers(spec)),
  ];
}

/**
 * The unsupported features of one container. An ephemeral container that uses one does not start; its pod keeps
 * running.
 */
export function unsupportedInContainer(container: Container): readonly string[] {
  return featuresUsedBy(containerFeatures, [container]);
}

/**
 * The kubelet's rejection of a pod with a sysctl that is neither safe nor in `allowedUnsafeSysctls`; undefined if it
 * has none.
 */
export function forbiddenSysctlRejection(
  { spec }: Pod,
  allowedUnsafeSysctls: readonly string[] = [],
): Rejection | undefined {
  const sysctls = spec.securityContext?.sysctls ?? [];
  if (sysctls.length === 0) return undefined;
  const allowed = [...SAFE_SYSCTLS, ...allowedUnsafeSysctls].flatMap((text) => parseSysctlPattern(text) ?? []);
  for (const sysctl of sysctls) {
    const name = normalizeSysctl(sysctl.name);
    const match = allowed.find((each) => (each.isPrefix ? name.startsWith(each.name) : name === each.name));
    const sharesHostNamespace = match?.namespace === "Net" ? spec.hostNetwork === true : spec.hostIPC === true;
    const why =
      match === undefined
        ? "not allowlisted"
        : sharesHostNamespace && `not allowed with host ${match.namespace} enabled`;
    if (why !== false) return { reason: "SysctlForbidden", message: `forbidden sysctl: "${name}" ${why}` };
  }
  return undefined;
}

function featuresUsedBy<T>(
  rows: readonly (readonly [feature: string, isAskedBy: (each: T) => boolean])[],
  all: readonly T[],
): readonly string[] {
  return rows.filter(([, isUsed]) => all.some(isUsed)).map(([feature]) => feature);
}

/** Whether a container of the pod requests resources of device plugins. */
export function requestsDevices({ spec }: Pod): boolean {
  return nonEphemeralContainers(spec).some(containerRequestsDevices);
}

function containerRequestsDevices(container: Container): boolean {
  return resourcesOf(container).some((name) => name.includes("/"));
}

/** The rejection of a pod that uses unsupported features; by default: devices. */
export function unsupportedRejection(features: readonly string[] = [DEVICES]): Rejection {
  const message = `Pod requires node features that are not available: ${features.join(", ")}`;
  return { reason: UNSUPPORTED, message };
}

/** True for a rejection that does not depend on the node's free resources. */
export function isUnsupportedRejection({ reason }: Rejection): boolean {
  return reason === UNSUPPORTED;
}

function resourcesOf({ resources }: Container): readonly string[] {
  return Object.keys({ ...resources?.limits, ...resources?.requests });
}

function isSet(value: string | readonly unknown[] | undefined): boolean {
  return value !== undefined && value.length > 0;
}
