import { sendGoError, sendText } from "../api-response.ts";
import type { Route } from "../route.ts";

/** One check of `/healthz`. Throws if it fails. */
export interface HealthCheck {
  readonly name: string;
  readonly check: () => void;
}

/** `/healthz`, and `/healthz/NAME` for each check. Rule: healthz.InstallHandler in k8s.io/apiserver. */
export function createHealthRoutes(checks: readonly HealthCheck[]): readonly Route[] {
  return [
    {
      pattern: "/healthz",
      methods: "all",
      async handle({ query }, response) {
        const excluded = new Set(query.getAll("exclude"));
        const included = checks.filter(({ name }) => !excluded.has(name));
        const lines = checks.map((each) => (excluded.has(each.name) ? `[+]${each.name} excluded: ok` : resultOf(each)));
        const unknown = [...excluded].filter((name) => !checks.some((check) => check.name === name)).toSorted();
        const quoted = unknown.map((name) => JSON.stringify(name)).join(", ");
        if (unknown.length > 0) lines.push(`warn: some health checks cannot be excluded: no matches for ${quoted}`);
        const text = lines.map((line) => `${line}\n`).join("");
        if (included.some((each) => failureOf(each) !== undefined))
          return sendGoError(response, 500, `${text}healthz check failed`);
        if (!query.has("verbose")) return sendText(response, 200, "ok", NO_SNIFF);
        return sendText(response, 200, `${text}healthz check passed\n`, NO_SNIFF);
      },
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

const NO_SNIFF = { "x-content-type-options": "nosniff" };

function failureOf({ check }: HealthCheck): string | undefined {
  try {
    check();
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** Why it failed may be secret here: only the endpoint of the check says it. */
function resultOf(check: HealthCheck): string {
  return failureOf(check) === undefined ? `[+]${check.name} ok` : `[-]${check.name} failed: reason withheld`;
}
