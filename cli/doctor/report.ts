import { escapeControlChars } from "../../host/log/escape-control.ts";
import { sizeText } from "../../proto/size-text.ts";
import { hangingLines } from "../terminal-text.ts";
import type { Finding } from "./finding.ts";
import { hasProblem } from "./findings.ts";
import type { MachineFacts } from "./machine-facts.ts";

/** The JSON of `berth doctor -o json`. Scripts read it: fields are added and never renamed. */
export interface DoctorReport {
  /** Whether nothing stands in the way: the exit code is then 0. */
  readonly ok: boolean;
  readonly machine: MachineReport;
  readonly findings: readonly Finding[];
}

/** Fields that could not be read are left out. */
export interface MachineReport {
  readonly board?: string;
  readonly system?: string;
  readonly architecture?: string;
  readonly kernel?: string;
  readonly cpus?: number;
  readonly memoryBytes?: number;
  readonly cgroupVersion?: 1 | 2;
  readonly cgroupControllers?: readonly string[];
  readonly disks?: readonly { readonly name: string; readonly model: string; readonly sizeBytes: number }[];
  readonly temperatureCelsius?: number;
}

export function reportOf(facts: MachineFacts, findings: readonly Finding[]): DoctorReport {
  return { ok: !hasProblem(findings), machine: machineReport(facts), findings };
}

function machineReport({ machine, inventory, cgroupControllers }: MachineFacts): MachineReport {
  const known = "value" in machine ? machine.value : undefined;
  const found = "value" in inventory ? inventory.value : undefined;
  return {
    ...(found !== undefined && found.board !== "" && { board: found.board }),
    ...(known && {
      system: known.osImage,
      architecture: known.architecture,
      kernel: known.kernelVersion,
      cpus: known.cpuCount,
      memoryBytes: known.memoryBytes,
      cgroupVersion: known.hasCgroupV2 ? 2 : 1,
    }),
    ...("value" in cgroupControllers && { cgroupControllers: cgroupControllers.value }),
    ...(found && { disks: found.disks }),
    ...(found?.temperatureCelsius !== undefined && { temperatureCelsius: found.temperatureCelsius }),
  };
}

/**
 * The text of `berth doctor`: the machine, then what stands in the way, then the rest. `columns`: where lines break. `command`: the
 * command that checks the same agent again.
 */
export function reportText({ machine, findings }: DoctorReport, columns: number, command = "berth doctor"): string {
  const ordered = (["problem", "warning", "ok"] as const).flatMap((state) =>
    findings.filter((finding) => finding.state === state),
  );
  const nameWidth = Math.max(...findings.map(({ check }) => check.length));
  const lines = [
    ...table(machineRows(machine), columns),
    "",
    ...ordered.flatMap((finding) => findingLines(finding, nameWidth, columns)),
    "",
    summaryOf(findings, command),
  ];
  return `${lines.join("\n")}\n`;
}

type Row = readonly [name: string, text: string | undefined];

function machineRows(machine: MachineReport): readonly Row[] {
  const { board, system, architecture, kernel, cpus, memoryBytes, disks, temperatureCelsius } = machine;
  const { cgroupVersion, cgroupControllers = [] } = machine;
  const cgroups = cgroupVersion === undefined ? undefined : [`version ${cgroupVersion}`, cgroupControllers.join(" ")];
  // Disks and temperature are read together: without a temperature there is no sensor.
  const noTemperature = disks === undefined ? undefined : "no sensor";
  return [
    ["board", board],
    ["system", system === undefined ? undefined : `${system}, ${architecture}`],
    ["kernel", kernel],
    ["cgroups", cgroups?.filter((word) => word !== "").join(": ")],
    ["processors", cpus === undefined ? undefined : String(cpus)],
    ["memory", memoryBytes === undefined ? undefined : sizeText(memoryBytes)],
    ["disks", disks === undefined || disks.length === 0 ? undefined : disks.map(diskText).join(", ")],
    ["temperature", temperatureCelsius === undefined ? noTemperature : `${temperatureCelsius} °C`],
  ];
}

function diskText({ name, model, sizeBytes }: NonNullable<MachineReport["disks"]>[number]): string {
  return [name, sizeText(sizeBytes), model].filter((word) => word !== "").join(" ");
}

function table(rows: readonly Row[], columns: number): readonly string[] {
  const width = Math.max(...rows.map(([name]) => name.length)) + GAP.length;
  return rows.flatMap(([name, text]) =>
    hangingLines(name.padEnd(width), escapeControlChars(text ?? "unknown"), columns),
  );
}

const GAP = "  ";
const STATES = { problem: "PROBLEM", warning: "warning", ok: "ok" } as const;
const STATE_WIDTH = STATES.problem.length;

function findingLines({ check, state, what, cure }: Finding, nameWidth: number, columns: number): readonly string[] {
  const before = [STATES[state].padEnd(STATE_WIDTH), check.replaceAll("-", " ").padEnd(nameWidth), ""].join(GAP);
  const cureLines =
    cure === undefined ? [] : hangingLines(`${" ".repeat(before.length)}cure: `, escapeControlChars(cure), columns);
  return [...hangingLines(before, escapeControlChars(what), columns), ...cureLines];
}

function summaryOf(findings: readonly Finding[], command: string): string {
  const count = (state: Finding["state"], what: string) => {
    const many = findings.filter((finding) => finding.state === state).length;
    return `${many === 0 ? "no" : many} ${what}${many === 1 ? "" : "s"}`;
  };
  const counts = `${count("problem", "problem")}, ${count("warning", "warning")}`;
  return hasProblem(findings)
    ? `${counts}: the agent cannot run pods here yet. Cure the problems, then run ${command} again.`
    : `${counts}: nothing stands in the way of the agent.`;
}
