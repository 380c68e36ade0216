import { asRpcError, CriError } from "../../../cri/error.ts";
import type { Runtime } from "../../../cri/runtime.ts";
import { DialError, type DialOptions, dialTcp, type HttpAnswer, httpGet } from "../../../probe-net/http.ts";
import { createKnock } from "../../../probe-net/tcp-connect.ts";
import type { ContainerId } from "../../../proto/ids.ts";
import { kubernetesVersion } from "../../../proto/kubernetes/version.ts";
import type { ProbeOutcome } from "../../decide/container/probe.ts";
import { formatGoDuration } from "../../decide/go-duration.ts";
import type { Enquiry } from "../../translate/probe-request.ts";

/** Asks one container once, as a probe or a hook does. Never rejects. */
export type Ask = (call: Enquiry, container: ContainerId, options: DialOptions) => Promise<ProbeOutcome>;

/** Who asks, as the kubelet says it. */
export const probeUserAgent = `kube-probe/${kubernetesVersion.replace(/^v(\d+\.\d+).*$/, "$1")}`;

/** Whose hook it is, as the kubelet says it. */
export const hookUserAgent = probeUserAgent.replace("kube-probe", "kube-lifecycle");

/** As much of an answer as anybody is shown; the kubelet's limit. */
const LARGEST_ANSWER_BYTES = 10 * 1024;
const MOST_REQUESTS = 10;
/** A runtime ends a command that takes too long, but waits for whoever holds its output open: a child, say. It is waited for so long. */
const LATEST_END_MS = 5_000;

/** The longest that a timer can wait, which is three weeks: asked for more it rings at once. The API takes more. */
const LONGEST_TIMER_MS = 2 ** 31 - 1 - LATEST_END_MS;

export function createAsk(runtime: Pick<Runtime, "execSync">, userAgent: string): Ask {
  const knock = createKnock();
  return async (call, container, { timeoutMs, signal }) => {
    const options = { timeoutMs: Math.min(timeoutMs, LONGEST_TIMER_MS), signal };
    switch (call.kind) {
      case "exec":
        return await runExec(runtime, container, call, options);
      case "httpGet":
        return await runHttp(call, options);
      case "tcpSocket":
        return knock(call.host, call.port) ? success() : await runTcp(call.host, call.port, options);
      case "grpc":
        return await runGrpc(call, userAgent, options);
    }
  };
}

type HttpEnquiry = Extract<Enquiry, { kind: "httpGet" }>;

const success = (message = ""): ProbeOutcome => ({ result: "success", message });
const failure = (message: string): ProbeOutcome => ({ result: "failure", message });

async function runExec(
  runtime: Pick<Runtime, "execSync">,
  id: ContainerId,
  { argv, written }: Extract<Enquiry, { kind: "exec" }>,
  { timeoutMs, signal }: DialOptions,
): Promise<ProbeOutcome> {
  try {
    const limits = { signal, deadlineMs: timeoutMs + LATEST_END_MS };
    const { stdout, stderr, exitCode } = await runtime.execSync(id, argv, timeoutMs / 1000, limits);
    const output = Buffer.concat([stdout.subarray(0, LARGEST_ANSWER_BYTES), stderr.subarray(0, LARGEST_ANSWER_BYTES)])
      .subarray(0, LARGEST_ANSWER_BYTES)
      .toString();
    if (exitCode === 0) return success(output);
    return { ...failure(output), exitCode, stderr: Buffer.from(stderr.subarray(0, LARGEST_ANSWER_BYTES)).toString() };
  } catch (error) {
    if (error instanceof CriError && error.code === "DEADLINE_EXCEEDED")
      return failure(
        `command timed out: ${JSON.stringify(written.join(" "))} timed out after ${formatGoDuration(timeoutMs)}`,
      );
    return { result: "error", message: wordsOf(error) };
  }
}

async function runTcp(host: string, port: number, options: DialOptions): Promise<ProbeOutcome> {
  try {
    await dialTcp(host, port, options);
    return success();
  } catch (error) {
    return refusal(error, (words) => `dial tcp ${authorityOf(host, port)}: ${words === LATE ? "i/o timeout" : words}`);
  }
}

async function runHttp(call: HttpEnquiry, { timeoutMs, signal }: DialOptions): Promise<ProbeOutcome> {
  const { url, headers, takesAnyAnswer } = call;
  const deadline = performance.now() + timeoutMs;
  let [at, sent] = [url, headers];
  // The API takes any text for a host.
  if (!URL.canParse(url))
    return { result: "error", message: `"${url}" is not a URL: its host has to be a name or an address` };
  try {
    for (let requests = 1; ; requests++) {
      const left = Math.max(1, deadline - performance.now());
      const answer = await httpGet(at, sent, LARGEST_ANSWER_BYTES, { timeoutMs: left, signal });
      const next = redirectOf(at, answer);
      // Somebody else's answer says nothing of this container.
      if (next === undefined || next.to.hostname !== new URL(url).hostname)
        return takesAnyAnswer === true && next === undefined ? success(answer.body) : judge(answer);
      if (requests === MOST_REQUESTS) return failure(`Get "${next.to.href}": stopped after ${MOST_REQUESTS} redirects`);
      at = next.to.href;
      // The host that the spec names is one of the server that it asks for.
      if (!next.isRelative) sent = sent.filter(([name]) => name.toLowerCase() !== "host");
    }
  } catch (error) {
    // Once: who leads from plain HTTP back to HTTPS is asked no more.
    const isPlain = url.startsWith("https:") && error instanceof DialError && error.code === "ENOTTLS";
    const isUnfinished = error instanceof DialError && error.code === "EUNFINISHED";
    // Who calls a hook has been heard, whatever comes behind the status.
    if (isUnfinished && takesAnyAnswer === true) return success();
    // As with the kubelet: the status is not judged without its body.
    if (isUnfinished) return { result: "error", verdict: "failure", message: wordsOf(error) };
    const left = Math.max(1, deadline - performance.now());
    const inPlainText =
      isPlain && takesAnyAnswer === true ? await askInPlainText(call, { timeoutMs: left, signal }) : undefined;
    return inPlainText ?? refusalOfHttp(at, error);
  }
}

/**
 * Manifests from when nobody looked at the scheme of a hook ask for HTTPS where plain HTTP is served. What proves who asks is not sent
 * that way. Undefined where this is not answered either.
 */
async function askInPlainText(call: HttpEnquiry, options: DialOptions): Promise<ProbeOutcome | undefined> {
  const url = call.url.replace(/^https:/, "http:");
  const headers = call.headers.filter(([name]) => name.toLowerCase() !== "authorization");
  const outcome = await runHttp({ ...call, url, headers }, options);
  if (outcome.result === "failure" || outcome.result === "error") return undefined;
  const [, askedInPlainText = ""] = /^http:\/\/([^/]*)/.exec(url) ?? [];
  return { ...outcome, askedInPlainText };
}

function refusalOfHttp(url: string, error: unknown): ProbeOutcome {
  const { hostname, port, protocol } = new URL(url);
  const authority = `${hostname}:${port || (protocol === "https:" ? 443 : 80)}`;
  const code = error instanceof DialError ? error.code : "";
  const step = NOT_REACHED.has(code)
    ? `dial tcp ${authority}: `
    : code === "ECONNRESET"
      ? `read tcp ${authority}: `
      : "";
  return refusal(error, (words) => `Get "${url}": ${step}${words}`);
}

const NOT_REACHED = new Set(["ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "ENOTFOUND"]);

/** The redirects that an HTTP client follows; any other answer of three hundred and more is only an answer. */
const REDIRECTS = new Set([301, 302, 303, 307, 308]);

function redirectOf(
  url: string,
  { status, location }: HttpAnswer,
): { readonly to: URL; readonly isRelative: boolean } | undefined {
  if (!REDIRECTS.has(status) || location === undefined || !URL.canParse(location, url)) return undefined;
  return { to: new URL(location, url), isRelative: !URL.canParse(location) };
}

function judge({ status, body }: HttpAnswer): ProbeOutcome {
  if (status < 200 || status >= 400) return failure(`HTTP probe failed with statuscode: ${status}`);
  return status < 300
    ? success(body)
    : { result: "warning", message: `Probe terminated redirects, Response body: ${body}` };
}

async function runGrpc(
  { host, port, service }: Extract<Enquiry, { kind: "grpc" }>,
  userAgent: string,
  options: DialOptions,
): Promise<ProbeOutcome> {
  // Loaded only where it is used: few containers are asked by gRPC.
  const { checkGrpcHealth, servingStatuses } = await import("../../../probe-net/grpc-health.ts");
  const within = formatGoDuration(options.timeoutMs);
  try {
    const status = await checkGrpcHealth(host, port, { service, userAgent }, options);
    const name = servingStatuses[status] ?? String(status);
    return name === "SERVING" ? success() : failure(`service unhealthy (responded with "${name}")`);
  } catch (error) {
    if (!(error instanceof DialError) || error.code === "ECANCELED")
      return { result: "error", message: wordsOf(error) };
    if (error.code === "UNIMPLEMENTED")
      return failure(
        `error: this server does not implement the grpc health protocol (grpc.health.v1.Health): ${error.message}`,
      );
    if (error.code === "DEADLINE_EXCEEDED") return failure(`timeout: health rpc did not complete within ${within}`);
    if (error.code === "ETIMEDOUT")
      return failure(
        `timeout: failed to connect service "${authorityOf(host, port)}" within ${within}: context deadline exceeded`,
      );
    return failure(`error: health rpc probe failed: ${asRpcError({ code: error.code, details: error.message })}`);
  }
}

const LATE = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";

/** A server that does not answer fails the probe; a probe that was given up says nothing. In the words that Go has for it. */
function refusal(error: unknown, sentence: (words: string) => string): ProbeOutcome {
  if (!(error instanceof DialError) || error.code === "ECANCELED") return { result: "error", message: wordsOf(error) };
  const words: Readonly<Record<string, string>> = {
    ECONNREFUSED: "connect: connection refused",
    EHOSTUNREACH: "connect: no route to host",
    ENETUNREACH: "connect: network is unreachable",
    ECONNRESET: "read: connection reset by peer",
    ETIMEDOUT: LATE,
  };
  return failure(sentence(words[error.code] ?? error.message));
}

const authorityOf = (host: string, port: number) => `${host.includes(":") ? `[${host}]` : host}:${port}`;

/** Of the runtime's errors as users know them from the kubelet. */
function wordsOf(error: unknown): string {
  if (error instanceof CriError) return asRpcError(error);
  return error instanceof Error ? error.message : String(error);
}
