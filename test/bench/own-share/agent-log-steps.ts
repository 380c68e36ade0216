import type { Step } from "./start-timeline.ts";

/** A line about a finished action: `12:01:07.123 info  make the log directory  pod=default/web uid=… ms=3`. */
const ACTION = /^(?<time>\d\d:\d\d:\d\d\.\d{3}) info +(?<what>.*?) {2}pod=\S+\/(?<pod>\S+) .*\bms=(?<ms>\d+)\b/;

/**
 * What Berth's log says of a start: each action of the pod has a line at its end, with its duration. Actions that are one
 * CRI call are left out, because the proxy notes those more precisely.
 */
export function agentLogSteps(
  log: string,
  name: string,
  { createdAt, readyAt }: { readonly createdAt: number; readonly readyAt: number },
  runtime: readonly Step[],
): readonly Step[] {
  const day = new Date(createdAt).toISOString().slice(0, 10);
  const isCall = ({ from, until }: Step) =>
    runtime.some((call) => from <= call.from + LOG_STEP_MS && until >= call.until - LOG_STEP_MS);
  return log
    .split("\n")
    .flatMap((line) => {
      const { time, what = "", pod, ms } = ACTION.exec(line)?.groups ?? {};
      if (time === undefined || pod !== name) return [];
      const until = Date.parse(`${day}T${time}Z`) - createdAt;
      return [{ of: "agent" as const, what, from: until - Number(ms), until }];
    })
    .filter((step) => step.from >= 0 && step.until <= readyAt - createdAt && !isCall(step));
}

/** The log has whole milliseconds. */
const LOG_STEP_MS = 2;
