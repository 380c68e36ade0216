import type { CriCode } from "./error.ts";

/** Counters for one CRI method. Streams count when they end and have no duration. */
export interface MethodMetrics {
  readonly count: number;
  readonly errors: Readonly<Partial<Record<CriCode, number>>>;
  readonly totalMs: number;
  readonly maxMs: number;
}

export interface CallRecord {
  readonly verb: string;
  readonly code: CriCode | "OK";
  /** Undefined for streams. */
  readonly durationMs: number | undefined;
}

export interface CallMetrics {
  record(call: CallRecord): void;
  /** By method, e.g. "RunPodSandbox"; methods that were never called are missing. */
  snapshot(): Readonly<Record<string, MethodMetrics>>;
}

export function createCallMetrics(): CallMetrics {
  const metricsByMethod = new Map<string, MethodMetrics>();
  return {
    record({ verb, code, durationMs = 0 }) {
      const { count, errors, totalMs, maxMs } = metricsByMethod.get(verb) ?? {
        count: 0,
        errors: {},
        totalMs: 0,
        maxMs: 0,
      };
      metricsByMethod.set(verb, {
        count: count + 1,
        errors: code === "OK" ? errors : { ...errors, [code]: (errors[code] ?? 0) + 1 },
        totalMs: totalMs + durationMs,
        maxMs: Math.max(maxMs, durationMs),
      });
    },
    snapshot: () => Object.fromEntries(metricsByMethod),
  };
}
