import type { KubeletMetrics } from "./kubelet-metrics.ts";

/** A list of the runtime that has ended. */
interface EndedRelist {
  /** By the monotonic clock. */
  readonly startedMs: number;
  readonly endedMs: number;
  /** Epoch milliseconds. */
  readonly startedAt: number;
}

/** Returns the function that records a list of all sandboxes and containers: the kubelet's relist (PLEG). */
export function createRelistRecorder({ kubelet }: Pick<KubeletMetrics, "kubelet">): (relist: EndedRelist) => void {
  let last: EndedRelist | undefined;
  return (relist) => {
    const { startedMs, endedMs, startedAt } = relist;
    kubelet.observe("kubelet_pleg_relist_duration_seconds", (endedMs - startedMs) / 1000);
    if (last !== undefined)
      kubelet.observe("kubelet_pleg_relist_interval_seconds", (startedMs - last.startedMs) / 1000);
    kubelet.set("kubelet_pleg_last_seen_seconds", Math.floor(startedAt / 1000));
    last = relist;
  };
}
