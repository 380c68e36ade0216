import type { Clock } from "../../host/clock.ts";
import type { Log } from "../../host/log/log.ts";
import { kubeletVersion } from "../../proto/kubernetes/version.ts";
import type { Config } from "../config/config.ts";
import type { PodStartTraces } from "../report/traces/pod-start-traces.ts";
import type { SpanExporter } from "../report/traces/span-exporter.ts";

/** The traces of the starts of pods, and how they end with the agent. */
export type Traces = PodStartTraces & Pick<SpanExporter, "stop">;

/** Undefined without `tracing` in the configuration. */
export async function createTracesIfConfigured(
  { tracing, nodeName }: Pick<Config, "tracing" | "nodeName">,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
): Promise<Traces | undefined> {
  if (tracing === undefined) return undefined;
  // Loaded lazily: most nodes send no traces.
  const [{ createPodStartTraces }, { createSpanExporter }] = await Promise.all([
    import("../report/traces/pod-start-traces.ts"),
    import("../report/traces/span-exporter.ts"),
  ]);
  const { endpoint, samplingRatePerMillion } = tracing;
  const resource = { "service.name": "kubelet", "service.version": kubeletVersion, "host.name": nodeName };
  const exporter = createSpanExporter({ endpoint, resource, clock, log });
  const traces = createPodStartTraces({
    ...{ export: exporter.export, now: () => preciseNow(clock), samplingRatePerMillion, random: Math.random },
    randomHex: (bytes) => Buffer.from(crypto.getRandomValues(new Uint8Array(bytes))).toString("hex"),
  });
  return { ...traces, stop: exporter.stop };
}

/** Two readings of the same time may differ by so much: one has whole milliseconds. */
const MAX_DIFFERENCE_MS = 5;

/**
 * The time with fractions of a millisecond. Without them once the wall clock differs from the start of this process by more than that: it
 * was set, or NTP has corrected it.
 */
function preciseNow(clock: Pick<Clock, "now">): number {
  const [wall, precise] = [clock.now(), performance.timeOrigin + performance.now()];
  return Math.abs(precise - wall) < MAX_DIFFERENCE_MS ? precise : wall;
}
