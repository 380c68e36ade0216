/*
 * The requests that the node's API of the reference kubelet and that of Berth answer, for the pods of api-pods.ts.
 */

/** The credentials of a request, see api-client-users.ts. */
export type ApiUser =
  | "administrator"
  | "no credentials"
  | "bad token"
  | "foreign certificate"
  | "no rights"
  | "proxy reader";

/**
 * How much of a body is compared: all of it, with the machine's values replaced; the paths of the fields of its JSON;
 * the names of the lines of `/statusz`; or nothing, where other tests compare it or where it is the machine's.
 */
type BodyComparison = "text" | "fields" | "names" | "none";

export interface ApiCase {
  readonly method: string;
  /** The target of the request line, with its query, sent as it is. */
  readonly target: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly user: ApiUser;
  readonly body: string;
  readonly compares: BodyComparison;
}

const get = (target: string, more: Partial<ApiCase> = {}): ApiCase => ({
  ...{ method: "GET", target, user: "administrator", body: "", compares: "text" },
  ...more,
});
const send = (method: string, target: string, more: Partial<ApiCase> = {}) => get(target, { method, ...more });
const shape = (target: string, compares: BodyComparison, headers: ApiCase["headers"] = {}) =>
  get(target, { compares, headers });

/** The folder of the machine's /var/log that the cases of `/logs/` read. */
export const LOGS_FOLDER = "berth-api-cases";
export const LOGS_FILE = "file.txt";

const logsOf = (query: string, pod = "web", container = "app") =>
  get(`/containerLogs/default/${pod}/${container}${query}`);
const OTHER_UID = "11111111-2222-3333-4444-555555555555";

const containerLogs: readonly ApiCase[] = [
  logsOf(""),
  logsOf("", "web", "init"),
  logsOf("", "ended"),
  logsOf("", "again"),
  logsOf("?previous=true", "again"),
  logsOf("", "waits"),
  logsOf("", "initializes"),
  logsOf("", "initializes", "init"),
  logsOf("?previous=true"),
  logsOf("?previous=true", "waits"),
  logsOf("?previous=maybe"),
  logsOf("?follow=maybe", "ended"),
  logsOf("", "web", "none"),
  logsOf("", "none"),
  get("/containerLogs/none/web/app"),
  ...["0", "2", "-1", "many", "1.5", "99999999999999999999", ""].map((value) => logsOf(`?tailLines=${value}`)),
  ...["0", "7", "-1", "many"].map((value) => logsOf(`?limitBytes=${value}`)),
  ...["0", "-1", "many", "3600"].map((value) => logsOf(`?sinceSeconds=${value}`)),
  ...["yesterday", "2020-01-01T00:00:00Z", "2020-01-01", ""].map((value) => logsOf(`?sinceTime=${value}`)),
  logsOf("?sinceTime=2020-01-01T00:00:00Z&sinceSeconds=5"),
  ...["Stdout", "Stderr", "All", "stdout", "Other", ""].map((value) => logsOf(`?stream=${value}`)),
  logsOf("?stream=Stdout&tailLines=1"),
  logsOf("?timestamps=true"),
  logsOf("?timestamps=maybe"),
  logsOf("?insecureSkipTLSVerifyBackend=true"),
  logsOf("?unknown=1&tailLines=1&tailLines=2"),
  logsOf("?tailLines=%zz"),
  send("POST", "/containerLogs/default/web/app"),
  send("HEAD", "/containerLogs/default/web/app"),
];

const upgrade = (protocol: string, more: Readonly<Record<string, string>> = {}) => ({
  connection: "Upgrade, close",
  upgrade: protocol,
  ...more,
});
const webSocket = (protocol: string, version = "13") =>
  upgrade("websocket", {
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    "sec-websocket-version": version,
    "sec-websocket-protocol": protocol,
  });
const EXEC = "/exec/default/web/app?command=true&output=1";

const streaming: readonly ApiCase[] = [
  get(EXEC),
  send("POST", EXEC),
  send("PUT", EXEC),
  get("/exec/default/web/app"),
  get("/exec/default/web/app?output=1"),
  get("/exec/default/web/app?command=true"),
  get("/exec/default/web/app?command=true&output=1&error=1&tty=1"),
  get("/exec/default/web/none?command=true&output=1"),
  get("/exec/default/none/app?command=true&output=1"),
  get("/exec/none/web/app?command=true&output=1"),
  get(`/exec/default/web/${OTHER_UID}/app?command=true&output=1`),
  get("/exec/default/ended/app?command=true&output=1"),
  get("/exec/default/waits/app?command=true&output=1"),
  get("/exec/default/web"),
  get(EXEC, { headers: upgrade("TLS/1.2") }),
  get(EXEC, { headers: upgrade("SPDY/3.1", { "x-stream-protocol-version": "v99.channel.k8s.io" }) }),
  get(EXEC, { headers: webSocket("v99.channel.k8s.io") }),
  get(EXEC, { headers: webSocket("v5.channel.k8s.io", "12") }),
  get("/attach/default/web/app?output=1"),
  send("POST", "/attach/default/web/app"),
  get("/attach/default/web/none?output=1"),
  get("/attach/default/none/app?output=1"),
  get("/attach/default/ended/app?output=1"),
  get("/attach/default/web/app?stdin=1&tty=maybe"),
  send("DELETE", "/attach/default/web/app?output=1"),
  get("/portForward/default/web"),
  send("POST", "/portForward/default/web"),
  get("/portForward/default/none"),
  get(`/portForward/default/web/${OTHER_UID}`),
  get("/portForward/default/web?port=http", { headers: webSocket("v4.channel.k8s.io") }),
  get("/portForward/default/web?port=99999", { headers: webSocket("v4.channel.k8s.io") }),
  get("/portForward/default/web", { headers: webSocket("v4.channel.k8s.io") }),
  send("POST", "/portForward/default/web", { headers: upgrade("SPDY/3.1") }),
  send("PUT", "/portForward/default/web"),
  send("POST", "/run/default/web/app?cmd=echo%20hello"),
  send("POST", "/run/default/web/app?cmd=false"),
  send("POST", "/run/default/web/app?cmd=none"),
  send("POST", "/run/default/web/app"),
  send("POST", "/run/default/web/none?cmd=true"),
  send("POST", "/run/default/none/app?cmd=true"),
  send("POST", "/run/default/ended/app?cmd=true"),
  get("/run/default/web/app?cmd=true"),
];

const pages: readonly ApiCase[] = [
  shape("/pods", "fields"),
  ...["/pods", "/runningpods/", "/stats/summary"].map((page) => get(page, { headers: { accept: "text/plain" } })),
  shape("/pods", "fields", { accept: "text/html, application/json;q=0.1" }),
  shape("/pods/", "fields"),
  get("/pods/none"),
  send("POST", "/pods"),
  send("HEAD", "/pods"),
  send("OPTIONS", "/pods"),
  shape("/runningpods/", "fields"),
  get("/runningpods"),
  send("POST", "/runningpods/"),
  get("/healthz"),
  get("/healthz?verbose=1"),
  get("/healthz?exclude=log"),
  get("/healthz?exclude=none&verbose"),
  get("/healthz/ping"),
  get("/healthz/log"),
  get("/healthz/syncloop"),
  get("/healthz/none"),
  get("/healthz/"),
  send("POST", "/healthz"),
  send("HEAD", "/healthz"),
  get("/livez"),
  get("/readyz"),
  shape("/configz", "fields"),
  send("POST", "/configz", { compares: "fields" }),
  get("/configz/"),
  shape("/statusz", "names"),
  get("/statusz", { headers: { accept: "application/xml" } }),
  send("POST", "/statusz", { compares: "none" }),
  shape("/flagz", "none"),
  get("/flagz", { headers: { accept: "application/xml" } }),
  shape("/stats/summary", "none"),
  shape("/stats/summary?only_cpu_and_memory=maybe", "none"),
  send("POST", "/stats/summary", { compares: "none" }),
  send("PUT", "/stats/summary"),
  get("/stats"),
  get("/stats/"),
  get("/stats/container"),
  get("/stats/default/web/app"),
  ...["/metrics", "/metrics/cadvisor", "/metrics/resource", "/metrics/probes", "/metrics/slis"].map((page) =>
    shape(page, "none"),
  ),
  get("/metrics", { compares: "none", headers: { accept: "application/openmetrics-text; version=1.0.0" } }),
  get("/metrics/resource", { compares: "none", headers: { "accept-encoding": "gzip" } }),
  send("POST", "/metrics", { compares: "none" }),
  send("DELETE", "/metrics/resource", { compares: "none" }),
  send("DELETE", "/metrics/slis"),
  get("/metrics/"),
  get("/metrics/none"),
  send("POST", "/checkpoint/default/none/app"),
  send("POST", "/checkpoint/default/web/none"),
  send("POST", "/checkpoint/default/web/app?timeout=many"),
  send("POST", "/checkpoint/default/web/app"),
  send("POST", "/checkpoint/default/web/none", { headers: { accept: "text/plain" } }),
  get("/checkpoint/default/web/app"),
];

const logs = `/logs/${LOGS_FOLDER}`;
const [PAST, FUTURE] = ["Wed, 01 Jan 2020 00:00:00 GMT", "Wed, 01 Jan 2080 00:00:00 GMT"];
const conditional = (headers: Readonly<Record<string, string>>) => get(`${logs}/${LOGS_FILE}`, { headers });
const files: readonly ApiCase[] = [
  shape("/logs/", "none"),
  get("/logs"),
  get(`${logs}/`),
  get(logs),
  get(`${logs}/${LOGS_FILE}`),
  get(`${logs}/${LOGS_FILE}/`),
  ...["0-3", "900-", "-5", "3-1", "0-1,4-5", "0-,0-"].map((range) => conditional({ range: `bytes=${range}` })),
  conditional({ range: "lines=0-3" }),
  conditional({ range: "bytes=0-3", "if-range": PAST }),
  conditional({ "if-modified-since": PAST }),
  conditional({ "if-modified-since": FUTURE }),
  conditional({ "if-unmodified-since": PAST }),
  conditional({ "if-none-match": "*" }),
  conditional({ "if-match": '"a"' }),
  get(`${logs}/empty/`, { headers: { "if-modified-since": FUTURE } }),
  send("HEAD", `${logs}/${LOGS_FILE}`),
  get(`${logs}/none`),
  get(`${logs}/empty/`),
  get("/logs/none/none"),
  shape("/logs/?query=kubelet", "none"),
  get("/logs/none?query=kubelet"),
  get("/logs/../etc/passwd"),
  get("/logs/%2e%2e/passwd"),
  get("/logs/..%2f..%2fetc%2fpasswd"),
  send("POST", "/logs/"),
  send("DELETE", `${logs}/${LOGS_FILE}`),
  get("/debug/pprof/"),
  get("/debug/pprof"),
  get("/debug/pprof/none"),
  send("PUT", "/debug/pprof/none"),
  get("/debug/flags/v"),
  send("PUT", "/debug/flags/v", { body: "many" }),
  send("PUT", "/debug/flags/v", { body: "2" }),
  send("POST", "/debug/flags/v", { body: "2" }),
  get("/debug/flags"),
];

const paths: readonly ApiCase[] = [
  get("/"),
  get("/none"),
  get("/api/v1/pods"),
  get("/spec/"),
  get("//pods"),
  get("/./pods"),
  get("/pods/../healthz"),
  get("/none/../pods?a=b"),
  get("/pods//"),
  get("/%70ods", { compares: "fields" }),
  get("/pods%2F"),
  get("/Pods"),
  get("/containerLogs/default//app"),
  get("/containerLogs//web/app"),
  get("/containerLogs/default/web/app/"),
  get("/containerLogs/default/web/app/more"),
  get("/containerLogs/default/web"),
  get("/containerLogs"),
  get("/containerLogs/"),
  get("/containerLogs/default/web%2Fapp"),
  get("/containerLogs/default/%77eb/app?tailLines=1"),
  get("/exec/"),
  get("/exec"),
  send("POST", "/none/../pods"),
  send("TRACE", "/pods"),
  send("PROPFIND", "/pods"),
  send("BREW", "/healthz"),
];

const refusals: readonly ApiCase[] = [
  ...(["no credentials", "bad token", "foreign certificate"] as const).flatMap((user) =>
    ["/pods", "/healthz", "/none", "//pods", "/metrics/none", EXEC].map((target) => get(target, { user })),
  ),
  ...[
    "/pods",
    "/runningpods/",
    "/healthz",
    "/healthz/none",
    "/configz",
    "/flagz",
    "/statusz",
    "/metrics/cadvisor",
    "/stats/summary",
    "/logs/",
    "/containerLogs/default/web/app",
    "/debug/pprof/",
    "/debug/flags/v",
    "/none",
    "/pods/none",
    EXEC,
  ].map((target) => get(target, { user: "no rights" })),
  ...["POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"].map((method) =>
    send(method, "/stats/summary", { user: "no rights" }),
  ),
  send("POST", EXEC, { user: "no rights" }),
  send("POST", "/checkpoint/default/web/app", { user: "no rights" }),
  get("/healthz", { user: "proxy reader" }),
  get("/metrics", { user: "proxy reader" }),
  get(EXEC, { user: "proxy reader" }),
  get("/portForward/default/web", { user: "proxy reader" }),
  send("POST", EXEC, { user: "proxy reader" }),
];

/** The request line of a case, with its headers and user where they are not the usual ones: its name. */
export function nameOf({ method, target, headers = {}, user, body }: ApiCase): string {
  const shown = Object.entries(headers).filter(([name]) => !["connection", "sec-websocket-key"].includes(name));
  const more = [
    ...shown.map(([name, value]) => `${name} ${value}`),
    ...(body === "" ? [] : [`body ${body}`]),
    ...(user === "administrator" ? [] : [user]),
  ];
  return `${method} ${target}${more.length === 0 ? "" : ` (${more.join(", ")})`}`;
}

const all = [...containerLogs, ...streaming, ...pages, ...files, ...paths, ...refusals];

/** Every case, once. */
export const apiCases: readonly ApiCase[] = [...new Map(all.map((each) => [nameOf(each), each])).values()];
