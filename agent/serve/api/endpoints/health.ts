import { NO_SNIFF, sendGoError, sendText } from "../api-response.ts";
import type { ApiRequest, ApiResponse, Route } from "../route.ts";

/** One check of `/healthz`. Throws if it fails. */
export interface HealthCheck {
  readonly name: string;
  readonly check: () => void;
}

/** Gets the result of each check that a request of `/healthz` runs. */
export type HealthResultRecorder = (name: string, isHealthy: boolean) => void;

/**
 * `/healthz`, and `/healthz/NAME` for each check, whose results are not recorded. Rule: healthz.InstallHandler in
 * k8s.io/apiserver.
 */
export function createHealthRoutes(checks: readonly HealthCheck[], record: HealthResultRecorder): readonly Route[] {
  return [
    {
      pattern: "/healthz",
      methods: "all",
      handle: async (request, response) => sendHealth(runChecks(checks, request, record), request, response),
    },
    ...checks.map(
      (each): Route => ({
        pattern: `/healthz/${each.name}`,
        methods: "all",
        async handle(_request, response) {
          const failure = failureOf(each);
          if (failure === undefined) return sendText(response, 200, "ok");
          return sendGoError(response, 500, `internal server error: ${failure}`);
        },
      }),
    ),
  ];
}

interface HealthReport {
  readonly isHealthy: boolean;
  readonly lines: readonly string[];
}

/** Runs the checks that the client has not excluded. Why one failed may be secret here: only its own endpoint says it. */
function runChecks(
  checks: readonly HealthCheck[],
  { query }: Pick<ApiRequest, "query">,
  record: HealthResultRecorder,
): HealthReport {
  const excluded = new Set(query.getAll("exclude"));
  const results = checks.map((each) => {
    const { name } = each;
    if (excluded.has(name)) return { isHealthy: true, line: `[+]${name} excluded: ok` };
    const isHealthy = failureOf(each) === undefined;
    record(name, isHealthy);
    return { isHealthy, line: isHealthy ? `[+]${name} ok` : `[-]${name} failed: reason withheld` };
  });
  const unknown = [...excluded].filter((name) => !checks.some((check) => check.name === name)).toSorted();
  const quoted = unknown.map((name) => JSON.stringify(name)).join(",");
  const warnings =
    unknown.length === 0 ? [] : [`warn: some health checks cannot be excluded: no matches for ${quoted}`];
  return {
    isHealthy: results.every(({ isHealthy }) => isHealthy),
    lines: [...results.map(({ line }) => line), ...warnings],
  };
}

function sendHealth(
  { isHealthy, lines }: HealthReport,
  { query }: Pick<ApiRequest, "query">,
  response: ApiResponse,
): void {
  const text = lines.map((line) => `${line}\n`).join("");
  if (!isHealthy) sendGoError(response, 500, `${text}healthz check failed`);
  else if (query.has("verbose")) sendText(response, 200, `${text}healthz check passed\n`, NO_SNIFF);
  else sendText(response, 200, "ok", NO_SNIFF);
}

function failureOf({ check }: HealthCheck): string | undefined {
  try {
    check();
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
