import type { Clock } from "../../../host/clock.ts";
import type { Route } from "../api/route.ts";
import type { ContainerLogs } from "./container-logs.ts";
import { parseLogOptions } from "./log-options.ts";

export interface LogRoutesDeps {
  readonly containerLogs: ContainerLogs;
  readonly clock: Pick<Clock, "now">;
}

/** The endpoint behind `kubectl logs`. */
export function createLogRoutes({ containerLogs, clock }: LogRoutesDeps): readonly Route[] {
  return [
    {
      pattern: "/containerLogs/{namespace}/{pod}/{container}",
      methods: ["GET"],
      async handle({ params: { namespace = "", pod = "", container = "" }, query, signal }, response) {
        const options = parseLogOptions(query, clock.now());
        await containerLogs.send({ namespace, pod, container, options, signal }, response);
      },
    },
  ];
}
