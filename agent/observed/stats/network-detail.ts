import type { UsageDetail } from "../../../cgroups/usage.ts";

/** Whether a page shows interfaces and processes beside CPU and memory. */
export function includesNetwork(detail: UsageDetail): boolean {
  return detail === "summary" || detail === "all";
}
