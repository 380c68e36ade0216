import type { KernelLog } from "../../../host/kernel-log.ts";
import type { Log } from "../../../host/log.ts";
import { hearOfOom, type OomReport, systemOomEvent } from "../../decide/events/system-oom.ts";
import type { NodeEvent } from "../../decide/node/node-report.ts";

export interface SystemOomParts {
  readonly kernelLog: KernelLog;
  readonly log: Log;
  /** The machine has run out of memory, and the kernel has killed for it. */
  readonly tell: (event: Omit<NodeEvent, "object">) => void;
}

/** Tells of each time that the machine runs out of memory, until the signal aborts. Never rejects: pods run without it. */
export async function followSystemOoms({ kernelLog, log, tell }: SystemOomParts, signal: AbortSignal): Promise<void> {
  let report: OomReport | undefined;

  function heard(message: string): void {
    const next = hearOfOom(message, report);
    report = next.report;
    const event = next.kill && systemOomEvent(next.kill);
    if (event === undefined) return;
    log.warn({ reason: event.reason }, event.message);
    tell(event);
  }

  function lost(): void {
    // Half a report would be taken for one of the machine.
    report = undefined;
    log.debug({}, "the kernel has said more at once than it keeps");
  }

  const untold = "nobody will be told when this machine runs out of memory (SystemOOM)";
  try {
    await kernelLog.follow({ heard, lost }, signal);
    if (!signal.aborted) log.warn({}, `the kernel's log has come to an end, which it never should: ${untold}`);
  } catch (error) {
    log.warn({ err: error }, `the kernel's log cannot be read: ${untold}`);
  }
}
