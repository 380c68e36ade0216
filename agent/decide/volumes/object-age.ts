import { objectTtlAnnotation } from "../../../proto/kubernetes/well-known-names.ts";

/*
 * When a Secret or ConfigMap that was read is too old, with `configMapAndSecretChangeDetectionStrategy` `Cache` or `Get`.
 */

/** The last read of an object. */
export interface ObjectRead {
  /** By the monotonic clock, in milliseconds. */
  readonly readAtMs: number;
  /** The object exists. Of one that does not, the kubelet remembers nothing. */
  readonly isPresent: boolean;
}

const DEFAULT_TTL_MS = 60_000;
/** The steps of one start of a pod, which the kubelet makes in one sync with one object. */
const ONE_START_MS = 2_000;
const MAX_JITTER = 0.5;

/**
 * How long the strategy `Cache` uses an object that was read, in milliseconds, by the annotations of the Node object. Rule:
 * GetObjectTTLFromNodeFunc in the kubelet's pkg/kubelet/util/manager.
 */
export function cacheTtlMs(annotations: Readonly<Record<string, string>> | undefined): number {
  const text = annotations?.[objectTtlAnnotation] ?? "";
  return /^[+-]?\d{1,18}$/.test(text) ? Number(text) * 1_000 : DEFAULT_TTL_MS;
}

/** Whether a container may start with an object that was read, without another read. Times are in milliseconds. */
export function isRecent({ readAtMs, isPresent }: ObjectRead, ttlMs: number, nowMs: number): boolean {
  return nowMs - readAtMs < (isPresent ? Math.max(ttlMs, ONE_START_MS) : ONE_START_MS);
}

/**
 * How long after a read an object in a volume of a running pod is read again, in milliseconds: the kubelet does it when it
 * syncs the pod. `random` is in [0, 1).
 */
export function resyncDelayMs(syncFrequencyMs: number, random: number): number {
  return syncFrequencyMs * (1 + MAX_JITTER * random);
}
