import { describe, expect, test } from "bun:test";
import { gunzipSync } from "node:zlib";
import type { UsageDetail } from "../../../cgroups/usage.ts";
import { CriError } from "../../../cri/error.ts";
import { recordedPage } from "../../../test/differential/stats/page-shape.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { exampleReadings } from "../../../test/fakes/stats-readings.ts";
import { ApiError } from "../api/api-error.ts";
import type { ApiRequest } from "../api/route.ts";
import { createStatsRoutes } from "./stats-routes.ts";

const machine = {
  ...{ machineID: "m", systemUUID: "s", bootID: "b", kernelVersion: "6.1", osImage: "Debian" },
  ...{ cpuCount: 4, physicalCores: 2, sockets: 1, memoryBytes: 1e9, swapBytes: 0 },
};
const away = new CriError("UNAVAILABLE", "ListContainers", "the runtime is down");

interface Ask extends Partial<Omit<ApiRequest, "query" | "body">> {
  readonly query?: string;
  readonly form?: string;
}

function createSubject(failure?: Error) {
  const reads: (UsageDetail | "rates")[] = [];
  const routes = createStatsRoutes({
    nodeName: "node-a",
    machine,
    read: async (detail) => {
      reads.push(detail);
      if (failure !== undefined) throw failure;
      return exampleReadings;
    },
    prepareRates: async () => void reads.push("rates"),
    deviceName: () => "",
    clock: { now: () => 1_700_000_000_000 },
    log: new FakeLog(),
  });
  async function ask(path: string, { query = "", form = "", ...rest }: Ask = {}) {
    const route = routes.find(({ pattern }) => pattern === path);
    if (route === undefined) throw new Error(`no route ${path}`);
    const answer = { status: 0, headers: {} as Readonly<Record<string, string>> };
    const chunks: Uint8Array[] = [];
    const add = (chunk: string | Uint8Array) => void chunks.push(Buffer.from(chunk));
    const request: ApiRequest = {
      ...{ method: "GET", path, params: {}, headers: {}, signal: new AbortController().signal },
      user: { username: "u", groups: [] },
      query: new URLSearchParams(query),
      body: async (limit) => {
        if (form.length > limit) throw new ApiError(413, "too large");
        return Buffer.from(form);
      },
      ...rest,
    };
    await route.handle(request, {
      start(status, headers = {}) {
        Object.assign(answer, { status, headers });
      },
      write: async (chunk) => add(chunk),
      end: (chunk = "") => add(chunk),
    });
    const bytes = Buffer.concat(chunks);
    return { ...answer, bytes, body: bytes.toString() };
  }
  return { ask, reads, routes };
}

describe("/stats/summary", () => {
  test("is indented by one space a level, as the kubelet writes it", async () => {
    const { ask, reads } = createSubject();
    const { status, headers, body } = await ask("/stats/summary");
    expect([status, headers["content-type"]]).toEqual([200, "application/json"]);
    expect(body.split("\n").slice(0, 5)).toEqual(recordedPage("summary.json").split("\n").slice(0, 5));
    expect(body).not.toEndWith("\n");
    expect(reads).toEqual(["rates", "summary"]);
  });

  const form = { method: "POST", headers: { "content-type": "application/x-www-form-urlencoded" } };
  const rows: readonly (readonly [what: string, ask: Ask, isAll: boolean])[] = [
    ["nothing", {}, true],
    ["true", { query: "only_cpu_and_memory=true" }, false],
    ["True", { query: "only_cpu_and_memory=True" }, true],
    ["an empty value", { query: "only_cpu_and_memory=" }, true],
    ["true twice", { query: "only_cpu_and_memory=true&only_cpu_and_memory=true" }, true],
    ["another parameter", { query: "x=true" }, true],
    ["true in a form", { ...form, form: "only_cpu_and_memory=true" }, false],
    [
      "true in a form and in the query",
      { ...form, query: "only_cpu_and_memory=true", form: "only_cpu_and_memory=true" },
      true,
    ],
    ["true in a body that is no form", { method: "POST", form: "only_cpu_and_memory=true" }, true],
  ];
  for (const [what, asked, isAll] of rows)
    test(`${what} asks for ${isAll ? "all" : "CPU and memory only"}`, async () => {
      const { ask, reads } = createSubject();
      const { node } = JSON.parse((await ask("/stats/summary", asked)).body) as { readonly node: object };
      expect(Object.keys(node).includes("network")).toBe(isAll);
      expect(reads).toEqual(["rates", isAll ? "summary" : "cpu-and-memory"]);
    });

  test("a runtime that is away is an error with the kubelet's text", async () => {
    const failed = createSubject(away).ask("/stats/summary");
    await expect(failed).rejects.toMatchObject({ name: "ApiError", status: 500 });
    await expect(failed).rejects.toThrow(/^Internal Error: failed to list pod stats: .*the runtime is down/);
  });

  test("a form of megabytes is refused", async () => {
    const asked = { ...form, form: "x".repeat(1_000_000) };
    await expect(createSubject().ask("/stats/summary", asked)).rejects.toMatchObject({ status: 413 });
  });

  test("a mistake of ours is no answer of the runtime", async () => {
    await expect(createSubject(new TypeError("ours")).ask("/stats/summary")).rejects.toThrow(TypeError);
  });
});

describe("the pages of metrics", () => {
  const encodings: readonly (readonly [acceptEncoding: string | undefined, isCompressed: boolean])[] = [
    [undefined, false],
    ["gzip", true],
    ["br, GZIP;q=0.5", true],
    ["gzip;q=0", false],
    ["gzip;q=0.0, identity", false],
    ["x-gzip, deflate", false],
  ];
  for (const [acceptEncoding, isCompressed] of encodings)
    test(`are ${isCompressed ? "" : "not "}compressed for a client that accepts ${acceptEncoding}`, async () => {
      const asked = acceptEncoding === undefined ? {} : { headers: { "accept-encoding": acceptEncoding } };
      const { headers, bytes } = await createSubject().ask("/metrics/cadvisor", asked);
      expect(headers["content-encoding"]).toBe(isCompressed ? "gzip" : undefined);
      const text = String(isCompressed ? gunzipSync(bytes) : bytes);
      expect(text).toContain("\ncontainer_scrape_error 0\n");
    });

  for (const [path, detail, metric] of [
    ["/metrics/resource", "resources", "resource_scrape_error"],
    ["/metrics/cadvisor", "all", "container_scrape_error"],
  ] as const) {
    test(`${path} is text, or OpenMetrics for a client that prefers it`, async () => {
      const { ask, reads } = createSubject();
      const text = await ask(path);
      expect(text.headers["content-type"]).toBe("text/plain; version=0.0.4; charset=utf-8; escaping=underscores");
      expect(text.body).toContain(`\n${metric} 0\n`);
      const open = await ask(path, { headers: { accept: "application/openmetrics-text;version=1.0.0,*/*;q=0.1" } });
      expect(open.headers["content-type"]).toStartWith("application/openmetrics-text; version=1.0.0");
      expect(open.body).toEndWith("# EOF\n");
      expect(reads).toEqual([detail, detail]);
    });

    test(`${path} says that the runtime is away`, async () => {
      const { status, body } = await createSubject(away).ask(path);
      expect([status, body.includes(`\n${metric} 1\n`)]).toEqual([200, true]);
    });
  }
});
