import { type Clock, sleepUnlessAborted } from "../../../host/clock.ts";
import { joinWithAnd } from "../../../proto/join-with-and.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { nearestName } from "../../../proto/nearest-name.ts";
import { ApiError } from "../api/api-error.ts";
import type { ApiResponse } from "../api/route.ts";
import { type ContainerLogs, UnreadableLogError } from "../logs/container-logs.ts";
import { parseLogOptions } from "../logs/log-options.ts";
import { defaultContainerOf } from "./default-container.ts";

export interface LocalLogsDeps {
  readonly containerLogs: ContainerLogs;
  readonly allPods: () => readonly Pod[];
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
    const all = deps.allPods();
    const pod = all.find(({ metadata }) => metadata.namespace === namespace && metadata.name === name);
    if (pod === undefined) throw new ApiError(404, unknownPodText(all, request));
    const container = query.get("container") || defaultContainerOf(pod);
    const names = containersOf(pod);
    if (!names.includes(container)) throw new ApiError(404, unknownContainerText(name, container, names));
    const options = parseLogOptions(query, deps.clock.now());
    const sent = deps.containerLogs.send(
      { namespace, pod: name, container, options, signal: request.signal },
      response,
    );
    const ended = sent.then(() => writer.close());
    ended.catch((error: unknown) => writer.abort(error));
    await Promise.race([sent, sleepUnlessAborted(deps.clock, STATUS_DELAY_MS, request.signal)]);
    return new Response(readable, { headers: { "content-type": "text/plain" } });
  } catch (error) {
    if (error instanceof ApiError) return new Response(error.message, { status: error.status });
    if (error instanceof UnreadableLogError) return new Response(error.message, { status: 500 });
    throw error;
  }
}

const containersOf = ({ spec }: Pod): readonly string[] =>
  [...spec.containers, ...(spec.initContainers ?? []), ...(spec.ephemeralContainers ?? [])].map(({ name }) => name);

const unknownContainerText = (pod: string, container: string, names: readonly string[]) =>
  `container ${JSON.stringify(container)} not found in pod ${JSON.stringify(pod)}; it has ${joinWithAnd(names)}`;

function unknownPodText(all: readonly Pod[], { namespace, pod }: LocalLogsRequest): string {
  const what = `no pod ${JSON.stringify(pod)} in namespace ${JSON.stringify(namespace)}`;
  const elsewhere = all.find(({ metadata }) => metadata.name === pod)?.metadata.namespace;
  if (elsewhere !== undefined) return `${what}; it is in another one: -n ${elsewhere}`;
  const names = all.flatMap(({ metadata }) => (metadata.namespace === namespace ? [metadata.name ?? ""] : []));
  // The names of static pods end with the node's.
  const nearest = names.find((name) => name.startsWith(`${pod}-`)) ?? nearestName(pod, names);
  return nearest === undefined ? `${what}; berth pods lists them` : `${what}, did you mean ${nearest}?`;
}
