import type { UsageDetail } from "../../../cgroups/usage.ts";
import { CriError } from "../../../cri/error.ts";
import type { Clock } from "../../../host/clock.ts";
import type { Log } from "../../../host/log/log.ts";
import { goJson } from "../../../proto/go-json.ts";
import type { StatsReadings } from "../../decide/stats/readings.ts";
import { type SummaryScope, toSummary } from "../../decide/stats/summary.ts";
import { ApiError } from "../api/api-error.ts";
import { JSON_TYPE } from "../api/api-response.ts";
import type { ApiRequest, ApiResponse, Route } from "../api/route.ts";
import { cadvisorMetrics, type MachineMetrics } from "./cadvisor-metrics.ts";
import { resourceMetrics } from "./resource-metrics.ts";
import { sendExposition } from "./send-exposition.ts";

export interface StatsRoutesDeps {
  readonly nodeName: string;
  readonly machine: MachineMetrics;
  /** Reads the node now. Rejects with `CriError` if the runtime does not answer. */
  readonly read: (detail: UsageDetail) => Promise<StatsReadings>;
  /** Resolves when the next reading has the rates of CPU, after a second at most. Rejects as `read`. */
  readonly prepareRates: (signal: AbortSignal) => Promise<void>;
  /** The name of a block device by `MAJOR:MINOR`; empty if it is unknown. */
  readonly deviceName: (device: string) => string;
  readonly clock: Pick<Clock, "now">;
  readonly log: Log;
}

/** A client that sends a form says in it which part of the summary it wants. Its other fields are ignored. */
const FORM_LIMIT_BYTES = 64 * 1024;

/** `/stats/summary`, `/metrics/resource` and `/metrics/cadvisor`. Nothing is read without a request. */
export function createStatsRoutes(deps: StatsRoutesDeps): readonly Route[] {
  const { machine, deviceName, clock } = deps;
  return [
    {
      pattern: "/stats/summary",
      methods: ["GET", "POST"],
      produces: JSON_TYPE,
      handle: (request, response) => summary(deps, request, response),
    },
    {
      pattern: "/metrics/resource",
      methods: "all",
      handle: async (request, response) =>
        await sendExposition(request, response, resourceMetrics(await readIfPossible(deps, "resources"))),
    },
    {
      pattern: "/metrics/cadvisor",
      methods: "all",
      handle: async (request, response) => {
        const readings = await readIfPossible(deps, "all");
        await sendExposition(request, response, cadvisorMetrics(readings, machine, { deviceName, nowMs: clock.now() }));
      },
    },
  ];
}

async function summary(deps: StatsRoutesDeps, request: ApiRequest, response: ApiResponse): Promise<void> {
  const scope = await scopeOf(request);
  try {
    await deps.prepareRates(request.signal);
    const readings = await deps.read(scope === "all" ? "summary" : "cpu-and-memory");
    response.start(200, { "content-type": "application/json" });
    response.end(goJson(toSummary(deps.nodeName, readings, scope), 1));
  } catch (error) {
    if (!(error instanceof CriError)) throw error;
    deps.log.warn({ err: error }, "the stats of the node cannot be read");
    throw new ApiError(500, `Internal Error: failed to list pod stats: ${error.message}`, { cause: error });
  }
}

/** Exactly one value `true`, in the query or in a form, as Go's `ParseForm` reads them. */
async function scopeOf({ method, query, headers, body }: ApiRequest): Promise<SummaryScope> {
  const isForm = method === "POST" && /^application\/x-www-form-urlencoded\b/i.test(headers["content-type"] ?? "");
  const form = isForm ? new URLSearchParams((await body(FORM_LIMIT_BYTES)).toString()) : new URLSearchParams();
  const values = [...form.getAll("only_cpu_and_memory"), ...query.getAll("only_cpu_and_memory")];
  return values.length === 1 && values[0] === "true" ? "cpu-and-memory" : "all";
}

/** A page of metrics says by a metric that the node could not be read. */
async function readIfPossible({ read, log }: StatsRoutesDeps, detail: UsageDetail): Promise<StatsReadings | undefined> {
  try {
    return await read(detail);
  } catch (error) {
    if (!(error instanceof CriError)) throw error;
    log.warn({ err: error }, "the stats of the node cannot be read");
    return undefined;
  }
}
