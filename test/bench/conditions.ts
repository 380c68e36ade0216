import { loadavg } from "node:os";
import { execa } from "execa";
import { cpu, mem, osInfo, system } from "systeminformation";
import { describeForeignCpu, type ForeignCpu, percent } from "./foreign-cpu/foreign-cpu.ts";

/** A description of the machine and its operating system, for readers. */
export interface MachineDescription {
  /** The board, virtual machine or container. */
  readonly model: string;
  readonly system: string;
  readonly kernel: string;
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGB: number;
}

/** The conditions of a measurement, on which its figures depend. */
export interface Conditions extends MachineDescription {
  readonly date: string;
  /** As printed by `berth version`. */
  readonly berth: string;
  readonly containerd: string;
  /** A sentence about the number of repetitions. */
  readonly how: string;
  /** The share of CPU time that was in use before the measurement began. */
  readonly busyBefore: number;
  /** What others used of the CPUs during the measurement. Undefined in samples of runs without the watch. */
  readonly foreignCpu?: ForeignCpu;
  /** The load average of the last minute at the end. */
  readonly loadAfter: number;
}

export async function readConditions(
  binary: string,
  { containerd, how, busyBefore, foreignCpu }: Pick<Conditions, "containerd" | "how" | "busyBefore" | "foreignCpu">,
): Promise<Conditions> {
  const [{ stdout }, machine] = await Promise.all([execa(binary, ["version"]), describeThisMachine()]);
  return {
    date: new Date().toISOString().slice(0, 16).replace("T", " "),
    berth: stdout.replace(/^berth /, ""),
    containerd,
    ...machine,
    how,
    busyBefore,
    ...(foreignCpu !== undefined && { foreignCpu }),
    loadAfter: loadavg()[0] ?? Number.NaN,
  };
}

export async function describeThisMachine(): Promise<MachineDescription> {
  const [processor, memory, { distro, release, kernel }, { model }] = await Promise.all([
    cpu(),
    mem(),
    osInfo(),
    system(),
  ]);
  return {
    model,
    system: `${distro} ${release}`,
    kernel,
    cpu: `${processor.manufacturer} ${processor.brand}`.trim(),
    cores: processor.cores,
    memoryGB: Math.round(memory.total / 1e9),
  };
}

/** One sentence per line. */
export function describeConditions(conditions: Conditions): readonly string[] {
  const { date, berth, containerd, how, busyBefore, foreignCpu, loadAfter } = conditions;
  return [
    `Measured ${date} UTC: berth ${berth}, containerd ${containerd}, runc, bridge and portmap.`,
    describeMachine(conditions),
    how,
    `CPUs in use before: ${percent(busyBefore)}; load at the end: ${loadAfter.toFixed(2)}.`,
    foreignCpu === undefined ? "What other processes used meanwhile was not measured." : describeForeignCpu(foreignCpu),
  ];
}

function describeMachine({ model, system: name, kernel, cpu: processor, cores, memoryGB }: MachineDescription): string {
  return `${name}, Linux ${kernel}, ${cores} cores of ${processor}, ${memoryGB} GB${model === "" ? "" : ` (${model})`}.`;
}
