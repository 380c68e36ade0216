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
  { tracing, nodeName, clusterConfigSource }: Pick<Config, "tracing" | "nodeName" | "clusterConfigSource">,
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
    ...{ export: exporter.export, samplingRatePerMillion, random: Math.random },
    now: () => preciseTime(clock.now(), performance.timeOrigin + performance.now()),
    hasApiServer: clusterConfigSource !== undefined,
    randomHex: (bytes) => Buffer.from(crypto.getRandomValues(new Uint8Array(bytes))).toString("hex"),
  });
  return { ...traces, stop: exporter.stop };
}

/** Two readings of the same time may differ by less than this: one has whole milliseconds. */
const MAX_DIFFERENCE_MS = 5;

/**
 * The time with fractions of a millisecond, which `performance` counts from the start of this process. Without them once the wall clock
 * differs from that: it was set, or NTP has corrected it.
 *
 * @internal
 */
export function preciseTime(wallMs: number, countedMs: number): number {
  return Math.abs(countedMs - wallMs) < MAX_DIFFERENCE_MS ? countedMs : wallMs;
}
