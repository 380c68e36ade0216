import { type AgentIdle, BATCH_SIZE, type FloorMeasurements, type StartAndRemoval } from "./floor/floor-rounds.ts";
import type { Round } from "./measure-rounds.ts";
import { type Measured, medianOf, percentile, percentileOf } from "./statistics.ts";

/** One row of the result. All its values are in `unit`. */
export interface Figure {
  readonly what: string;
  /** Empty for a plain number. */
  readonly unit: "ms" | "s" | "MB" | "%" | "B" | "";
  /** The raw runtime calls, if they were measured. */
  readonly floor?: Measured;
  /** The reference kubelet, if it was measured in the same run. */
  readonly peer?: Measured;
  readonly berth?: Measured;
  /** The target: as text, and as the number that follows from the floor or the kubelet of the same run. */
  readonly target?: { readonly words: string; readonly atMost: number };
}

/** Whether a figure reaches its target, compared after rounding as shown; undefined for a figure without a target. */
export function isTargetReached({ unit, berth, target }: Figure): boolean | undefined {
  if (berth === undefined || target === undefined) return undefined;
  return Number(formatValue(berth.value, unit)) <= Number(formatValue(target.atMost, unit));
}

const digits = { ms: 0, s: 2, MB: 1, "%": 2, B: 0, "": 0 } as const;

/** Formats a number without its unit. */
export const formatValue = (value: number, unit: Figure["unit"]): string => value.toFixed(digits[unit]);

/**
 * All figures of the comparison with the floor, in the order of the requirements: starts, removals, the agent's own
 * usage.
 */
export function floorFigures(measurements: FloorMeasurements): readonly Figure[] {
  return [...startFigures(measurements), ...removalFigures(measurements), ...agentFigures(measurements)];
}

type Pairs = FloorMeasurements["singles"];

/** One value of each round, for the floor and for the agent. */
const perRound = (pairs: Pairs, read: (one: StartAndRemoval) => number) => ({
  floor: pairs.map(({ floor }) => read(floor)),
  berth: pairs.map(({ agent }) => read(agent)),
});

const seconds = (ms: number) => ms / 1000;

function startFigures({ singles, batches, oneAtATime, fromNothing }: FloorMeasurements): readonly Figure[] {
  const one = perRound(singles, ({ start }) => start.wall);
  const p50 = { floor: percentileOf(one.floor, 0.5), berth: percentileOf(one.berth, 0.5) };
  return [
    { what: "one pod, p50", unit: "ms", ...p50, target: floorPlus(p50.floor, 10) },
    { what: "one pod, p99", unit: "ms", floor: percentileOf(one.floor, 0.99), berth: percentileOf(one.berth, 0.99) },
    batchFigure("wall", batches, ({ start }) => start.wall, 1.1),
    batchFigure("p50", batches, ({ start }) => percentile(start.each, 0.5), 1.1),
    batchFigure("p99", batches, ({ start }) => percentile(start.each, 0.99)),
    { what: `${BATCH_SIZE} pods, one at a time: wall`, unit: "s", floor: medianOf([seconds(oneAtATime.start.wall)]) },
    { what: "process start → first container", unit: "ms", floor: p50.floor, berth: medianOf(fromNothing) },
  ];
}

function removalFigures({ singles, batches, oneAtATime }: FloorMeasurements): readonly Figure[] {
  const one = perRound(singles, ({ removal }) => removal.wall);
  const p50 = { floor: percentileOf(one.floor, 0.5), berth: percentileOf(one.berth, 0.5) };
  const both = (what: string, read: (removal: Round) => number): Figure =>
    batchFigure(what, batches, ({ removal }) => read(removal));
  return [
    { what: "removal of one pod, p50", unit: "ms", ...p50, target: floorPlus(p50.floor, 30) },
    {
      what: "removal of one pod, p99",
      unit: "ms",
      floor: percentileOf(one.floor, 0.99),
      berth: percentileOf(one.berth, 0.99),
    },
    both("removal, wall", ({ wall }) => wall),
    both("removal, p50", ({ each }) => percentile(each, 0.5)),
    both("removal, p99", ({ each }) => percentile(each, 0.99)),
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
  const ofFloor = medianOf(floor);
  const figure = {
    what: `${BATCH_SIZE} pods at once, ${what}`,
    unit: "s",
    floor: ofFloor,
    berth: medianOf(berth),
  } as const;
  if (most === undefined) return figure;
  return { ...figure, target: { words: `${most} × the floor`, atMost: most * ofFloor.value } };
}

const floorPlus = (floor: Measured, ms: number) => ({ words: `floor + ${ms} ms`, atMost: floor.value + ms });

function agentFigures({ idleEmpty, idleFull, memoryAfter, batches, version }: FloorMeasurements): readonly Figure[] {
  const startCpu = medianOf(batches.map(({ agent }) => seconds(agent.startCpuMs)));
  const removalCpu = medianOf(batches.map(({ agent }) => seconds(agent.removalCpuMs)));
  return [
    ...idleFigures("without pods", idleEmpty, { cpu: 0.1, pss: 60 }),
    ...idleFigures(`with ${BATCH_SIZE} pods`, idleFull, { cpu: 0.15, pss: 75 }),
    { what: "PSS after all pods are gone", unit: "MB", berth: medianOf([megabytes(memoryAfter.pssBytes)]) },
    { what: `CPU for ${BATCH_SIZE} starts`, unit: "s", berth: startCpu, target: atMost(1.5, "s") },
    { what: `CPU for ${BATCH_SIZE} removals`, unit: "s", berth: removalCpu },
    { what: "`berth version`", unit: "ms", berth: medianOf(version), target: atMost(30, "ms") },
  ];
}

function idleFigures(
  when: string,
  { cpuMs, lastedMs, diskBytes, logBytes, memory }: AgentIdle,
  most: { readonly cpu: number; readonly pss: number },
): readonly Figure[] {
  const perMinute = (bytes: number) => medianOf([(bytes * 60_000) / lastedMs]);
  return [
    {
      what: `idle ${when}: CPU of one core`,
      unit: "%",
      berth: medianOf([(100 * cpuMs) / lastedMs]),
      target: atMost(most.cpu, "%"),
    },
    {
      what: `idle ${when}: PSS`,
      unit: "MB",
      berth: medianOf([megabytes(memory.pssBytes)]),
      target: atMost(most.pss, "MB"),
    },
    { what: `idle ${when}: RSS`, unit: "MB", berth: medianOf([megabytes(memory.rssBytes)]) },
    {
      what: `idle ${when}: to disk per minute`,
      unit: "B",
      berth: perMinute(diskBytes),
      target: atMost(0, "B"),
    },
    { what: `idle ${when}: log per minute`, unit: "B", berth: perMinute(logBytes), target: atMost(0, "B") },
  ];
}

const megabytes = (bytes: number) => bytes / 1e6;

const atMost = (limit: number, unit: Figure["unit"]) => ({ words: `${limit} ${unit}`, atMost: limit });
