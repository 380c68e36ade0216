import type { FloorRound } from "../cluster/cluster-rounds.ts";
import { type Figure, limit, tailRows } from "../figures.ts";
import { BATCH_SIZE } from "../floor/floor-rounds.ts";
import type { Goal } from "../goals.ts";
import { cpuPercentOf } from "../idle-windows.ts";
import type { Round } from "../measure-rounds.ts";
import { medianOf, pairsOf, percentile, sumOf } from "../statistics.ts";
import type { CallKind } from "./call-times.ts";
import type { CpuParts } from "./network-cpu.ts";
import type { IdleWindow } from "./network-idle.ts";
import type { NetworkSide } from "./network-nodes.ts";
import { IDLE_PODS, type IdleSide, type NetworkResult } from "./network-rounds.ts";

/**
 * All figures of the network of pods. Their `berth` is Berth with the built-in network, their `chain` Berth with the chain that the
 * runtime executes.
 */
export function networkFigures(result: NetworkResult): readonly Figure[] {
  return [
    ...networkCostFigures(result),
    ...runtimeCallFigures(result),
    ...singleFigures(result),
    ...batchFigures(result),
    ...removalFigures(result),
    ...idleFigures("without pods", result.idleEmpty),
    ...idleFigures(`with ${IDLE_PODS} pods`, result.idleWithPods),
  ];
}

const ratio = (to: "kubelet" | "floor" | "chain", atMost: number): Goal => ({ kind: "ratio", to, atMost });
const seconds = (ms: number) => ms / 1000;

function networkCostFigures({
  builtinCalls,
  networkCpuMs,
  networkCpuParts,
  singles,
}: NetworkResult): readonly Figure[] {
  const { ADD, DEL } = builtinCalls;
  const agentLessRuntimeMs = singles.delegate.map(
    ({ start }, at) => start.wall - (singles.chain[at]?.start.wall ?? Number.NaN),
  );
  return [
    {
      what: "ADD of the built-in network in the agent",
      unit: "ms",
      berth: medianOf(ADD),
      isSingle: true,
      goal: limit(2),
    },
    {
      what: "DEL of the built-in network in the agent",
      unit: "ms",
      berth: medianOf(DEL),
      isSingle: true,
      goal: limit(3),
    },
    {
      what: "CPU of agent, runtime and their children for the network of one sandbox, ADD and DEL",
      unit: "ms",
      chain: medianOf(networkCpuMs.chain),
      berth: medianOf(networkCpuMs.builtin),
      goal: ratio("chain", 0.35),
    },
    ...cpuPartFigures(networkCpuParts),
    {
      what: "one pod, created → Ready: the chain by the agent less the chain by the runtime",
      unit: "ms",
      berth: medianOf(agentLessRuntimeMs),
      isSingle: true,
      goal: limit(5),
    },
  ];
}

/** Where the CPU time goes. The differences of small numbers may be less than nothing. */
function cpuPartFigures(all: NetworkResult["networkCpuParts"]): readonly Figure[] {
  const row = (what: string, read: (cpu: CpuParts) => number): Figure => ({
    ...{ what: `of that: ${what}`, unit: "ms" },
    chain: medianOf(all.chain.map(read)),
    berth: medianOf(all.builtin.map(read)),
  });
  return [
    row("the agent", ({ agent }) => agent),
    row("the agent's children", ({ agentChildren }) => agentChildren),
    row("the runtime", ({ runtime }) => runtime),
    row("the runtime's children", ({ runtimeChildren }) => runtimeChildren),
  ];
}

/** How long the runtime's calls take for a pod, as the agents count them, and what of that the built-in plugin takes. */
function runtimeCallFigures({ calls, hostFloorSingles, floorSingles }: NetworkResult): readonly Figure[] {
  const timesOf = (side: NetworkSide, kind: CallKind) => calls[side].map((times) => times[kind]);
  const plugin = (verb: "ADD" | "DEL"): Figure => ({
    ...{ what: `${verb} of the built-in network in the agent, the plugin alone`, unit: "ms", isSingle: true },
    berth: medianOf(timesOf("builtin", `plugin${verb}`)),
  });
  const call = (what: string, kind: CallKind): Figure => ({
    ...{ what, unit: "ms", isSingle: true },
    ...{
      peer: medianOf(timesOf("kubelet", kind)),
      chain: medianOf(timesOf("chain", kind)),
      berth: medianOf(timesOf("builtin", kind)),
    },
  });
  const agentLessRuntime = (what: string, kind: CallKind, goal?: Goal): Figure => ({
    ...{ what: `${what}: the chain by the agent less the chain by the runtime`, unit: "ms", isSingle: true },
    ...(goal !== undefined && { goal }),
    berth: medianOf(pairsOf(timesOf("delegate", kind), timesOf("chain", kind), (own, other) => own - other)),
  });
  const floorLessHostNetwork = (read: (round: FloorRound) => number) =>
    medianOf(pairsOf(floorSingles.map(read), hostFloorSingles.map(read), (one, host) => one - host));
  return [
    plugin("ADD"),
    plugin("DEL"),
    call("RunPodSandbox of one pod", "runSandbox"),
    agentLessRuntime("RunPodSandbox of one pod", "runSandbox", limit(5)),
    call("StopPodSandbox of one pod", "stopSandbox"),
    agentLessRuntime("StopPodSandbox of one pod", "stopSandbox"),
    {
      ...{ what: "one pod of the floor, less one of the host's network: start", unit: "ms", isSingle: true },
      floor: floorLessHostNetwork(({ start }) => start.wall),
    },
    {
      ...{ what: "one pod of the floor, less one of the host's network: removal", unit: "ms", isSingle: true },
      floor: floorLessHostNetwork(({ removal }) => removal.wall),
    },
  ];
}

function singleFigures({ singles, floorSingles }: NetworkResult): readonly Figure[] {
  const ready = (rounds: readonly FloorRound[]) => rounds.map(({ start }) => start.wall);
  const gone = (rounds: readonly FloorRound[]) => rounds.map(({ removal }) => removal.wall);
  const row = (what: string, read: typeof ready, goal: Goal): Figure => ({
    ...{ what, unit: "ms", isSingle: true, goal },
    floor: medianOf(read(floorSingles)),
    chain: medianOf(read(singles.chain)),
    peer: medianOf(read(singles.kubelet)),
    berth: medianOf(read(singles.builtin)),
  });
  return [
    row("one pod, created → Ready", ready, ratio("kubelet", 0.8)),
    row("one pod, created → Ready, less than with the chain", ready, { kind: "overChain", atMost: -25 }),
    ...tailRows("one pod, created → Ready, p90", "ms", {
      ...{ floor: ready(floorSingles), peer: ready(singles.kubelet), berth: ready(singles.builtin) },
    }),
    row("one pod, deleted → gone", gone, ratio("kubelet", 0.2)),
    row("one pod, deleted → gone, over the floor", gone, { kind: "overFloor", atMost: 60 }),
  ];
}

function batchFigures({ batches }: NetworkResult): readonly Figure[] {
  type Batch = (typeof batches)["builtin"][number];
  const row = (what: string, read: (batch: Batch) => number, goal?: Goal): Figure => ({
    ...{ what, unit: "s" },
    peer: medianOf(batches.kubelet.map(read)),
    berth: medianOf(batches.builtin.map(read)),
    ...(goal !== undefined && { goal }),
  });
  const atOnce = `${BATCH_SIZE} pods at once`;
  return [
    row(`${atOnce}, created → Ready, wall`, ({ ready }) => seconds(ready.wall), ratio("kubelet", 0.8)),
    row(`${atOnce}, created → Ready, p50`, ({ ready }) => seconds(percentile(ready.each, 0.5)), ratio("kubelet", 0.45)),
    row(`${atOnce}, deleted → gone, p50`, ({ gone }) => seconds(percentile(gone.each, 0.5))),
    row(`CPU of the agent for ${BATCH_SIZE} starts`, ({ startCpuMs }) => seconds(startCpuMs), ratio("kubelet", 0.7)),
  ];
}

function removalFigures({ removals }: NetworkResult): readonly Figure[] {
  const p50 = (rounds: readonly Round[]) => medianOf(rounds.map(({ each }) => seconds(percentile(each, 0.5))));
  return [
    {
      what: `${BATCH_SIZE} pods deleted at once with grace 0, deleted → sandbox removed, p50`,
      unit: "s",
      floor: p50(removals.floor),
      berth: p50(removals.builtin),
      goal: ratio("floor", 1.15),
    },
  ];
}

const wakeUpsPerMinute = ({ wakeUps, lastedMs }: IdleWindow) => (wakeUps * 60_000) / lastedMs;

function idleFigures(when: string, periods: NetworkResult["idleEmpty"]): readonly Figure[] {
  const windows = {
    kubelet: periods.kubelet.ofStarts,
    chain: periods.chain.ofStarts,
    builtin: periods.builtin.ofStarts,
  };
  const row = (what: string, unit: Figure["unit"], read: (window: IdleWindow) => number, goal?: Goal): Figure => ({
    ...{ what: `idle ${when}: ${what}`, unit, ...(goal !== undefined && { goal }) },
    peer: medianOf(windows.kubelet.map(read)),
    chain: medianOf(windows.chain.map(read)),
    berth: medianOf(windows.builtin.map(read)),
  });
  const none: Goal = { kind: "total", atMost: 0 };
  const total = (side: IdleSide, read: (window: IdleWindow) => number) => sumOf(windows[side].map(read));
  const totalRow = (what: string, unit: Figure["unit"], read: (window: IdleWindow) => number): Figure => ({
    ...{ what: `idle ${when}: ${what}`, unit, goal: none },
    ...{ peer: total("kubelet", read), chain: total("chain", read), berth: total("builtin", read) },
  });
  return [
    row("CPU of the agent, of one core", "%", cpuPercentOf),
    row("wake-ups of threads a minute", "", wakeUpsPerMinute, ratio("chain", 1.1)),
    totalRow("to disk", "B", ({ diskBytes }) => diskBytes),
    totalRow("page faults of processes that the agent has started", "", ({ startedProcesses }) => startedProcesses),
  ];
}
