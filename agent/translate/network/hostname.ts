import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { NodeFacts } from "../node-facts.ts";
import { TranslateError } from "../translate-error.ts";

/** What the kernel takes as the name of a host. */
const LONGEST_HOSTNAME = 63;
const LONGEST_FQDN = 64;

/** `spec.hostnameOverride`, else `spec.hostname`, else the pod's name; as far as it can be one. */
export function hostnameOf({ metadata, spec }: Pod): string {
  // An empty hostname is none, as everywhere in the API; handed on, it would become the node's own.
  const name = spec.hostnameOverride ?? (spec.hostname || (metadata.name ?? ""));
  return name.length <= LONGEST_HOSTNAME ? name : name.slice(0, LONGEST_HOSTNAME).replace(/[-.]+$/, "");
}

/** The domain in which a headless Service lets the pod be found; empty for a pod without a subdomain. */
export function domainOf({ metadata: { namespace = "default" }, spec }: Pod, { clusterDomain }: NodeFacts): string {
  const { subdomain = "" } = spec;
  return subdomain === "" || spec.hostnameOverride !== undefined
    ? ""
    : `${subdomain}.${namespace}.svc.${clusterDomain}`;
}

/**
 * What the pod's containers are called by the kernel: the hostname, with `setHostnameAsFQDN` together with the domain. Throws
 * `TranslateError` where the kernel takes no name of that length.
 * https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-sethostnameasfqdn-field
 */
export function kernelHostname(pod: Pod, facts: NodeFacts): string {
  const [hostname, domain] = [hostnameOf(pod), domainOf(pod, facts)];
  if (pod.spec.setHostnameAsFQDN !== true || domain === "") return hostname;
  const name = `${hostname}.${domain}`;
  if (name.length > LONGEST_FQDN)
    throw new TranslateError(
      "CreatePodSandboxError",
      `failed to construct FQDN from pod hostname and cluster domain, FQDN ${name} is too long (${LONGEST_FQDN} characters is the max, ${name.length} characters requested)`,
    );
  return name;
}
