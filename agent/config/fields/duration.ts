import { DurationError, parseDurationMs } from "../../../proto/kubernetes/duration.ts";

/** Milliseconds of a duration in Go's notation (`1m30s`), undefined for any other text. */
export function parseDuration(text: string): number | undefined {
  try {
    return parseDurationMs(text);
  } catch (error) {
    if (error instanceof DurationError) return undefined;
    throw error;
  }
}
