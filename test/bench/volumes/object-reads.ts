import type { ReceivedRequest } from "../../upstream/http2-gateway.ts";

/** One read of a Secret or ConfigMap that has passed through the gateway. Times are those of `performance.now`. */
export interface ObjectRead {
  /** A node watches an object and gets its present state first; `get` is a plain read of it. */
  readonly verb: "get" | "watch";
  readonly requestedAt: number;
  /** The arrival of the response, or of its part that completes the present state. */
  readonly answeredAt: number;
}

/** How long one pod's reads took, in milliseconds. */
export interface PodReads {
  /** From the agent's first request to the arrival of its last object. */
  readonly agentMs: number;
  /** The slowest of plain reads of the same objects, requested at once. */
  readonly slowestGetMs: number;
}

/** Notes the reads of Secrets and ConfigMaps at a gateway. */
export interface ReadRecorder {
  /** For the gateway: a part of the response to `request` has arrived. */
  onData(request: ReceivedRequest, chunk: Buffer): void;
  /** The reads since the previous call. A `get` is complete only when its client has the response. */
  take(): readonly ObjectRead[];
}

/** The annotation of the bookmark after the present state of what is watched (WatchList). */
const PRESENT_STATE_ENDS = '"k8s.io/initial-events-end":"true"';

const objectRead = /^GET \/api\/v1\/namespaces\/[^/]+\/(?:secrets|configmaps)(?:\/|\?.*\bwatch=true\b)/;

export function createReadRecorder(now: () => number): ReadRecorder {
  const texts = new Map<ReceivedRequest, string>();
  let reads = new Map<ReceivedRequest, ObjectRead>();
  const completed = new WeakSet<ReceivedRequest>();
  return {
    onData(request, chunk) {
      const { line, at: requestedAt } = request;
      if (!objectRead.test(line) || completed.has(request)) return;
      const read = { requestedAt, answeredAt: now() };
      if (!line.includes("watch=true")) {
        reads.set(request, { verb: "get", ...read });
        return;
      }
      const text = (texts.get(request) ?? "") + chunk.toString("latin1");
      texts.set(request, text);
      if (!text.includes(PRESENT_STATE_ENDS)) return;
      texts.delete(request);
      completed.add(request);
      reads.set(request, { verb: "watch", ...read });
    },
    take() {
      const taken = [...reads.values()];
      reads = new Map();
      return taken;
    },
  };
}

/** Throws unless both the agent and the plain reads have read `count` objects. */
export function podReadsOf(reads: readonly ObjectRead[], count: number): PodReads {
  const { watch = [], get = [] } = Object.groupBy(reads, ({ verb }) => verb);
  if (watch.length !== count || get.length !== count)
    throw new Error(`of ${count} objects the agent has read ${watch.length}, and ${get.length} were read plainly`);
  const last = Math.max(...watch.map(({ answeredAt }) => answeredAt));
  return {
    agentMs: last - Math.min(...watch.map(({ requestedAt }) => requestedAt)),
    slowestGetMs: Math.max(...get.map(({ requestedAt, answeredAt }) => answeredAt - requestedAt)),
  };
}
