import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";

/**
 * While processes wait for a processor, two thirds of the time do not count: machines of one kind differ by three times, and other
 * suites run at the same time.
 */
const STALL_SHARE = 2 / 3;

/** The pause between two polls, as a share of the time waited so far, and its bounds: a long wait leaves the processors to others. */
const PAUSE = { share: 1 / 20, leastMs: 10, mostMs: 100 };

/**
 * Polls `condition` every `everyMs`, without it the less often the longer it waits, until its result is neither false nor
 * undefined, and returns that result. For outside systems that send no event. Throws with `what` in the message after
 * `timeoutMs`, on a machine whose processors are all busy after at most three times that. `cpuStallMs` returns the time since
 * boot in which processes waited for a processor.
 */
export async function pollUntil<T>(
  what: string,
  timeoutMs: number,
  condition: () => Promise<T | false | undefined> | T | false | undefined,
  everyMs?: number,
  cpuStallMs = readCpuStallMs,
): Promise<T> {
  const startedMs = performance.now();
  const countedMs = startStopwatch({ cpuStallMs });
  for (;;) {
    const result = await condition();
    if (result !== false && result !== undefined) return result;
    const waitedMs = performance.now() - startedMs;
    if (waitedMs > timeoutMs && countedMs() > timeoutMs)
      throw new Error(`gave up after ${Math.round(waitedMs)} ms waiting for: ${what}`);
    await pause(everyMs ?? Math.min(Math.max(waitedMs * PAUSE.share, PAUSE.leastMs), PAUSE.mostMs));
  }
}

/**
 * Returns a function that returns how many milliseconds since this call count: all but two thirds of those in which processes
 * waited for a processor, as in {@link pollUntil}. For an upper bound on the work of a runtime or of a program. `afterMs` is the
 * time of a timer before that work; it counts in full, since a busy machine does not lengthen a timer.
 */
export function startStopwatch({ afterMs = 0, cpuStallMs = readCpuStallMs } = {}): () => number {
  const startedMs = performance.now();
  let stalledBeforeMs = afterMs === 0 ? cpuStallMs() : undefined;
  if (stalledBeforeMs === undefined)
    setTimeout(() => {
      stalledBeforeMs = cpuStallMs();
    }, afterMs).unref();
  return () => {
    const stalledMs = stalledBeforeMs === undefined ? 0 : cpuStallMs() - stalledBeforeMs;
    return performance.now() - startedMs - STALL_SHARE * stalledMs;
  };
}

/** As `AbortSignal.timeout`, but counts the time as {@link startStopwatch}. */
export function timeoutSignal(timeoutMs: number, cpuStallMs = readCpuStallMs): AbortSignal {
  const controller = new AbortController();
  const countedMs = startStopwatch({ cpuStallMs });
  const look = () => {
    const leftMs = timeoutMs - countedMs();
    if (leftMs > 0) setTimeout(look, Math.max(leftMs, PAUSE.mostMs)).unref();
    else controller.abort(new DOMException("The operation timed out.", "TimeoutError"));
  };
  look();
  return controller.signal;
}

/** The kernel's `some` total of /proc/pressure/cpu, in milliseconds (Documentation/accounting/psi.rst); 0 on a kernel without it. */
function readCpuStallMs(): number {
  try {
    return Number(/^some .*total=(\d+)$/m.exec(readFileSync("/proc/pressure/cpu", "utf8"))?.[1] ?? 0) / 1000;
  } catch {
    // Without pressure stall information all of the time counts.
    return 0;
  }
}
