import type { Runtime } from "../../cri/runtime.ts";
import type { PodUid } from "../../proto/ids.ts";
import { probeTimeoutMs, type Unwell } from "../decide/container/probe.ts";
import { eventOfProbe, type PodEvent } from "../decide/events/pod-events.ts";
import { fullNameOf } from "../decide/pod/desired.ts";
import type { ObservedPods } from "../observed/pods/pod-cache.ts";
import { createProbes, type Probes, type ProbesSettings } from "../observed/probes/prober.ts";
import { enquiryOf } from "../translate/probe-request.ts";
import { TranslateError } from "../translate/translate-error.ts";

type ProbingParts = Pick<ProbesSettings, "clock" | "log" | "wake" | "hostIPs" | "random"> & {
  readonly runtime: Runtime;
};

/** The room of probes, whose answers are told as events of their pod, `namespace/name`. */
export function createProbing(
  { runtime, ...parts }: ProbingParts,
  tell: (uid: PodUid, pod: string, event: PodEvent, unwell: Unwell) => void,
): Probes {
  return createProbes({
    ...parts,
    ask: createAsking(runtime),
    answered({ uid, pod, container, kind }, outcome) {
      const event = eventOfProbe(kind, outcome, container.name);
      if (event === undefined) return;
      tell(uid, fullNameOf(pod), event, { container: container.name, kind, message: event.message });
    },
  });
}

/** Each look at a pod brings what is asked of its containers up to date. */
export function withProbes(observed: ObservedPods, probes: Probes): ObservedPods {
  return {
    ...observed,
    observe: async (uid, desired) => probes.look(await observed.observe(uid, desired), desired),
    forget(uid) {
      observed.forget(uid);
      probes.forget(uid);
    },
  };
}

/** Puts the question of a probe to its container. */
function createAsking(runtime: Runtime): ProbesSettings["ask"] {
  // Loaded only where it is used, and once: many nodes have no container that wants to be asked.
  let loaded: ReturnType<typeof loadAsk> | undefined;
  return async ({ pod, container, probe, podIP, id }, signal) => {
    loaded ??= loadAsk(runtime);
    const { ask, userAgent } = await loaded;
    try {
      const call = enquiryOf(probe, { pod, container, podIP, userAgent });
      return await ask(call, id, { timeoutMs: probeTimeoutMs(probe), signal });
    } catch (error) {
      if (!(error instanceof TranslateError)) throw error;
      return { result: "error", message: error.message };
    }
  };
}

async function loadAsk(runtime: Runtime) {
  const { createAsk, probeUserAgent } = await import("../act/probes/probe-executor.ts");
  return { ask: createAsk(runtime, probeUserAgent), userAgent: probeUserAgent };
}
