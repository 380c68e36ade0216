import { truncateText } from "../proto/truncate-text.ts";

const MAX_SHOWN = 80;

/** A value of a configuration for an error text: its JSON, at most 80 characters of it; `nothing` for undefined. */
export function shownValue(value: unknown): string {
  return value === undefined ? "nothing" : truncateText(JSON.stringify(value), MAX_SHOWN);
}
