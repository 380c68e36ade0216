import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { NodeFacts } from "../node-facts.ts";
import { TranslateError } from "../translate-error.ts";

/** The kernel's limits: one label of a host name, and `__NEW_UTS_LEN`. */
const MAX_HOSTNAME_LENGTH = 63;
const MAX_FQDN_LENGTH = 64;

/** `spec.hostnameOverride`, else `spec.hostname`, else the pod's name, truncated to a valid length. */
export function hostnameOf({ metadata, spec }: Pod): string {
  // An empty hostname counts as unset, as everywhere in the API. The runtime would replace it by the node's own.
  const name = spec.hostnameOverride ?? (spec.hostname || (metadata.name ?? ""));
  return name.length <= MAX_HOSTNAME_LENGTH ? name : name.slice(0, MAX_HOSTNAME_LENGTH).replace(/[-.]+$/, "");
}

/** The DNS domain of the pod below its headless Service; empty for a pod without a subdomain. */
export function domainOf({ metadata: { namespace = "default" }, spec }: Pod, { clusterDomain }: NodeFacts): string {
  const { subdomain = "" } = spec;
  return subdomain === "" || spec.hostnameOverride !== undefined
    ? ""
    : `${subdomain}.${namespace}.svc.${clusterDomain}`;
}

/**
 * The host name that the kernel reports in the pod: the short name, or with `setHostnameAsFQDN` the FQDN. Throws
 * `TranslateError` for an FQDN that exceeds the kernel's limit.
 * https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-sethostnameasfqdn-field
 */
export function kernelHostname(pod: Pod, facts: NodeFacts): string {
  const [hostname, domain] = [hostnameOf(pod), domainOf(pod, facts)];
  if (pod.spec.setHostnameAsFQDN !== true || domain === "") return hostname;
  const name = `${hostname}.${domain}`;
  if (name.length > MAX_FQDN_LENGTH)
    throw new TranslateError(
      "CreatePodSandboxError",
      `failed to construct FQDN from pod hostname and cluster domain, FQDN ${name} is too long (${MAX_FQDN_LENGTH} characters is the max, ${name.length} characters requested)`,
    );
  return name;
}
