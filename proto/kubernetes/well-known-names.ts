/** The labels by which sandboxes and containers belong to pods. `crictl`, log collectors and cAdvisor read them too. */
export const podNameLabel = "io.kubernetes.pod.name";
export const podNamespaceLabel = "io.kubernetes.pod.namespace";
export const podUidLabel = "io.kubernetes.pod.uid";
/** On containers only. */
export const containerNameLabel = "io.kubernetes.container.name";

/** The annotations of containers, in the kubelet's words, so that either agent understands what the other has left. */
export const containerHashAnnotation = "io.kubernetes.container.hash";
export const restartCountAnnotation = "io.kubernetes.container.restartCount";
export const terminationMessagePathAnnotation = "io.kubernetes.container.terminationMessagePath";
export const terminationMessagePolicyAnnotation = "io.kubernetes.container.terminationMessagePolicy";
export const portsAnnotation = "io.kubernetes.container.ports";
export const preStopAnnotation = "io.kubernetes.container.preStopHandler";
export const podDeletionGracePeriodAnnotation = "io.kubernetes.pod.deletionGracePeriod";
export const podTerminationGracePeriodAnnotation = "io.kubernetes.pod.terminationGracePeriod";
/** Ours: how often the container's predecessors crashed in a row, so that the back-off survives the agent. */
export const crashesAnnotation = "berth.dev/crashes";
