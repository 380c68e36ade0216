import { X509Certificate } from "node:crypto";
import type { KubeletMetrics } from "./kubelet-metrics.ts";

/**
 * Sets how long the certificates in use are valid, for a page that is about to be sent: `client` is shown to the API server,
 * `serving` to clients of the node's API, each in PEM; `now` in epoch milliseconds. Without a certificate the value is +Inf, as
 * the kubelet's. Rule: buildClientCertificateManager's gauge in cmd/kubelet/app/server.go.
 */
export function setCertificateGauges(
  { kubelet }: Pick<KubeletMetrics, "kubelet">,
  client: string | undefined,
  serving: string | undefined,
  now: number,
): void {
  kubelet.set("kubelet_certificate_manager_client_ttl_seconds", secondsLeft(client, now));
  kubelet.set("kubelet_certificate_manager_server_ttl_seconds", secondsLeft(serving, now));
}

/** Negative after the certificate has expired. */
function secondsLeft(pem: string | undefined, now: number): number {
  if (pem === undefined) return Number.POSITIVE_INFINITY;
  return Math.trunc((new X509Certificate(pem).validToDate.getTime() - now) / 1000);
}
