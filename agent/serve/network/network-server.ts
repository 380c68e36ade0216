import { createServer, type IncomingMessage } from "node:http";
import { type DelegateCall, decodeDelegateCall, MAX_REQUEST_BYTES } from "../../../cni/delegate/delegate-call.ts";
import { toErrorObject } from "../../../cni/delegate/error-object.ts";
import type { CallOutput } from "../../../cni/delegate/execute-call.ts";
import { CniError, cniCodes } from "../../../cni/error.ts";
import type { PluginCallRecord } from "../../../cni/plugin-calls.ts";
import { toCniError } from "../../../cni/to-cni-error.ts";
import type { Clock } from "../../../host/clock.ts";
import type { Log } from "../../../host/log/log.ts";
import type { PodUid } from "../../../proto/ids.ts";
import { listenForOwnUser } from "../local/own-user-socket.ts";

export interface NetworkServerOptions {
  /** The path of the socket. */
  readonly path: string;
  /**
   * Executes a call, and calls `onCall` after each call of a plugin. `signal` aborts when the delegate leaves or the server stops,
   * `undoSignal` only when the server stops: until then the executor itself undoes an ADD whose delegate has left. The runtime may
   * have got no answer to its DEL, either, as long as this process was stopped. Rejects with `CniError`.
   */
  readonly execute: (
    call: DelegateCall,
    onCall: (record: PluginCallRecord) => void,
    signal: AbortSignal,
    undoSignal: AbortSignal,
  ) => Promise<CallOutput>;
  /** Called after each call of a plugin for a pod. */
  readonly onPluginCallFinished?: (uid: PodUid, call: PluginCallRecord) => void;
  readonly clock: Clock;
  readonly log: Log;
}

export interface NetworkServer {
  /** Cancels the calls under way. The runtime deletes what they have made. */
  stop(): Promise<void>;
}

/**
 * Serves the delegate of a container runtime on a unix socket for root alone: `POST /call` has one call as its body. The
 * answer is the result of CNI (200), or its error object (500, or 404 for another path). Rejects with `FilesError` if the
 * socket cannot be created.
 */
export async function serveNetwork(options: NetworkServerOptions): Promise<NetworkServer> {
  const { path, log } = options;
  const stopped = new AbortController();
  const server = createServer((request, response) => {
    const left = new AbortController();
    response.once("close", () => left.abort());
    void respond(request, options, { left: left.signal, stopped: stopped.signal }).then(({ status, body }) => {
      const text = JSON.stringify(body);
      response.writeHead(status, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(text) });
      response.end(text);
    });
  });
  const socket = await listenForOwnUser(path, server, log);
  return {
    async stop() {
      stopped.abort();
      await socket.close();
    },
  };
}

interface Answer {
  readonly status: 200 | 404 | 500;
  readonly body: object;
}

/** `left` aborts when the delegate leaves, `stopped` when the server stops. */
interface CallSignals {
  readonly left: AbortSignal;
  readonly stopped: AbortSignal;
}

/** Never rejects. */
async function respond(request: IncomingMessage, options: NetworkServerOptions, signals: CallSignals): Promise<Answer> {
  if (request.method !== "POST" || request.url !== "/call") {
    const notFound = new CniError(cniCodes.decodingFailure, "the agent answers POST /call alone");
    return { status: 404, body: toErrorObject(notFound) };
  }
  try {
    const call = decodeDelegateCall(await readBody(request));
    return { status: 200, body: (await execute(call, options, signals)) ?? {} };
  } catch (error) {
    return { status: 500, body: toErrorObject(toCniError(error)) };
  }
}

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > MAX_REQUEST_BYTES)
      throw new CniError(cniCodes.decodingFailure, `the request is longer than ${MAX_REQUEST_BYTES} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

/** Executes a call, and logs how long each plugin took. */
async function execute(
  call: DelegateCall,
  options: NetworkServerOptions,
  { left, stopped }: CallSignals,
): Promise<CallOutput> {
  const { clock, log } = options;
  const startedMs = clock.monotonicMs();
  const records: PluginCallRecord[] = [];
  const uid = call.attachment.args.get("K8S_POD_UID");
  const onCall = (record: PluginCallRecord) => {
    records.push(record);
    if (uid !== undefined) options.onPluginCallFinished?.(uid as PodUid, record);
  };
  const finish = (error?: unknown) =>
    log.debug(
      {
        ...podOf(call),
        durationMs: roundMs(clock.monotonicMs() - startedMs),
        plugins: records
          .map(({ verb, plugin, durationMs }) => `${verb} ${plugin} ${roundMs(durationMs)} ms`)
          .join(", "),
        ...(error !== undefined && { err: error }),
      },
      `network ${call.verb}`,
    );
  try {
    const signal = AbortSignal.any([left, stopped]);
    const output = await options.execute(call, onCall, signal, stopped);
    finish();
    return output;
  } catch (error) {
    finish(error);
    throw error;
  }
}

/** The pod in the runtime's arguments, and its sandbox. */
function podOf({ attachment: { containerId, ifName, args } }: DelegateCall) {
  return {
    namespace: args.get("K8S_POD_NAMESPACE"),
    pod: args.get("K8S_POD_NAME"),
    sandbox: containerId,
    interface: ifName,
  };
}

const roundMs = (ms: number) => Number(ms.toFixed(1));
