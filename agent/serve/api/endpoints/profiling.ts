import type { Profiler } from "../../../../host/profiler.ts";
import { ApiError } from "../api-error.ts";
import { sendGoError, sendText } from "../api-response.ts";
import type { Route } from "../route.ts";

const MAX_SECONDS = 120;
const DEFAULT_SECONDS = 30;
const INDEX = `/debug/pprof/

heap              a heap snapshot of V8's format (.heapsnapshot), for Chrome's developer tools; needs the verb create.
                  The agent stands still while it is taken: seconds for a large heap
profile?seconds=N a CPU profile (.cpuprofile) of N seconds, 30 by default
`;

/** `/debug/pprof/`: the kubelet's paths with the formats of this program's engine. One profile is taken at a time. */
export function createProfilingRoutes({ heapSnapshot, memory, cpuProfile }: Profiler): readonly Route[] {
  let isProfiling = false;
  return [
    {
      pattern: "/debug/pprof/",
      methods: ["GET"],
      handle: async (_request, response) => sendText(response, 200, INDEX),
    },
    {
      pattern: "/debug/pprof/heap",
      methods: ["GET"],
      async handle(_request, response) {
        requireMemory(memory());
        sendText(response, 200, heapSnapshot(), download("berth.heapsnapshot"));
      },
    },
    {
      pattern: "/debug/pprof/profile",
      methods: ["GET"],
      async handle({ query, signal }, response) {
        const seconds = secondsOf(query.get("seconds"));
        if (isProfiling) throw new ApiError(429, "another CPU profile is being taken");
        isProfiling = true;
        try {
          sendText(response, 200, await cpuProfile(seconds * 1000, signal), download("berth.cpuprofile"));
        } finally {
          isProfiling = false;
        }
      },
    },
    {
      pattern: "/debug/pprof/{name...}",
      methods: ["GET"],
      handle: async (_request, response) => sendGoError(response, 404, "Unknown profile"),
    },
  ];
}

/** The snapshot, its text and the copy for the connection take about as much as the heap each. */
const SNAPSHOT_HEAPS = 3;

/** Throws `ApiError` 503: the kernel might end the agent. */
function requireMemory({ heapBytes, availableBytes }: ReturnType<Profiler["memory"]>): void {
  if (availableBytes >= SNAPSHOT_HEAPS * heapBytes) return;
  const [needed, available] = [SNAPSHOT_HEAPS * heapBytes, availableBytes].map((bytes) => Math.floor(bytes / 2 ** 20));
  throw new ApiError(503, `a heap snapshot needs ${needed} MiB of memory, and the node has ${available} MiB left`);
}

/** Throws `ApiError` 400. */
function secondsOf(text: string | null): number {
  if (text === null || text === "") return DEFAULT_SECONDS;
  const seconds = Number(text);
  if (Number.isInteger(seconds) && seconds > 0 && seconds <= MAX_SECONDS) return seconds;
  throw new ApiError(400, `seconds must be a whole number from 1 to ${MAX_SECONDS}`);
}

function download(name: string): Readonly<Record<string, string>> {
  return { "content-type": "application/octet-stream", "content-disposition": `attachment; filename="${name}"` };
}
