import { type DelegateCall, decodeDelegateCall } from "../../../cni/delegate/delegate-call.ts";
import { toCniError, toErrorObject } from "../../../cni/delegate/error-object.ts";
import type { CallOutput } from "../../../cni/delegate/execute-call.ts";
import { CniError, cniCodes } from "../../../cni/error.ts";
import type { PluginCallRecord } from "../../../cni/plugin-calls.ts";
import type { Clock } from "../../../host/clock.ts";
import { toFilesError } from "../../../host/fs/files.ts";
import type { Log } from "../../../host/log/log.ts";
import { listenForRoot } from "../local/root-socket.ts";

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
  readonly clock: Clock;
  readonly log: Log;
}

export interface NetworkServer {
  /** Cancels the calls under way. The runtime deletes what they have made. */
  stop(): Promise<void>;
}

interface ListenOptions {
  readonly unix: string;
  readonly maxRequestBodySize: number;
  readonly fetch: (request: Request) => Promise<Response>;
}

/** A chain may take minutes. Bun's types allow this option only for ports, but it works for sockets. */
const neverIdle = { idleTimeout: 0 };
const MAX_BODY_BYTES = 1 << 20;

/**
 * Serves the delegate of a container runtime on a unix socket that only root may open: `POST /call` has one call as its body. The
 * answer is the result of CNI (200), or its error object (500). It authenticates no client beyond that: Bun gives no descriptor of
 * a connection of `Bun.serve`, so SO_PEERCRED cannot be read, and the kernel lets only root connect. Throws `FilesError` if the
 * socket cannot be created.
 */
export function serveNetwork(options: NetworkServerOptions): NetworkServer {
  const { path } = options;
  const stopped = new AbortController();
  const listenOptions: ListenOptions = {
    ...neverIdle,
    unix: path,
    maxRequestBodySize: MAX_BODY_BYTES,
    fetch: (request) => respond(request, options, stopped.signal),
  };
  try {
    const server = listenForRoot(path, () => Bun.serve(listenOptions));
    return {
      async stop() {
        stopped.abort();
        await server.stop(true);
      },
    };
  } catch (error) {
    throw toFilesError(path, error);
  }
}

async function respond(request: Request, options: NetworkServerOptions, stopped: AbortSignal): Promise<Response> {
  if (request.method !== "POST" || new URL(request.url).pathname !== "/call") {
    const notFound = new CniError(cniCodes.decodingFailure, "the agent answers POST /call alone");
    return Response.json(toErrorObject(notFound), { status: 404 });
  }
  try {
    const call = decodeDelegateCall(await request.text());
    return Response.json((await execute(call, options, request.signal, stopped)) ?? {});
  } catch (error) {
    return Response.json(toErrorObject(toCniError(error)), { status: 500 });
  }
}

/** Executes a call, and logs how long each plugin took. */
async function execute(
  call: DelegateCall,
  options: NetworkServerOptions,
  left: AbortSignal,
  stopped: AbortSignal,
): Promise<CallOutput> {
  const { clock, log } = options;
  const startedMs = clock.monotonicMs();
  const records: PluginCallRecord[] = [];
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
    const output = await options.execute(call, (record) => void records.push(record), signal, stopped);
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
