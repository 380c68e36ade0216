import { type Clock, sleepUnlessAborted } from "../../../host/clock.ts";
import { allContainers, containerNamed } from "../../../proto/kubernetes/containers.ts";
import { ApiError } from "../api/api-error.ts";
import type { ApiResponse } from "../api/route.ts";
import { type ContainerLogs, UnreadableLogError } from "../logs/container-logs.ts";
import { parseLogOptions } from "../logs/log-options.ts";
import { DEFAULT_CONTAINER, defaultContainerOf } from "./default-container.ts";
import { unknownContainerText } from "./unknown-container.ts";
import { type KnownPods, unknownPodText } from "./unknown-pod.ts";

export interface LocalLogsDeps {
  readonly containerLogs: ContainerLogs;
  readonly knownPods: () => KnownPods;
  readonly clock: Clock;
}

/** What `berth logs` asks for. Without a container it is the pod's default one. */
export interface LocalLogsRequest {
  readonly namespace: string;
  readonly pod: string;
  /** The query of the node's API, and `container`. */
  readonly query: URLSearchParams;
  readonly signal: AbortSignal;
}

/** How long the answer's status waits for an error, which comes at once if at all. */
const STATUS_DELAY_MS = 200;

/**
 * Answers `berth logs`. Unlike the node's API, it answers an error if a log cannot be read, and suggests a name if the pod or
 * the container does not exist.
 */
export async function answerLogs(deps: LocalLogsDeps, request: LocalLogsRequest): Promise<Response> {
  const { namespace, pod: name, query } = request;
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  const writer = writable.getWriter();
  const response: ApiResponse = {
    start() {},
    write: (piece) => writer.write(Buffer.from(piece as string)),
    end() {},
  };
  try {
    const known = deps.knownPods();
    const pod = known.pods.find(({ metadata }) => metadata.namespace === namespace && metadata.name === name);
    if (pod === undefined) throw new ApiError(404, unknownPodText(known, namespace, name));
    const given = query.get("container");
    const container = given || defaultContainerOf(pod);
    if (containerNamed(pod, container) === undefined) throw new ApiError(404, unknownContainerText(pod, container));
    const options = parseLogOptions(query, deps.clock.now());
    const sent = deps.containerLogs.send(
      { namespace, pod: name, container, options, signal: request.signal },
      response,
    );
    const ended = sent.then(() => writer.close());
    ended.catch((error: unknown) => writer.abort(error));
    await Promise.race([sent, sleepUnlessAborted(deps.clock, STATUS_DELAY_MS, request.signal)]);
    const names = allContainers(pod.spec).map((each) => each.name);
    const isChoice = !given && names.length > 1;
    const choice = isChoice ? { [DEFAULT_CONTAINER]: `${JSON.stringify(container)} out of: ${names.join(", ")}` } : {};
    return new Response(readable, { headers: { "content-type": "text/plain", ...choice } });
  } catch (error) {
    if (error instanceof ApiError) return new Response(error.message, { status: error.status });
    if (error instanceof UnreadableLogError) return new Response(error.message, { status: 500 });
    throw error;
  }
}
