import type { KernelLog } from "../../../host/kernel-log.ts";
import type { Log } from "../../../host/log/log.ts";
import { type OomReport, parseOomLine, systemOomEvent } from "../../decide/events/system-oom.ts";
import type { NodeEvent } from "../../decide/node/node-report.ts";

export interface SystemOomOptions {
  readonly kernelLog: KernelLog;
  readonly log: Log;
  /** Records a SystemOOM event: the machine ran out of memory and the kernel killed a process. */
  readonly recordEvent: (event: Omit<NodeEvent, "object">) => void;
}

/** Reports each system OOM kill in the kernel log until the signal aborts. Never rejects: pods run without it. */
export async function watchSystemOoms(
  { kernelLog, log, recordEvent }: SystemOomOptions,
  signal: AbortSignal,
): Promise<void> {
  let report: OomReport | undefined;

  function onMessage(message: string): void {
    const next = parseOomLine(message, report);
    report = next.report;
    const event = next.kill && systemOomEvent(next.kill);
    if (event === undefined) return;
    log.warn({ reason: event.reason }, event.message);
    recordEvent(event);
  }

  function onLoss(): void {
    // An incomplete OOM report of a cgroup could be mistaken for one of the system.
    report = undefined;
    log.debug({}, "kernel log messages were lost; an out-of-memory kill may be missing");
  }

  const consequence = "SystemOOM events will not be reported";
  try {
    await kernelLog.follow({ onMessage, onLoss }, signal);
    if (!signal.aborted) log.warn({}, `the kernel log has ended unexpectedly: ${consequence}`);
  } catch (error) {
    log.warn({ err: error }, `cannot read the kernel log: ${consequence}`);
  }
}
