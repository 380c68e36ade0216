import { loadavg } from "node:os";
import { execa } from "execa";
import { cpu, mem, osInfo, system } from "systeminformation";

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
  readonly load: { readonly before: number; readonly after: number };
}

/** The load average of the last minute. */
export const loadNow = (): number => loadavg()[0] ?? Number.NaN;

export async function readConditions(
  binary: string,
  containerd: string,
  how: string,
  load: Conditions["load"],
): Promise<Conditions> {
  const [{ stdout }, machine] = await Promise.all([execa(binary, ["version"]), describeThisMachine()]);
  return {
    date: new Date().toISOString().slice(0, 16).replace("T", " "),
    berth: stdout.replace(/^berth /, ""),
    containerd,
    ...machine,
    how,
    load,
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
  const { date, berth, containerd, how, load } = conditions;
  return [
    `Measured ${date} UTC: berth ${berth}, containerd ${containerd}, runc, bridge and portmap.`,
    describeMachine(conditions),
    how,
    `Load of the machine in the minute before: ${load.before.toFixed(2)}; at the end: ${load.after.toFixed(2)}.`,
  ];
}

function describeMachine({ model, system: name, kernel, cpu: processor, cores, memoryGB }: MachineDescription): string {
  return `${name}, Linux ${kernel}, ${cores} cores of ${processor}, ${memoryGB} GB${model === "" ? "" : ` (${model})`}.`;
}
