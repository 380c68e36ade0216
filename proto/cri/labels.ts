/** The labels by which sandboxes and containers belong to pods. `crictl`, log collectors and cAdvisor read them too. */
export const podNameLabel = "io.kubernetes.pod.name";
export const podNamespaceLabel = "io.kubernetes.pod.namespace";
export const podUidLabel = "io.kubernetes.pod.uid";
/** On containers only. */
export const containerNameLabel = "io.kubernetes.container.name";
