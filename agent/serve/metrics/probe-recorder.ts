import type { PodUid } from "../../../proto/ids.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { ProbeKind, ProbeOutcome } from "../../decide/container/probe.ts";
import type { KubeletMetrics } from "./kubelet-metrics.ts";

/** A probe that has ended, and counts. */
interface EndedProbe {
  readonly uid: PodUid;
  readonly pod: Pod;
  readonly container: { readonly name: string };
  readonly kind: ProbeKind;
}

/** The label `probe_type`. */
const probeTypes: Readonly<Record<ProbeKind, string>> = {
  liveness: "Liveness",
  readiness: "Readiness",
  startup: "Startup",
};

/** Returns the function that records a result of a probe. As by the kubelet, one that could not be executed counts for nothing. */
export function createProbeRecorder({ probes }: Pick<KubeletMetrics, "probes">) {
  return ({ uid, pod, container, kind }: EndedProbe, { result }: ProbeOutcome, durationMs: number): void => {
    if (result === "error") return;
    const { namespace = "", name = "" } = pod.metadata;
    const type = probeTypes[kind];
    const isSuccess = result !== "failure";
    const labels = [container.name, namespace, name];
    probes.add("prober_probe_total", [...labels, uid, type, isSuccess ? "successful" : "failed"]);
    if (isSuccess) probes.observe("prober_probe_duration_seconds", durationMs / 1000, [...labels, type]);
  };
}
