import type { Route } from "../api/route.ts";
import { expositionTypes, formatExposition, type MetricFamily, negotiateExposition } from "../stats/exposition.ts";

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
    async handle({ headers }, response) {
      const format = negotiateExposition(headers.accept);
      const page = formatExposition(await families(), format);
      response.start(200, { "content-type": expositionTypes[format] });
      response.end(page);
    },
  };
}
