import type { Container, Pod, Volume } from "../../proto/kubernetes/gen/types.ts";
import type { Rejection } from "./desired.ts";

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
 * What a pod may ask for and this version does not carry out. A pod that asks for it is rejected as Kubernetes rejects a pod
 * whose features a node lacks (`PodFeatureUnsupported`), because running it without would be a lie: a container without
 * its liveness probe looks well when it hangs. A row leaves a table when its feature arrives.
 */
const podFeatures: readonly [feature: string, isAsked: (spec: Pod["spec"], asking: Asking) => boolean][] = [
  ["ephemeralContainers", ({ ephemeralContainers }, { isOfApi }) => isAsked(ephemeralContainers) && !isOfApi],
  ["hostUsers: false", ({ hostUsers }) => hostUsers === false],
  ["runtimeClassName", ({ runtimeClassName }, { isInCluster }) => isAsked(runtimeClassName) && !isInCluster],
  ["resourceClaims", ({ resourceClaims }) => isAsked(resourceClaims)],
  ["pod-level resources", ({ resources }) => resources !== undefined],
  ["supplementalGroupsPolicy: Strict", ({ securityContext }) => securityContext?.supplementalGroupsPolicy === "Strict"],
  [
    "sysctls outside the safe set",
    ({ securityContext }) => (securityContext?.sysctls ?? []).some((s) => !isSafe(s.name)),
  ],
];

const containerFeatures: readonly [feature: string, isAsked: (container: Container) => boolean][] = [
  ["lifecycle.stopSignal", ({ lifecycle }) => lifecycle?.stopSignal !== undefined],
  ["volumeDevices", ({ volumeDevices }) => isAsked(volumeDevices)],
  [
    "restartPolicyRules with RestartAllContainers",
    ({ restartPolicyRules }) => (restartPolicyRules ?? []).some(({ action }) => action === "RestartAllContainers"),
  ],
  [
    "volumeMounts.subPath",
    ({ volumeMounts }) => (volumeMounts ?? []).some((m) => isAsked(m.subPath) || isAsked(m.subPathExpr)),
  ],
  [
    "volumeMounts.recursiveReadOnly",
    ({ volumeMounts }) => (volumeMounts ?? []).some((m) => (m.recursiveReadOnly ?? "Disabled") !== "Disabled"),
  ],
  ["hugepages", (container) => resourcesOf(container).some((name) => name.startsWith("hugepages-"))],
  // Those that a device plugin would hand out; the kubelet runs such a pod without its devices where it has never heard of them.
  [DEVICES, isForDevices],
  ["resources.claims", ({ resources }) => isAsked(resources?.claims)],
];

const volumeFeatures: readonly [feature: string, isAsked: (volume: Volume, asking: Asking) => boolean][] = [
  [
    "volumes other than hostPath and emptyDir",
    // Nearly every pod of the API has one. It waits, as for any volume that cannot be mounted.
    (volume, { isOfApi }) => volume.hostPath === undefined && volume.emptyDir === undefined && !isOfApi,
  ],
  ["emptyDir.sizeLimit", ({ emptyDir }) => emptyDir?.sizeLimit !== undefined],
  ["emptyDir.medium", ({ emptyDir }) => isAsked(emptyDir?.medium)],
];

/** What the kernel keeps apart for each pod, so that any pod may set it; row for row the kubelet's list. */
const SAFE_SYSCTLS: ReadonlySet<string> = new Set([
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
]);

function isSafe(sysctl: string): boolean {
  return SAFE_SYSCTLS.has(sysctl.replaceAll("/", "."));
}

/** The features that the pod asks for and this agent does not have, each once, in the order of the tables. */
export function unsupportedFeatures({ spec }: Pod, asking: Asking): readonly string[] {
  const features = unsupportedIn([...(spec.initContainers ?? []), ...spec.containers]);
  return [
    ...podFeatures.filter(([, isAskedBy]) => isAskedBy(spec, asking)).map(([feature]) => feature),
    ...features.filter((feature) => feature !== DEVICES || !asking.isJudged),
    ...volumeFeatures
      .filter(([, isAskedBy]) => (spec.volumes ?? []).some((each) => isAskedBy(each, asking)))
      .map(([feature]) => feature),
  ];
}

/** The same of containers alone. An ephemeral one that asks for too much does not start; the pod that it was to look into goes on. */
export function unsupportedIn(containers: readonly Container[]): readonly string[] {
  return containerFeatures.filter(([, isAskedBy]) => containers.some(isAskedBy)).map(([feature]) => feature);
}

/** Whether a container of the pod asks for what a device plugin would hand out. */
export function asksForDevices({ spec }: Pod): boolean {
  return [...(spec.initContainers ?? []), ...spec.containers].some(isForDevices);
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
