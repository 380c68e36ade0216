import type { Route } from "../api/route.ts";
import type { MetricFamily } from "../stats/exposition.ts";
import { sendExposition } from "../stats/send-exposition.ts";

export interface MetricsRoutesDeps {
  /** Every metric of a page, with the gauges as they are now. */
  readonly kubelet: () => Promise<readonly MetricFamily[]>;
  readonly probes: () => readonly MetricFamily[];
}

/** `/metrics` and `/metrics/probes`: the metrics of the agent's own work, and those of its probes. */
export function createMetricsRoutes({ kubelet, probes }: MetricsRoutesDeps): readonly Route[] {
  return [pageRoute("/metrics", kubelet), pageRoute("/metrics/probes", probes)];
}

function pageRoute(pattern: string, families: () => Promise<readonly MetricFamily[]> | readonly MetricFamily[]): Route {
  return {
    pattern,
    methods: "all",
    handle: async (request, response) => await sendExposition(request, response, await families()),
  };
}
