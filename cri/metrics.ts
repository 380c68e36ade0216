import type { CriCode } from "./error.ts";

/** What became of the calls of one verb so far. Streams count when they end and have no durations. */
export interface VerbMetrics {
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
  /** By verb, e.g. "RunPodSandbox"; verbs never called are missing. */
  snapshot(): Readonly<Record<string, VerbMetrics>>;
}

export function createCallMetrics(): CallMetrics {
  const verbs = new Map<string, VerbMetrics>();
  return {
    record({ verb, code, durationMs = 0 }) {
      const { count, errors, totalMs, maxMs } = verbs.get(verb) ?? { count: 0, errors: {}, totalMs: 0, maxMs: 0 };
      verbs.set(verb, {
        count: count + 1,
        errors: code === "OK" ? errors : { ...errors, [code]: (errors[code] ?? 0) + 1 },
        totalMs: totalMs + durationMs,
        maxMs: Math.max(maxMs, durationMs),
      });
    },
    snapshot: () => Object.fromEntries(verbs),
  };
}
