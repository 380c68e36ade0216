import { DurationError, parseDurationMs } from "../../../proto/kubernetes/values/duration.ts";

/** Parses a Go duration (`1m30s`) to milliseconds; undefined for any other text. */
export function parseDuration(text: string): number | undefined {
  try {
    return parseDurationMs(text);
  } catch (error) {
    if (error instanceof DurationError) return undefined;
    throw error;
  }
}

/** Converts a duration that has passed validation to milliseconds. */
export function validDurationMs(duration: string): number {
  return parseDuration(duration) ?? 0;
}
