import { expect, test } from "bun:test";
import { parseRequestTarget } from "./request-target.ts";
import type { Route } from "./route.ts";
import { createRouteTable, type RouteMatch } from "./route-table.ts";

const route = (pattern: string, methods: Route["methods"] = ["GET"]): Route => ({
  pattern,
  methods,
  handle: async () => {},
});
const table = createRouteTable([
  route("/healthz", "all"),
  route("/metrics", "all"),
  route("/metrics/cadvisor", "all"),
  route("/pods"),
  route("/runningpods/"),
  route("/stats/summary"),
  route("/containerLogs/{namespace}/{pod}/{container}"),
  route("/exec/{namespace}/{pod}/{container}", ["GET", "POST"]),
  route("/exec/{namespace}/{pod}/{uid}/{container}", ["GET", "POST"]),
  route("/logs/"),
  route("/logs/{path...}"),
]);

function match(method: string, target: string): unknown {
  const parsed = parseRequestTarget(target);
  return parsed === undefined ? "bad request" : summary(table.match(method, parsed));
}

function summary(found: RouteMatch): unknown {
  switch (found.kind) {
    case "route":
      return { [found.route.pattern]: found.params };
    case "redirect":
      return `to ${found.location}`;
    case "method not allowed":
      return `allow ${found.allow.join()}`;
    case "unregistered":
    case "not found":
      return found.kind;
  }
}

/** The answers of a kubelet 1.36.3 to the same paths: Go's ServeMux first, then go-restful's CurlyRouter. */
const rows: readonly (readonly [method: string, target: string, expected: unknown])[] = [
  ["GET", "/healthz", { "/healthz": {} }],
  ["POST", "/healthz", { "/healthz": {} }],
  ["GET", "/healthz/", "unregistered"],
  ["GET", "/healthz/nothing", "unregistered"],
  ["GET", "/", "unregistered"],
  ["GET", "/pods", { "/pods": {} }],
  ["GET", "/pods?x=/a/b", { "/pods": {} }],
  ["GET", "/p%6fds", { "/pods": {} }],
  ["GET", "/pods/", { "/pods": {} }],
  ["GET", "/pods/web", "not found"],
  ["POST", "/pods/", "allow GET"],
  ["POST", "/pods", "allow GET"],
  ["HEAD", "/pods", "allow GET"],
  ["GET", "/Pods", "unregistered"],
  ["GET", "/podsx", "unregistered"],
  ["GET", "//pods", "to /pods"],
  ["GET", "/./pods", "to /pods"],
  ["GET", "/stats/../pods?a=b", "to /pods?a=b"],
  ["GET", "/../../etc/passwd", "to /etc/passwd"],
  ["GET", "/stats/%2e%2e/pods", "not found"],
  ["GET", "/stats%2fsummary", "unregistered"],
  ["GET", "/runningpods", "to /runningpods/"],
  ["GET", "/runningpods/", { "/runningpods/": {} }],
  ["GET", "/logs", "to /logs/"],
  ["GET", "/logs?query=kubelet", "to /logs/?query=kubelet"],
  ["GET", "/stats", "to /stats/"],
  ["GET", "/stats/", "not found"],
  ["GET", "/stats/summary", { "/stats/summary": {} }],
  ["GET", "/metrics/cadvisor", { "/metrics/cadvisor": {} }],
  ["GET", "/metrics/other", "unregistered"],
  ["GET", "/logs/", { "/logs/": {} }],
  ["GET", "/logs/a/", { "/logs/{path...}": { path: "a/" } }],
  ["GET", "/logs/a/b", { "/logs/{path...}": { path: "a/b" } }],
  ["GET", "/logs/a%2Fb", { "/logs/{path...}": { path: "a/b" } }],
  ["GET", "/logs/a/%2e%2e/%2e%2e/b", { "/logs/{path...}": { path: "a/../../b" } }],
  [
    "GET",
    "/containerLogs/shop/web/app",
    { "/containerLogs/{namespace}/{pod}/{container}": { namespace: "shop", pod: "web", container: "app" } },
  ],
  [
    "GET",
    "/containerLogs/shop/web/app/",
    { "/containerLogs/{namespace}/{pod}/{container}": { namespace: "shop", pod: "web", container: "app" } },
  ],
  ["GET", "/containerLogs/shop/web/", "not found"],
  ["GET", "/containerLogs/shop/web", "not found"],
  ["GET", "/containerLogs/shop/we%2Fb/app", "not found"],
  ["GET", "/containerLogs", "not found"],
  ["PUT", "/exec/a/b/c", "allow GET,POST"],
  [
    "GET",
    "/exec/a/b/u/c",
    { "/exec/{namespace}/{pod}/{uid}/{container}": { namespace: "a", pod: "b", uid: "u", container: "c" } },
  ],
  [
    "GET",
    "/exec/%E2%9C%93/__proto__/c",
    { "/exec/{namespace}/{pod}/{container}": { namespace: "✓", pod: "__proto__", container: "c" } },
  ],
  ["GET", "/pods%", "bad request"],
  ["GET", "/pods%0", "bad request"],
  ["GET", "pods", "bad request"],
  ["GET", "/po\u0000ds", "bad request"],
  ["OPTIONS", "*", "bad request"],
  ["CONNECT", "//pods", "unregistered"],
];
test.each(rows)("%s %s", (method, target, expected) => expect(match(method, target)).toEqual(expected));

test("a query with a bad escape or a semicolon loses that pair, and repeated parameters stay in order", () => {
  const { query } = parseRequestTarget("/exec?command=a&command=b%zz&command=c;d&command=e+f&tty") ?? {};
  expect(query?.getAll("command")).toEqual(["a", "e f"]);
  expect(query?.get("tty")).toBe("");
});

test("a pattern whose folder is not known is refused, since no request could reach it", () => {
  expect(() => createRouteTable([route("/new/{pod}")])).toThrow("/new/{pod}");
});
