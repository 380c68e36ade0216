import type { Runtime } from "../../cri/runtime.ts";
import type { PodUid } from "../../proto/ids.ts";
import { type ProbeFailure, probeTimeoutMs } from "../decide/container/probe.ts";
import type { PodEvent } from "../decide/events/pod-event.ts";
import { probeEvent } from "../decide/events/pod-events.ts";
import { fullNameOf } from "../decide/pod/desired.ts";
import { createProber, type Prober } from "../observed/probes/prober.ts";
import type { ProberOptions } from "../observed/probes/prober-state.ts";
import { toProbeRequest } from "../translate/probe-request.ts";
import { TranslateError } from "../translate/translate-error.ts";

type PodProberOptions = Pick<ProberOptions, "clock" | "log" | "wake" | "hostIPs" | "earlyProbes"> & {
  readonly runtime: Runtime;
};

/** What receives the probe results of a pod, `namespace/name`. */
export interface ProbeReceivers {
  readonly recordEvent: (uid: PodUid, pod: string, event: PodEvent) => void;
  /** Records the event, too, except for an early try. */
  readonly onProbeFailed: (uid: PodUid, pod: string, event: PodEvent, failure: ProbeFailure) => void;
  /** Receives every result that counts. */
  readonly onProbeEnded: ProberOptions["onResult"];
}

/** Creates the prober, which records an event for each probe that fails or succeeds with a warning. */
export function createPodProber(
  { runtime, ...parts }: PodProberOptions,
  { recordEvent, onProbeFailed, onProbeEnded }: ProbeReceivers,
): Prober {
  return createProber({
    ...parts,
    runProbe: createProbeRunner(runtime),
    onResult(target, outcome, durationMs) {
      const { uid, pod, container, kind } = target;
      onProbeEnded(target, outcome, durationMs);
      const event = probeEvent(kind, outcome, container.name);
      if (event === undefined) return;
      // A probe with a warning counts as successful.
      if (outcome.result === "warning") return recordEvent(uid, fullNameOf(pod), event);
      onProbeFailed(uid, fullNameOf(pod), event, { container: container.name, kind, message: event.message });
    },
    onEarlyFailure({ uid, pod, container, kind }, outcome) {
      const event = probeEvent(kind, outcome, container.name);
      if (event === undefined) return;
      const failure = { container: container.name, kind, message: event.message, isEarly: true } as const;
      onProbeFailed(uid, fullNameOf(pod), event, failure);
    },
  });
}

/** Returns the function that runs one probe. */
function createProbeRunner(runtime: Runtime): ProberOptions["runProbe"] {
  // Loaded lazily: many nodes have no container with probes.
  let loaded: ReturnType<typeof loadProbeExecutor> | undefined;
  return async ({ pod, container, probe, podIP, id }, signal) => {
    loaded ??= loadProbeExecutor(runtime);
    const { ask, userAgent } = await loaded;
    try {
      const call = toProbeRequest(probe, { pod, container, podIP, userAgent });
      return await ask(call, id, { timeoutMs: probeTimeoutMs(probe), signal });
    } catch (error) {
      if (!(error instanceof TranslateError)) throw error;
      return { result: "error", message: error.message };
    }
  };
}

async function loadProbeExecutor(runtime: Runtime) {
  const { createProbeExecutor, probeUserAgent } = await import("../act/probes/probe-executor.ts");
  return { ask: createProbeExecutor(runtime, probeUserAgent), userAgent: probeUserAgent };
}
