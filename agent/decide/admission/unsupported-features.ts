import { lastingContainers } from "../../../proto/kubernetes/containers.ts";
import type { Container, Pod, Volume } from "../../../proto/kubernetes/gen/types.ts";
import { dottedSysctl, readSysctlPattern } from "../../../proto/kubernetes/sysctl.ts";
import type { Rejection } from "../pod/desired.ts";

/** As far as it matters who asks: the API server's pods need what only a cluster has, and none of it can be had alone. */
export interface Asking {
  readonly isOfApi: boolean;
  readonly isInCluster: boolean;
  /** Admission holds it against what the node has, and says there what it says of devices. */
  readonly isJudged: boolean;
}

const UNSUPPORTED = "PodFeatureUnsupported";
const DEVICES = "extended resources";

/*
 * What a pod may ask for and this version does not carry out: running it without would be a lie. A row leaves a table when its feature
 * arrives. A static pod is rejected as Kubernetes rejects a pod whose features a node lacks (`PodFeatureUnsupported`). A pod of the API
 * waits and says for what, as with a volume that cannot be mounted: its ReplicaSet would replace one that has failed at once, here again,
 * and so on without an end.
 */
const podFeatures: readonly [feature: string, isAsked: (spec: Pod["spec"]) => boolean][] = [
  ["resourceClaims", ({ resourceClaims }) => isAsked(resourceClaims)],
  ["pod-level resources", ({ resources }) => resources !== undefined],
];

/** What only a cluster has, or the kubelet rejects as well, in words of its own. */
const staticPodFeatures: readonly [feature: string, isAsked: (spec: Pod["spec"], asking: Asking) => boolean][] = [
  ["ephemeralContainers", ({ ephemeralContainers }) => isAsked(ephemeralContainers)],
  ["runtimeClassName", ({ runtimeClassName }, { isInCluster }) => isAsked(runtimeClassName) && !isInCluster],
  [
    "volumes other than hostPath and emptyDir",
    ({ volumes = [] }) => volumes.some(({ hostPath, emptyDir }) => hostPath === undefined && emptyDir === undefined),
  ],
];

const containerFeatures: readonly [feature: string, isAsked: (container: Container) => boolean][] = [
  ["hugepages", (container) => resourcesOf(container).some((name) => name.startsWith("hugepages-"))],
  // Those that a device plugin would hand out; the kubelet runs such a pod without its devices where it has never heard of them.
  [DEVICES, isForDevices],
  ["resources.claims", ({ resources }) => isAsked(resources?.claims)],
];

const mountFeatures: readonly [feature: string, isAsked: (container: Container) => boolean][] = [
  ["volumeDevices", ({ volumeDevices }) => isAsked(volumeDevices)],
  [
    "volumeMounts.subPath",
    ({ volumeMounts }) => (volumeMounts ?? []).some((m) => isAsked(m.subPath) || isAsked(m.subPathExpr)),
  ],
  [
    "volumeMounts.recursiveReadOnly",
    ({ volumeMounts }) => (volumeMounts ?? []).some((m) => (m.recursiveReadOnly ?? "Disabled") !== "Disabled"),
  ],
];

const volumeFeatures: readonly [feature: string, isAsked: (volume: Volume) => boolean][] = [
  ["emptyDir.sizeLimit", ({ emptyDir }) => emptyDir?.sizeLimit !== undefined],
  ["emptyDir.medium", ({ emptyDir }) => isAsked(emptyDir?.medium)],
];

/** What the kernel keeps apart for each pod, so that any pod may set it; row for row the kubelet's list. */
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

/** The features that a static pod asks for and this agent does not have, each once, in the order of the tables; a pod of the API waits. */
export function unsupportedFeatures({ spec }: Pod, asking: Asking): readonly string[] {
  if (asking.isOfApi) return [];
  const ofCluster = staticPodFeatures.filter(([, isAskedBy]) => isAskedBy(spec, asking)).map(([feature]) => feature);
  const ofSandbox = unsupportedBySandbox({ spec }).filter((feature) => feature !== DEVICES || !asking.isJudged);
  return [...ofSandbox, ...unsupportedByVolumes({ spec }), ...ofCluster];
}

/** What keeps the sandbox of a pod from being made, beside what it mounts. */
export function unsupportedBySandbox({ spec }: Pick<Pod, "spec">): readonly string[] {
  return [
    ...podFeatures.filter(([, isAskedBy]) => isAskedBy(spec)).map(([feature]) => feature),
    ...askedBy(containerFeatures, lastingContainers(spec)),
  ];
}

/** What keeps the volumes of a pod from being mounted. */
export function unsupportedByVolumes({ spec }: Pick<Pod, "spec">): readonly string[] {
  return [...askedBy(mountFeatures, lastingContainers(spec)), ...askedBy(volumeFeatures, spec.volumes ?? [])];
}

/** The same of one container. An ephemeral one that asks for too much does not start; the pod that it was to look into goes on. */
export function unsupportedBy(container: Container): readonly string[] {
  return [...askedBy(containerFeatures, [container]), ...askedBy(mountFeatures, [container])];
}

/** Why the kubelet would reject the pod too, in its words, on a node that allows these sysctls; undefined: for nothing here. */
export function refusalOf({ spec }: Pod, allowedUnsafeSysctls: readonly string[] = []): Rejection | undefined {
  const sysctls = spec.securityContext?.sysctls ?? [];
  if (sysctls.length === 0) return undefined;
  const allowed = [...SAFE_SYSCTLS, ...allowedUnsafeSysctls].flatMap((text) => readSysctlPattern(text) ?? []);
  for (const sysctl of sysctls) {
    const name = dottedSysctl(sysctl.name);
    const by = allowed.find((each) => (each.isPrefix ? name.startsWith(each.name) : name === each.name));
    const isOfHost = by?.namespace === "Net" ? spec.hostNetwork === true : spec.hostIPC === true;
    const why = by === undefined ? "not allowlisted" : isOfHost && `not allowed with host ${by.namespace} enabled`;
    if (why !== false) return { reason: "SysctlForbidden", message: `forbidden sysctl: "${name}" ${why}` };
  }
  return undefined;
}

function askedBy<T>(
  rows: readonly (readonly [feature: string, isAskedBy: (each: T) => boolean])[],
  all: readonly T[],
): readonly string[] {
  return rows.filter(([, isAskedBy]) => all.some(isAskedBy)).map(([feature]) => feature);
}

/** Whether a container of the pod asks for what a device plugin would hand out. */
export function asksForDevices({ spec }: Pod): boolean {
  return lastingContainers(spec).some(isForDevices);
}

function isForDevices(container: Container): boolean {
  return resourcesOf(container).some((name) => name.includes("/"));
}

/** How a pod is rejected that asks for these, or else for devices. */
export function unsupported(features: readonly string[] = [DEVICES]): Rejection {
  const message = `Pod requires node features that are not available: ${features.join(", ")}`;
  return { reason: UNSUPPORTED, message };
}

/** True for a rejection that is no matter of what the node had left. */
export function isForSupport({ reason }: Rejection): boolean {
  return reason === UNSUPPORTED;
}

function resourcesOf({ resources }: Container): readonly string[] {
  return Object.keys({ ...resources?.limits, ...resources?.requests });
}

function isAsked(value: string | readonly unknown[] | undefined): boolean {
  return value !== undefined && value.length > 0;
}
