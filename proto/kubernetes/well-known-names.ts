/*
 * The keys of labels, annotations and taints that Kubernetes, its clients and Berth agree on.
 * https://kubernetes.io/docs/reference/labels-annotations-taints/
 */

/** The static pod that a mirror pod represents: its hash. */
export const mirrorAnnotation = "kubernetes.io/config.mirror";
/** The hash of a static pod's manifest, which is also its uid. */
export const hashAnnotation = "kubernetes.io/config.hash";
/** Where the pod comes from: `file`, `http` or `api`. */
export const sourceAnnotation = "kubernetes.io/config.source";
/** When this node accepted the pod. */
export const seenAnnotation = "kubernetes.io/config.seen";
/**
 * Named a container's AppArmor profile before there were fields, with the container's name behind it. The API server
 * converts it; static pods may still have it.
 */
export const appArmorAnnotationPrefix = "container.apparmor.security.beta.kubernetes.io/";
/** The annotations that represented init containers in Kubernetes 1.5, and that the API drops. */
export const initContainerAnnotations: ReadonlySet<string> = new Set([
  "pod.beta.kubernetes.io/init-containers",
  "pod.alpha.kubernetes.io/init-containers",
  "pod.beta.kubernetes.io/init-container-statuses",
  "pod.alpha.kubernetes.io/init-container-statuses",
]);

/** On persistent volumes: the older form of `mountOptions`, separated by commas. */
export const mountOptionAnnotation = "volume.beta.kubernetes.io/mount-options";
/** On persistent volumes: a group that the containers of their pods need to use them. */
export const volumeGidAnnotation = "pv.beta.kubernetes.io/gid";
/** On nodes: the attach-detach controller attaches their volumes. */
export const attachDetachAnnotation = "volumes.kubernetes.io/controller-managed-attach-detach";
/** On nodes: `--node-ip`, for the cloud controller. */
export const nodeIPAnnotation = "alpha.kubernetes.io/provided-node-ip";
/** On nodes: the controller manager sets for how many seconds they may cache Secrets and ConfigMaps. */
export const objectTtlAnnotation = "node.alpha.kubernetes.io/ttl";
/** The taint of a node that the cloud controller has yet to complete. */
export const uninitializedTaint = "node.cloudprovider.kubernetes.io/uninitialized";

export const hostnameLabel = "kubernetes.io/hostname";
export const osLabel = "kubernetes.io/os";
export const archLabel = "kubernetes.io/arch";
export const betaOsLabel = "beta.kubernetes.io/os";
export const betaArchLabel = "beta.kubernetes.io/arch";

/** The labels of Kubernetes' own that a kubelet may set on its Node. */
export const ownNodeLabels: readonly string[] = [
  hostnameLabel,
  "topology.kubernetes.io/zone",
  "topology.kubernetes.io/region",
  "failure-domain.beta.kubernetes.io/zone",
  "failure-domain.beta.kubernetes.io/region",
  "node.kubernetes.io/instance-type",
  "beta.kubernetes.io/instance-type",
  osLabel,
  archLabel,
  betaOsLabel,
  betaArchLabel,
];

/** The labels that tie sandboxes and containers to pods. `crictl`, log collectors and cAdvisor read them too. */
export const podNameLabel = "io.kubernetes.pod.name";
export const podNamespaceLabel = "io.kubernetes.pod.namespace";
export const podUidLabel = "io.kubernetes.pod.uid";
/** On containers only. */
export const containerNameLabel = "io.kubernetes.container.name";

/** The kubelet's annotations of containers, so that Berth and the kubelet can take over each other's containers. */
export const containerHashAnnotation = "io.kubernetes.container.hash";
export const restartCountAnnotation = "io.kubernetes.container.restartCount";
export const terminationMessagePathAnnotation = "io.kubernetes.container.terminationMessagePath";
export const terminationMessagePolicyAnnotation = "io.kubernetes.container.terminationMessagePolicy";
export const portsAnnotation = "io.kubernetes.container.ports";
export const preStopAnnotation = "io.kubernetes.container.preStopHandler";
export const podDeletionGracePeriodAnnotation = "io.kubernetes.pod.deletionGracePeriod";
export const podTerminationGracePeriodAnnotation = "io.kubernetes.pod.terminationGracePeriod";
/** Berth's own: how often previous instances crashed in a row, so that the back-off survives a restart of the agent. */
export const crashesAnnotation = "berth.dev/crashes";
/** Berth's own: the CPU and memory that the instance was created with, which a resize compares with the allocated ones. */
export const amountsAnnotation = "berth.dev/resources";

/** In a user's extra: the credential that has identified it. */
export const credentialIdKey = "authentication.kubernetes.io/credential-id";

/** The container that kubectl takes if a command names none. */
export const defaultContainerAnnotation = "kubectl.kubernetes.io/default-container";

/** On pods: the networks that they are attached to beside the default one. Network Plumbing Working Group, standard v1.3, section 4. */
export const networksAnnotation = "k8s.v1.cni.cncf.io/networks";
/** On pods: the interfaces that they have got. The same standard, section 5. */
export const networkStatusAnnotation = "k8s.v1.cni.cncf.io/network-status";
/** The capability by which a container runtime hands a pod's annotations to CNI plugins. */
export const podAnnotationsCapability = "io.kubernetes.cri.pod-annotations";
/** Berth's own, among the cached parameters of a pod's default network: its secondary networks. */
export const secondaryNetworksKey = "berth.dev/secondary-networks";
