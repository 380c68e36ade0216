import type { RuntimeControl } from "../../cri/runtime-control.ts";
import { type BackoffOptions, createBackoffCounter } from "../../host/async/backoff.ts";
import { createCoalescingWorker } from "../../host/async/coalescing-worker.ts";
import { createLogOnce } from "../../host/async/log-once.ts";
import { type Clock, sleepUnlessAborted } from "../../host/clock.ts";
import { messageOf } from "../../host/error-message.ts";
import type { Log } from "../../host/log/log.ts";

interface PodCIDRUpdatesOptions {
  readonly runtime: Pick<RuntimeControl, "updateRuntimeConfig">;
  readonly clock: Clock;
  readonly log: Pick<Log, "info" | "error">;
  /** Those of the configuration, with which it begins. */
  readonly podCIDRs: readonly string[];
}

/** Hands the pod CIDRs of the node to the container runtime. */
export interface PodCIDRUpdates {
  /** The pod CIDRs of the Node object, which has none at first: an empty list changes nothing. */
  setPodCIDRs(podCIDRs: readonly string[]): void;
}

/** A runtime may be away, or not know the call. */
const BACKOFF: BackoffOptions = { initialMs: 2_000, maxMs: 60_000 };

/**
 * Calls UpdateRuntimeConfig when the pod CIDRs have changed, and again until it succeeds or the signal aborts. A runtime makes its
 * network configuration of them if it is set up so: containerd from its `conf_template`. A failure is logged once. Rule: the
 * kubelet's `updatePodCIDR`.
 */
export function createPodCIDRUpdates(
  { runtime, clock, log, podCIDRs: configured }: PodCIDRUpdatesOptions,
  signal: AbortSignal,
): PodCIDRUpdates {
  const backoff = createBackoffCounter(BACKOFF);
  const logged = createLogOnce();
  let wanted = "";
  let updated = "";
  const worker = createCoalescingWorker(async () => {
    while (!signal.aborted && wanted !== updated) if (!(await update(wanted))) await pause();
  });
  const pause = () => sleepUnlessAborted(clock, backoff.next(), signal);

  /** True if the runtime has accepted them. */
  async function update(podCIDR: string): Promise<boolean> {
    try {
      await runtime.updateRuntimeConfig(podCIDR, { signal });
    } catch (error) {
      if (!signal.aborted && logged.shouldLog(messageOf(error)))
        log.error({ err: error, podCIDR }, "the container runtime does not take the pod CIDR of the node");
      return false;
    }
    updated = podCIDR;
    backoff.reset();
    logged.clear();
    log.info({ podCIDR }, "the container runtime has taken the pod CIDR of the node");
    return true;
  }

  function setPodCIDRs(podCIDRs: readonly string[]): void {
    if (podCIDRs.length === 0) return;
    wanted = podCIDRs.join(",");
    worker.wake();
  }

  setPodCIDRs(configured);
  return { setPodCIDRs };
}
