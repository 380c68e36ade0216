import { type AgentIdle, BATCH_SIZE, type FloorMeasurements, type StartAndRemoval } from "./floor/floor-rounds.ts";
import type { Goal } from "./goals.ts";
import { cpuPercentOf, type Periods, perMinute } from "./idle-windows.ts";
import type { Round } from "./measure-rounds.ts";
import { FEWEST_SAMPLES_OF_TAIL, type Measured, medianOf, percentile, percentileOf } from "./statistics.ts";

/** One row of the result. All its values are in `unit`. */
export interface Figure {
  readonly what: string;
  /** Empty for a plain number. */
  readonly unit: "ms" | "s" | "MB" | "%" | "B" | "";
  /** The raw runtime calls, if they were measured. */
  readonly floor?: Measured;
  /** Berth with the chain of plugins that the runtime executes, if the network was measured. */
  readonly chain?: Measured;
  /** The reference kubelet, if it was measured in the same run. */
  readonly peer?: Measured;
  readonly berth?: Measured;
  /** A tail, such as the 90th percentile, has no pairs, nor have samples of other turns: only the values are compared. */
  readonly isTail?: boolean;
  /** A number that was counted, over the whole time or in each period: only the values are compared. */
  readonly isCount?: boolean;
  /** Each sample is one pod, change or exit by itself, so sixty of them reach a goal, not five. */
  readonly isSingle?: boolean;
  readonly goal?: Goal;
}

/** The row of the 90th percentile, which needs 200 samples of each side; none without them. */
export function tailRows(
  what: string,
  unit: Figure["unit"],
  samples: Partial<Record<"floor" | "peer" | "berth", readonly number[]>>,
): readonly Figure[] {
  const sides = Object.entries(samples);
  if (sides.some(([, all]) => all.length < FEWEST_SAMPLES_OF_TAIL)) return [];
  return [
    { what, unit, isTail: true, ...Object.fromEntries(sides.map(([side, all]) => [side, percentileOf(all, 0.9)])) },
  ];
}

/**
 * All figures of the comparison with the floor, in the order of the requirements: starts, removals, the agent's own
 * usage.
 */
export function floorFigures(measurements: FloorMeasurements): readonly Figure[] {
  return [...startFigures(measurements), ...removalFigures(measurements), ...agentFigures(measurements)];
}

type Pairs = FloorMeasurements["singles"];

/** One value of each round, for the floor and for the agent. */
const perRound = <T>(pairs: Pairs, read: (one: StartAndRemoval) => T) => ({
  floor: pairs.map(({ floor }) => read(floor)),
  berth: pairs.map(({ agent }) => read(agent)),
});

const seconds = (ms: number) => ms / 1000;

function startFigures({ singles, batches, oneAtATime, fromNothing }: FloorMeasurements): readonly Figure[] {
  const one = perRound(singles, ({ start }) => start.wall);
  const each = perRound(batches, ({ start }) => start.each.map(seconds));
  const ofFloor = medianOf(one.floor);
  return [
    { what: "one pod", unit: "ms", floor: ofFloor, berth: medianOf(one.berth), isSingle: true, goal: overFloor(10) },
    ...tailRows("one pod, p90", "ms", one),
    batchFigure("wall", batches, ({ start }) => start.wall, 1.1),
    batchFigure("p50", batches, ({ start }) => percentile(start.each, 0.5), 1.1),
    ...tailRows(`${BATCH_SIZE} pods at once, p90`, "s", { floor: each.floor.flat(), berth: each.berth.flat() }),
    { what: `${BATCH_SIZE} pods, one at a time: wall`, unit: "s", floor: medianOf([seconds(oneAtATime.start.wall)]) },
    // The floor has no start of a process: its value is that of one pod.
    { what: "process start → first container", unit: "ms", floor: ofFloor, berth: medianOf(fromNothing), isTail: true },
  ];
}

function removalFigures({ singles, batches, oneAtATime }: FloorMeasurements): readonly Figure[] {
  const one = perRound(singles, ({ removal }) => removal.wall);
  const each = perRound(batches, ({ removal }) => removal.each.map(seconds));
  const both = (what: string, read: (removal: Round) => number): Figure =>
    batchFigure(what, batches, ({ removal }) => read(removal));
  return [
    {
      what: "removal of one pod",
      unit: "ms",
      floor: medianOf(one.floor),
      berth: medianOf(one.berth),
      isSingle: true,
      goal: overFloor(30),
    },
    ...tailRows("removal of one pod, p90", "ms", one),
    both("removal, wall", ({ wall }) => wall),
    both("removal, p50", (removal) => percentile(removal.each, 0.5)),
    ...tailRows(`${BATCH_SIZE} pods at once, removal, p90`, "s", {
      floor: each.floor.flat(),
      berth: each.berth.flat(),
    }),
    {
      what: `${BATCH_SIZE} pods removed one at a time: wall`,
      unit: "s",
      floor: medianOf([seconds(oneAtATime.removal.wall)]),
    },
  ];
}

/** A figure of the rounds with many pods at once, where the floor runs four calls in parallel. */
function batchFigure(what: string, batches: Pairs, read: (one: StartAndRemoval) => number, most?: number): Figure {
  const { floor, berth } = perRound(batches, (one) => seconds(read(one)));
  const figure = {
    what: `${BATCH_SIZE} pods at once, ${what}`,
    unit: "s",
    floor: medianOf(floor),
    berth: medianOf(berth),
  } as const;
  return most === undefined ? figure : { ...figure, goal: { kind: "ratio", to: "floor", atMost: most } };
}

const overFloor = (atMost: number): Goal => ({ kind: "overFloor", atMost });

/** A limit of Berth's own samples. */
export const limit = (atMost: number): Goal => ({ kind: "limit", atMost });

function agentFigures({ idleEmpty, idleFull, memoryAfter, batches, version }: FloorMeasurements): readonly Figure[] {
  const startCpu = medianOf(batches.map(({ agent }) => seconds(agent.startCpuMs)));
  const removalCpu = medianOf(batches.map(({ agent }) => seconds(agent.removalCpuMs)));
  return [
    ...idleFigures("without pods", idleEmpty, { cpu: 0.1, pss: 60 }),
    ...idleFigures(`with ${BATCH_SIZE} pods`, idleFull, { cpu: 0.15, pss: 75 }),
    { what: "PSS after all pods are gone", unit: "MB", berth: medianOf([megabytes(memoryAfter.pssBytes)]) },
    { what: `CPU of the agent for ${BATCH_SIZE} starts`, unit: "s", berth: startCpu, goal: limit(1.5) },
    { what: `CPU of the agent for ${BATCH_SIZE} removals`, unit: "s", berth: removalCpu },
    { what: "`berth version`", unit: "ms", berth: medianOf(version), isSingle: true, goal: limit(30) },
  ];
}

function idleFigures(
  when: string,
  periods: Periods<AgentIdle>,
  most: { readonly cpu: number; readonly pss: number },
): readonly Figure[] {
  const windows = periods.ofStarts;
  const row = (what: string, unit: Figure["unit"], read: (idle: AgentIdle) => number, goal?: Goal): Figure => ({
    what: `idle ${when}: ${what}`,
    unit,
    berth: medianOf(windows.map(read)),
    ...(goal !== undefined && { goal }),
  });
  const total = (what: string, read: (idle: AgentIdle) => number): Figure => ({
    ...{ what: `idle ${when}: ${what} per minute`, unit: "B", berth: perMinute(windows, read) },
    goal: { kind: "total", atMost: 0 },
  });
  return [
    row("CPU of the agent, of one core", "%", cpuPercentOf, limit(most.cpu)),
    row("PSS", "MB", ({ memory }) => megabytes(memory.pssBytes), limit(most.pss)),
    row("anonymous memory", "MB", ({ memory }) => megabytes(memory.anonymousBytes)),
    row("RSS", "MB", ({ memory }) => megabytes(memory.rssBytes)),
    total("to disk", ({ diskBytes }) => diskBytes),
    total("log", ({ logBytes }) => logBytes),
  ];
}

const megabytes = (bytes: number) => bytes / 1e6;
