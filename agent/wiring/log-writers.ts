import { createLogRotation, type LogRotation } from "../act/logs/log-rotation.ts";
import { createLogSymlinks, type LogSymlinks } from "../act/logs/log-symlinks.ts";
import type { AgentOptions } from "./agent.ts";

export interface LogWriters {
  readonly links: LogSymlinks;
  readonly logRotation: LogRotation;
}

/** What writes to the directories of container logs, beside the runtime. */
export function createLogWriters({ disk, log, runtime, clock, logRotation: settings }: AgentOptions): LogWriters {
  const links = createLogSymlinks(disk, log);
  const logRotation = settings && createLogRotation({ logs: disk.logs, runtime, clock, log, settings });
  return { links, logRotation: logRotation ?? noRotation };
}

const noRotation: LogRotation = { onObserved() {}, onPodFinished() {}, settled: async () => {}, stop() {} };
