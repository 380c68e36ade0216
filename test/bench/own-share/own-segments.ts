import type { StartTimeline, Step } from "./step.ts";

/** A part of a start in which no CRI call for the pod is under way. */
export interface Segment {
  /** A request to the API server that the agent awaits, or what it does itself; undefined if no step says it. */
  readonly what: string | undefined;
  readonly isRequest: boolean;
  readonly from: number;
  readonly until: number;
}

/**
 * Cuts the time without a CRI call into the requests that the agent awaits and the steps in which it spends the rest. Of several
 * steps at once it is the one that is a call, or that began last.
 */
export function ownSegments({ shownMs, readyMs, steps }: StartTimeline): readonly Segment[] {
  const awaited = awaitedOf(steps);
  const edges = [shownMs, readyMs, ...steps.flatMap(({ from, until }) => [from, until])]
    .filter((edge) => edge >= shownMs && edge <= readyMs)
    .toSorted((a, b) => a - b);
  const segments: Segment[] = [];
  for (const [at, until] of edges.slice(1).entries()) {
    const from = edges[at] ?? until;
    const calls = awaited.filter((call) => covers(call, from, until));
    if (until <= from || calls.some(({ of }) => of === "runtime")) continue;
    const [request] = calls;
    const what = request === undefined ? nameOf(steps, awaited, from, until) : request.what;
    const last = segments.at(-1);
    if (last !== undefined && last.what === what && last.until === from)
      segments[segments.length - 1] = { ...last, until };
    else segments.push({ what, isRequest: request !== undefined, from, until });
  }
  return segments;
}

/** The name of the time after the last call, which is not the agent's. */
export const SHOWN = "the watch shows the pod Ready";

/** Whether a trace says what the agent does between the calls. */
export const isTraced = (steps: readonly Step[]): boolean => steps.some(({ of }) => of === "step");

/**
 * The calls that the agent waits for: for no event, and for a status only once it calls the runtime no more. Without a trace
 * everything that is known counts.
 */
function awaitedOf(steps: readonly Step[]): readonly Step[] {
  if (!isTraced(steps)) return steps;
  const isLast = ({ from }: Step) => !steps.some((step) => step.of === "runtime" && step.from >= from);
  const isAwaited = (request: Step) =>
    request.what !== "create events" && (request.what !== PATCH_STATUS || isLast(request));
  return steps.filter((step) => step.of === "runtime" || (step.of === "api" && isAwaited(step)));
}

/** As the audit log calls the request. */
export const PATCH_STATUS = "patch pods status";

const covers = (step: Step, from: number, until: number) => step.from <= from && step.until >= until;

function nameOf(steps: readonly Step[], awaited: readonly Step[], from: number, until: number): string | undefined {
  if (awaited.every((call) => call.until <= from)) return SHOWN;
  const step = steps
    .filter((each) => (each.of === "agent" || each.of === "step") && covers(each, from, until))
    .filter((each) => !isPatch(each) || !awaited.some((call) => call.of === "runtime" && call.from >= until))
    .toSorted((a, b) => rankOf(a, awaited) - rankOf(b, awaited) || a.from - b.from)
    .at(-1);
  return step && nameWithin(step, awaited, from, until);
}

const callOf = ({ what }: Step, awaited: readonly Step[]) => awaited.find((call) => call.what === what);

/** A patch of the status is held back for the next one while the start goes on: it explains no time before the last runtime call. */
const isPatch = ({ what }: Step) => what === PATCH_STATUS;

/** From lowest to highest: a patch of the status, a step, a call to the runtime, a part of what comes before that call (`CALL: PART`). */
function rankOf(step: Step, awaited: readonly Step[]): number {
  if (isPatch(step)) return 0;
  if (awaited.some(({ what }) => step.what.startsWith(`${what}: `))) return 3;
  return callOf(step, awaited) === undefined ? 1 : 2;
}

/** A step that is a call waits for that one alone; the others wait for the runtime. */
function nameWithin({ what, ...step }: Step, awaited: readonly Step[], from: number, until: number): string {
  const own = awaited.filter((call) => call.what === what);
  const calls = (own.length > 0 ? own : awaited.filter(({ of }) => of === "runtime")).filter(
    (call) => call.from >= step.from && call.from < step.until,
  );
  const next = calls.find((call) => call.from >= until);
  if (next !== undefined) return own.length > 0 ? `${what}: send the request` : `${what}, before ${next.what}`;
  const previous = calls.findLast((call) => call.until <= from);
  if (previous === undefined) return what;
  return own.length > 0 ? `${what}: receive the answer` : `${what}, after ${previous.what}`;
}
