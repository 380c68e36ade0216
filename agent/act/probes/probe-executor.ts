import { CriError, formatRpcError } from "../../../cri/error.ts";
import type { Runtime } from "../../../cri/runtime.ts";
import { DialError, type DialOptions } from "../../../probe-net/dial-error.ts";
import { type HttpResponse, httpGet } from "../../../probe-net/http.ts";
import { createTryTcpConnect, dialTcp } from "../../../probe-net/tcp-connect.ts";
import type { ContainerId } from "../../../proto/ids.ts";
import { formatElapsed } from "../../../proto/kubernetes/values/duration.ts";
import { kubernetesVersion } from "../../../proto/kubernetes/version.ts";
import type { ProbeOutcome } from "../../decide/container/probe.ts";
import type { ProbeRequest } from "../../translate/probe-request.ts";

/** Runs one probe or hook request against a container. Never rejects. */
export type ProbeExecutor = (call: ProbeRequest, container: ContainerId, options: DialOptions) => Promise<ProbeOutcome>;

/** The kubelet's User-Agent of HTTP probes. */
export const probeUserAgent = `kube-probe/${kubernetesVersion.replace(/^v(\d+\.\d+).*$/, "$1")}`;

/** The kubelet's User-Agent of HTTP lifecycle hooks. */
export const hookUserAgent = probeUserAgent.replace("kube-probe", "kube-lifecycle");

/** The kubelet keeps this much of a probe's output. */
const MAX_OUTPUT_BYTES = 10 * 1024;
const MAX_REQUESTS = 10;
/**
 * After its timeout the runtime kills the command, but waits for children that hold its output open. We wait this much
 * longer.
 */
const EXEC_GRACE_MS = 5_000;

/** A JavaScript timer above 2^31-1 ms (about 25 days) fires at once; the API allows longer timeouts. */
const MAX_TIMER_MS = 2 ** 31 - 1 - EXEC_GRACE_MS;

export function createProbeExecutor(runtime: Pick<Runtime, "execSync">, userAgent: string): ProbeExecutor {
  const tryConnect = createTryTcpConnect();
  return async (call, container, { timeoutMs, signal }) => {
    const options = { timeoutMs: Math.min(timeoutMs, MAX_TIMER_MS), signal };
    switch (call.kind) {
      case "exec":
        return await runExec(runtime, container, call, options);
      case "httpGet":
        return await runHttp(call, options);
      case "tcpSocket":
        return tryConnect(call.host, call.port) ? success() : await runTcp(call.host, call.port, options);
      case "grpc":
        return await runGrpc(call, userAgent, options);
    }
  };
}

type HttpProbeRequest = Extract<ProbeRequest, { kind: "httpGet" }>;

const success = (message = ""): ProbeOutcome => ({ result: "success", message });
const failure = (message: string): ProbeOutcome => ({ result: "failure", message });

async function runExec(
  runtime: Pick<Runtime, "execSync">,
  id: ContainerId,
  { argv, specCommand }: Extract<ProbeRequest, { kind: "exec" }>,
  { timeoutMs, signal }: DialOptions,
): Promise<ProbeOutcome> {
  try {
    const limits = { signal, deadlineMs: timeoutMs + EXEC_GRACE_MS };
    const { stdout, stderr, exitCode } = await runtime.execSync(id, argv, timeoutMs / 1000, limits);
    const output = Buffer.concat([stdout.subarray(0, MAX_OUTPUT_BYTES), stderr.subarray(0, MAX_OUTPUT_BYTES)])
      .subarray(0, MAX_OUTPUT_BYTES)
      .toString();
    if (exitCode === 0) return success(output);
    return { ...failure(output), exitCode, stderr: Buffer.from(stderr.subarray(0, MAX_OUTPUT_BYTES)).toString() };
  } catch (error) {
    if (error instanceof CriError && error.code === "DEADLINE_EXCEEDED")
      return failure(
        `command timed out: ${JSON.stringify(specCommand.join(" "))} timed out after ${formatElapsed(timeoutMs)}`,
      );
    return { result: "error", message: messageOf(error) };
  }
}

async function runTcp(host: string, port: number, options: DialOptions): Promise<ProbeOutcome> {
  try {
    await dialTcp(host, port, options);
    return success();
  } catch (error) {
    return toFailure(
      error,
      (text) => `dial tcp ${authorityOf(host, port)}: ${text === TIMEOUT_MESSAGE ? "i/o timeout" : text}`,
    );
  }
}

async function runHttp(call: HttpProbeRequest, { timeoutMs, signal }: DialOptions): Promise<ProbeOutcome> {
  const { url, headers, acceptsAnyResponse } = call;
  const deadline = performance.now() + timeoutMs;
  let [at, sent] = [url, headers];
  // The API accepts any text as a host.
  if (!URL.canParse(url))
    return { result: "error", message: `"${url}" is not a URL: its host must be a name or an address` };
  try {
    for (let requests = 1; ; requests++) {
      const remainingMs = Math.max(1, deadline - performance.now());
      const answer = await httpGet(at, sent, MAX_OUTPUT_BYTES, { timeoutMs: remainingMs, signal });
      const next = redirectOf(at, answer);
      // A redirect to another host ends here: that host's response does not show this container's health.
      if (next === undefined || next.to.hostname !== new URL(url).hostname)
        return acceptsAnyResponse === true && next === undefined ? success(answer.body) : toHttpOutcome(answer);
      if (requests === MAX_REQUESTS) return failure(`Get "${next.to.href}": stopped after ${MAX_REQUESTS} redirects`);
      at = next.to.href;
      // An absolute redirect names its own host, so the Host header of the spec no longer applies.
      if (!next.isRelative) sent = sent.filter(([name]) => name.toLowerCase() !== "host");
    }
  } catch (error) {
    // Falls back once: a server that redirects from plain HTTP back to HTTPS gets no further request.
    const isPlainHttpServer = url.startsWith("https:") && error instanceof DialError && error.code === "ENOTTLS";
    const isBodyIncomplete = error instanceof DialError && error.code === "EUNFINISHED";
    // A hook has succeeded once its request was answered; the body does not matter.
    if (isBodyIncomplete && acceptsAnyResponse === true) return success();
    // Like the kubelet, a probe does not use a status whose body is incomplete.
    if (isBodyIncomplete) return { result: "error", eventResult: "failure", message: messageOf(error) };
    const remainingMs = Math.max(1, deadline - performance.now());
    const plainOutcome =
      isPlainHttpServer && acceptsAnyResponse === true
        ? await repeatInPlainText(call, { timeoutMs: remainingMs, signal })
        : undefined;
    return plainOutcome ?? toHttpFailure(at, error);
  }
}

/**
 * Old kubelets ignored a hook's scheme, so some manifests say HTTPS although the server speaks plain HTTP. Repeats the
 * request in plain HTTP without the Authorization header. Undefined if that fails too.
 */
async function repeatInPlainText(call: HttpProbeRequest, options: DialOptions): Promise<ProbeOutcome | undefined> {
  const url = call.url.replace(/^https:/, "http:");
  const headers = call.headers.filter(([name]) => name.toLowerCase() !== "authorization");
  const outcome = await runHttp({ ...call, url, headers }, options);
  if (outcome.result === "failure" || outcome.result === "error") return undefined;
  const [, plainHttpHost = ""] = /^http:\/\/([^/]*)/.exec(url) ?? [];
  return { ...outcome, plainHttpHost };
}

function toHttpFailure(url: string, error: unknown): ProbeOutcome {
  const { hostname, port, protocol } = new URL(url);
  const authority = `${hostname}:${port || (protocol === "https:" ? 443 : 80)}`;
  const code = error instanceof DialError ? error.code : "";
  const step = CONNECT_ERRORS.has(code)
    ? `dial tcp ${authority}: `
    : code === "ECONNRESET"
      ? `read tcp ${authority}: `
      : "";
  return toFailure(error, (text) => `Get "${url}": ${step}${text}`);
}

const CONNECT_ERRORS = new Set(["ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "ENOTFOUND"]);

/** The redirects that Go's HTTP client follows; other 3xx responses are returned as they are. */
const REDIRECTS = new Set([301, 302, 303, 307, 308]);

function redirectOf(
  url: string,
  { status, location }: HttpResponse,
): { readonly to: URL; readonly isRelative: boolean } | undefined {
  if (!REDIRECTS.has(status) || location === undefined || !URL.canParse(location, url)) return undefined;
  return { to: new URL(location, url), isRelative: !URL.canParse(location) };
}

function toHttpOutcome({ status, body }: HttpResponse): ProbeOutcome {
  if (status < 200 || status >= 400) return failure(`HTTP probe failed with statuscode: ${status}`);
  return status < 300
    ? success(body)
    : { result: "warning", message: `Probe terminated redirects, Response body: ${body}` };
}

async function runGrpc(
  { host, port, service }: Extract<ProbeRequest, { kind: "grpc" }>,
  userAgent: string,
  options: DialOptions,
): Promise<ProbeOutcome> {
  // Loaded on first use: few containers have gRPC probes.
  const { checkGrpcHealth, servingStatuses } = await import("../../../probe-net/grpc-health.ts");
  const within = formatElapsed(options.timeoutMs);
  try {
    const status = await checkGrpcHealth(host, port, { service, userAgent }, options);
    const name = servingStatuses[status] ?? String(status);
    return name === "SERVING" ? success() : failure(`service unhealthy (responded with "${name}")`);
  } catch (error) {
    if (!(error instanceof DialError) || error.code === "ECANCELED")
      return { result: "error", message: messageOf(error) };
    if (error.code === "UNIMPLEMENTED")
      return failure(
        `error: this server does not implement the grpc health protocol (grpc.health.v1.Health): ${error.message}`,
      );
    if (error.code === "DEADLINE_EXCEEDED") return failure(`timeout: health rpc did not complete within ${within}`);
    if (error.code === "ETIMEDOUT")
      return failure(
        `timeout: failed to connect service "${authorityOf(host, port)}" within ${within}: context deadline exceeded`,
      );
    return failure(`error: health rpc probe failed: ${formatRpcError({ code: error.code, details: error.message })}`);
  }
}

const TIMEOUT_MESSAGE = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";

/** A server that does not respond fails the probe; an aborted probe has the result "error". The messages are Go's. */
function toFailure(error: unknown, format: (text: string) => string): ProbeOutcome {
  if (!(error instanceof DialError) || error.code === "ECANCELED")
    return { result: "error", message: messageOf(error) };
  const textsByCode: Readonly<Record<string, string>> = {
    ECONNREFUSED: "connect: connection refused",
    EHOSTUNREACH: "connect: no route to host",
    ENETUNREACH: "connect: network is unreachable",
    ECONNRESET: "read: connection reset by peer",
    ETIMEDOUT: TIMEOUT_MESSAGE,
  };
  return failure(format(textsByCode[error.code] ?? error.message));
}

const authorityOf = (host: string, port: number) => `${host.includes(":") ? `[${host}]` : host}:${port}`;

/** An error's message; CRI errors get the "rpc error: …" form that the kubelet shows. */
function messageOf(error: unknown): string {
  if (error instanceof CriError) return formatRpcError(error);
  return error instanceof Error ? error.message : String(error);
}
