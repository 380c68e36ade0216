import { sendText } from "../api/api-response.ts";
import type { Route } from "../api/route.ts";
import type { MetricFamily } from "../stats/exposition.ts";
import { sendExposition } from "../stats/send-exposition.ts";

export interface MetricsRoutesDeps {
  /** Every metric of a page, with the gauges as they are now. */
  readonly kubelet: () => Promise<readonly MetricFamily[]>;
  readonly probes: () => readonly MetricFamily[];
  readonly health: () => readonly MetricFamily[];
  /** Removes every result of a health check. */
  readonly resetHealth: () => void;
}

/**
 * `/metrics`, `/metrics/probes` and `/metrics/slis`: the metrics of the agent's own work, of its probes, and of its health
 * checks, which DELETE resets. Rule of the last: SLIMetricsWithReset in component-base.
 */
export function createMetricsRoutes({ kubelet, probes, health, resetHealth }: MetricsRoutesDeps): readonly Route[] {
  const slis = pageRoute("/metrics/slis", health);
  return [
    pageRoute("/metrics", kubelet),
    pageRoute("/metrics/probes", probes),
    {
      ...slis,
      async handle(request, response) {
        if (request.method !== "DELETE") return await slis.handle(request, response);
        resetHealth();
        sendText(response, 200, "metrics reset\n");
      },
    },
  ];
}

function pageRoute(pattern: string, families: () => Promise<readonly MetricFamily[]> | readonly MetricFamily[]): Route {
  return {
    pattern,
    methods: "all",
    handle: async (request, response) => await sendExposition(request, response, await families()),
  };
}
