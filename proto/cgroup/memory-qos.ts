import type { MemoryReservationPolicy } from "../kubelet/config.ts";

/**
 * The feature gate `MemoryQoS`: how containers are throttled before they reach their memory limit, and what the kernel does
 * not reclaim from them. https://git.k8s.io/enhancements/keps/sig-node/2570-memory-qos
 */
export interface MemoryQoS {
  /** Above 0, at most 1: the part of the memory between request and limit from which on a container is throttled. */
  readonly throttlingFactor: number;
  readonly reservationPolicy: MemoryReservationPolicy;
}
