import type { Clock } from "../../../../host/clock.ts";
import { formatTime } from "../../../../proto/kubernetes/values/time.ts";
import { sendJson, sendText } from "../api-response.ts";
import type { ApiRequest, ApiResponse, Route } from "../route.ts";

export interface StatusPageDeps {
  /** As `Go version` of the kubelet: what the program was built with. */
  readonly builtWith: string;
  /** Kubernetes' version without a `v`. */
  readonly version: string;
  /** Epoch milliseconds. */
  readonly startedAt: number;
  /** The patterns of all routes. */
  readonly patterns: readonly string[];
  readonly clock: Pick<Clock, "now">;
}

const WARNING =
  "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.";

/** `/statusz`. Rule: pkg/server/statusz of k8s.io/apiserver. */
export function createStatusPage({ builtWith, version, startedAt, patterns, clock }: StatusPageDeps): Route {
  return createPage("statusz", () => {
    const upSeconds = Math.max(0, Math.floor((clock.now() - startedAt) / 1000));
    const paths = [...new Set(patterns.map((pattern) => `/${pattern.split("/")[1]}`))].toSorted();
    const startTime = formatTime(startedAt);
    // The minor version: no older one is emulated.
    const emulationVersion = version.split(".", 2).join(".");
    return {
      kind: "Statusz",
      fields: {
        startTime,
        uptimeSeconds: upSeconds,
        goVersion: builtWith,
        binaryVersion: version,
        emulationVersion,
        paths,
      },
      lines: [
        "",
        `Started: ${startTime}`,
        `Up: ${formatUptime(upSeconds)}`,
        `Go version: ${builtWith}`,
        `Binary version: ${version}`,
        `Emulation version: ${emulationVersion}`,
        `Paths: ${paths.join(" ")}`,
      ],
    };
  });
}

/** `/flagz`: every flag with its value; secret ones are masked already. Rule: pkg/server/flagz of k8s.io/apiserver. */
export function createFlagPage(flags: Readonly<Record<string, string>>): Route {
  const lines = Object.entries(flags)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => `${name}=${value}`);
  return createPage("flagz", () => ({ kind: "Flagz", fields: { flags }, lines }));
}

interface Page {
  readonly kind: string;
  /** Of the structured form. */
  readonly fields: Readonly<Record<string, unknown>>;
  readonly lines: readonly string[];
}

function createPage(name: string, page: () => Page): Route {
  return {
    pattern: `/${name}`,
    methods: "all",
    async handle(request, response) {
      const { kind, fields, lines } = page();
      const form = formOf(request, kind);
      if (form === "text") return sendText(response, 200, `\nkubelet ${name}\n${[WARNING, ...lines].join("\n")}\n`);
      if (form === undefined) return sendNotAcceptable(response);
      const apiVersion = `config.k8s.io/${form}`;
      sendJson(response, { kind, apiVersion, metadata: { name: "kubelet" }, ...fields });
    },
  };
}

/** The first media type of `Accept` that is served: text, or JSON of a version that the client names. */
function formOf({ headers }: ApiRequest, kind: string): "text" | "v1alpha1" | "v1beta1" | undefined {
  const accepted = (headers.accept ?? "").trim();
  if (accepted === "") return "text";
  for (const range of accepted.split(",")) {
    const [type = "", ...parameters] = range.split(";").map((part) => part.trim());
    if (["*/*", "text/*", "text/plain"].includes(type)) return "text";
    const given = new Map(parameters.map((part) => part.split("=", 2) as [string, string]));
    const version = given.get("v");
    if (type !== "application/json" || given.get("as") !== kind || given.get("g") !== "config.k8s.io") continue;
    if (version === "v1alpha1" || version === "v1beta1") return version;
  }
  return undefined;
}

function sendNotAcceptable(response: ApiResponse): void {
  const message = "only the following media types are accepted: application/json, application/yaml, text/plain";
  const status = {
    kind: "Status",
    apiVersion: "v1",
    metadata: {},
    status: "Failure",
    message,
    reason: "NotAcceptable",
  };
  const text = JSON.stringify({ ...status, code: 406 }, null, 2);
  sendText(response, 406, text, { "content-type": "application/json" });
}

function formatUptime(seconds: number): string {
  const two = (value: number) => String(value).padStart(2, "0");
  return `${Math.floor(seconds / 3600)} hr ${two(Math.floor(seconds / 60) % 60)} min ${two(seconds % 60)} sec`;
}
