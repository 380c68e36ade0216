import type { PodCertificateRequest } from "../../../proto/kubernetes/certificates.ts";
import { parseTime, TimeError } from "../../../proto/kubernetes/values/time.ts";
import { formatPemBlock, parsePemBlocks } from "../../../proto/pem.ts";
import { type PodEvent, warning } from "../events/pod-event.ts";

/*
 * What a PodCertificateRequest has come to, and when the next one is due. The rules are those of the kubelet's
 * `podcertificate.IssuingManager`.
 */

/** A certificate as its signer has issued it. Times are in epoch milliseconds; infinite if the signer gave none. */
export interface IssuedCertificate {
  /** PEM blocks without headers and comments. */
  readonly certificateChain: string;
  readonly beginRefreshAt: number;
  readonly notAfter: number;
}

/** Neither is requested again: the pod has to be replaced. */
export interface RefusedCertificate {
  readonly kind: "denied" | "failed";
  readonly reason: string;
  readonly message: string;
}

export type CertificateOutcome = RefusedCertificate | ({ readonly kind: "issued" } & IssuedCertificate);

/** Undefined while the signer has not answered. The status may be malformed. */
export function outcomeOf({ status = {} }: Pick<PodCertificateRequest, "status">): CertificateOutcome | undefined {
  for (const { type, reason, message } of status.conditions ?? []) {
    if (type === "Denied" || type === "Failed")
      return { kind: type === "Denied" ? "denied" : "failed", reason, message };
    if (type !== "Issued") continue;
    return {
      kind: "issued",
      certificateChain: parsePemBlocks(status.certificateChain ?? "")
        .map((bytes) => formatPemBlock("CERTIFICATE", bytes))
        .join(""),
      beginRefreshAt: timeOf(status.beginRefreshAt),
      notAfter: timeOf(status.notAfter),
    };
  }
  return undefined;
}

function timeOf(text: unknown): number {
  try {
    return typeof text === "string" ? parseTime(text) : Number.POSITIVE_INFINITY;
  } catch (error) {
    if (!(error instanceof TimeError)) throw error;
    return Number.POSITIVE_INFINITY;
  }
}

/** The kubelet's words for a volume with a certificate that was refused. */
export function refusalText({ kind, reason, message }: RefusedCertificate): string {
  return `PodCertificateRequest was permanently ${kind}: reason=${JSON.stringify(reason)} message=${JSON.stringify(message)}`;
}

/** `request`: namespace and name. The kubelet means this message, and garbles it with `%!(EXTRA …)`. */
export function refusalEvent(request: string, { kind, reason, message }: RefusedCertificate): PodEvent {
  const [type, verb] = kind === "denied" ? ["Denied", "was denied"] : ["Failed", "failed"];
  return warning(
    type,
    `PodCertificateRequest ${request} ${verb}, reason=${JSON.stringify(reason)}, message=${JSON.stringify(message)}`,
  );
}

const MAX_JITTER_MS = 300_000;
const OVERDUE_AFTER_MS = 600_000;
const GIVE_UP_AFTER_MS = 600_000;
/** The kubelet looks at its certificates once a minute: no clock makes a node request them more often. */
const MIN_AGE_MS = 60_000;

/**
 * When the next certificate is requested: up to five minutes after `beginRefreshAt`, so that the pods of a Deployment do
 * not ask at the same moment. `random` is in [0, 1), `issuedAt` when this node has received the certificate.
 */
export function certificateRefreshAt(
  { beginRefreshAt }: Pick<IssuedCertificate, "beginRefreshAt">,
  issuedAt: number,
  random: number,
): number {
  return Math.max(beginRefreshAt + random * MAX_JITTER_MS, issuedAt + MIN_AGE_MS);
}

/** When a request that does not show up in the watch counts as deleted. */
export function requestAbandonedAt(requestedAt: number, random: number): number {
  return requestedAt + GIVE_UP_AFTER_MS + random * MAX_JITTER_MS;
}

/** The events about a certificate that is not refreshed in time, each recorded once, and when each is due. */
export function lateEvents(refreshAt: number, notAfter: number): readonly (readonly [at: number, event: PodEvent])[] {
  return [
    [refreshAt + OVERDUE_AFTER_MS, warning("CertificateOverdueForRefresh", "PodCertificate refresh overdue")],
    [notAfter, warning("CertificateExpired", "PodCertificate expired")],
  ];
}
