import type { Pod, PodSpec } from "../gen/types.ts";
import { defaultContainer } from "./containers.ts";
import { defaultPodResources, defaultResourceList } from "./resources.ts";
import { defaultVolume } from "./volumes.ts";

/**
 * Fills in the API server's defaults in a pod that did not come from one, so that all pods have them. The pod must have
 * been decoded (decodeStrict); throws QuantityError for invalid quantities. As in the API, empty strings and zeros mean
 * unset where they have no meaning of their own. Rule: SetDefaults_Pod.
 */
export function defaultPod(pod: Pod): Pod {
  return { ...pod, spec: defaultPodSpec(pod.spec) };
}

function defaultPodSpec(spec: PodSpec): PodSpec {
  const usesHostNetwork = spec.hostNetwork === true;
  const serviceAccount = spec.serviceAccountName || spec.serviceAccount;
  const filled: PodSpec = {
    ...spec,
    containers: spec.containers.map((container) => defaultContainer(container, usesHostNetwork)),
    dnsPolicy: spec.dnsPolicy || "ClusterFirst",
    enableServiceLinks: spec.enableServiceLinks ?? true,
    restartPolicy: spec.restartPolicy || "Always",
    schedulerName: spec.schedulerName || "default-scheduler",
    securityContext: spec.securityContext ?? {},
    terminationGracePeriodSeconds: spec.terminationGracePeriodSeconds ?? 30,
    ...(serviceAccount && { serviceAccount, serviceAccountName: serviceAccount }),
    ...(spec.ephemeralContainers && {
      ephemeralContainers: spec.ephemeralContainers.map((container) => defaultContainer(container, false)),
    }),
    ...(spec.initContainers && {
      initContainers: spec.initContainers.map((container) => defaultContainer(container, usesHostNetwork)),
    }),
    ...(spec.overhead && { overhead: defaultResourceList(spec.overhead) }),
    ...(spec.volumes && { volumes: spec.volumes.map(defaultVolume) }),
  };
  return spec.resources ? { ...filled, resources: defaultPodResources(spec.resources, filled) } : filled;
}
