import type { HealthCheck } from "./health.ts";

/** The figures that the checks of `/healthz` compare with their limit; read only when a client asks. */
export interface HealthFigures {
  /** How long the longest sync of a pod has been running, or the most overdue one has been due; milliseconds. */
  readonly longestSyncDelayMs: () => number;
  /** How long the log's output has taken no line; milliseconds. */
  readonly logBlockedMs: () => number;
}

/** Of LogHealthz. */
const LOG_LIMIT_MS = 120_000;
/** A sync waits for RunPodSandbox, which may take twice `runtimeRequestTimeout`: four minutes by default. The kubelet's limit is five minutes, too. */
const SYNC_LIMIT_MS = 300_000;

/**
 * The checks of the kubelet's `/healthz`, with its texts: LogHealthz of k8s.io/apiserver, whose limit is two minutes, and
 * SyncLoopHealthCheck in pkg/kubelet/kubelet.go. The kubelet's loop has a period that it can miss; here a sync can be late.
 */
export function createHealthChecks({ longestSyncDelayMs, logBlockedMs }: HealthFigures): readonly HealthCheck[] {
  return [
    { name: "ping", check() {} },
    {
      name: "log",
      check() {
        if (logBlockedMs() >= LOG_LIMIT_MS) throw new Error("logging blocked");
      },
    },
    {
      name: "syncloop",
      check() {
        if (longestSyncDelayMs() > SYNC_LIMIT_MS) throw new Error("sync Loop took longer than expected");
      },
    },
  ];
}
