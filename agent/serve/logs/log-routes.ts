import type { Clock } from "../../../host/clock.ts";
import type { Route } from "../api/route.ts";
import { type ContainerLogs, UnreadableLogError } from "./container-logs.ts";
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
        try {
          await containerLogs.send({ namespace, pod, container, options, signal }, response);
        } catch (error) {
          if (!(error instanceof UnreadableLogError)) throw error;
          // As with the kubelet, which has sent the status before it opens the log.
          response.end(error.message);
        }
      },
    },
  ];
}
