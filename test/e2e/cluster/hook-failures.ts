import type { Kill } from "./kills.ts";

/** A hook that failed, by the agent's log. */
export interface HookFailure {
  readonly what: "preStop" | "postStart";
  /** Namespace and name. */
  readonly pod: string;
  /** The time of the day in UTC, in milliseconds. The log has no date. */
  readonly timeOfDayMs: number;
}

const FAILURE =
  /^(\d\d):(\d\d):(\d\d\.\d+) warn +(?:the (preStop) hook has failed|failed to run the (postStart) hook).* pod=(\S+)/gm;

/** Reads the failures of hooks from the agent's log. */
export const readHookFailures = (log: string): readonly HookFailure[] =>
  [...log.matchAll(FAILURE)].map(([, hours, minutes, seconds, preStop, , pod = ""]) => ({
    what: preStop === undefined ? "postStart" : "preStop",
    pod,
    timeOfDayMs: (Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds)) * 1000,
  }));

/** The agent sees within this time that the runtime is away. */
const NOTICE_MS = 1_000;
const DAY_MS = 86_400_000;

/** Finds the kill of the runtime during which the hook failed. A kill of the agent fails no hook: the next agent repeats it. */
export const findCause = ({ timeOfDayMs }: HookFailure, kills: readonly Kill[]): Kill | undefined =>
  kills
    .filter(({ what }) => what === "runtime")
    .find(({ fromMs, untilMs }) => (timeOfDayMs - (fromMs % DAY_MS) + DAY_MS) % DAY_MS <= untilMs - fromMs + NOTICE_MS);
