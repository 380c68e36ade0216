import type { CgroupPressure, CgroupStats, Pressure, PressureShare } from "../proto/cgroup/stats.ts";
import { type ReadFile, unreadable } from "./controller.ts";
import { CgroupError } from "./error.ts";

/**
 * Reads `cpu.pressure`, `memory.pressure` and `io.pressure`. A kernel without PSI has none of them; where PSI is turned off
 * (`psi=0`), they exist and cannot be read. Triggers are not armed: they are polled with POLLPRI, for which Bun needs a
 * thread of its own, and Kubernetes reports pressure without acting on it.
 */
export function readPressure(read: ReadFile): Pick<CgroupStats, "psi"> {
  const [cpu, memory, io] = RESOURCES.map((resource) => parsePressure(`${resource}.pressure`, read));
  const psi: CgroupPressure = { ...(cpu && { cpu }), ...(memory && { memory }), ...(io && { io }) };
  return Object.keys(psi).length === 0 ? {} : { psi };
}

const RESOURCES = ["cpu", "memory", "io"] as const;

function parsePressure(file: string, read: ReadFile): Pressure | undefined {
  const text = readUnlessOff(file, read);
  if (text === undefined) return undefined;
  const match = PRESSURE.exec(text);
  if (match === null) throw unreadable(file, text, "the lines of pressure");
  const [some10, some60, some300, someTotal, full10, full60, full300, fullTotal] = match.slice(1).map(Number);
  const share = (avg10 = 0, avg60 = 0, avg300 = 0, totalUs = 0): PressureShare => ({ avg10, avg60, avg300, totalUs });
  const some = share(some10, some60, some300, someTotal);
  return match[5] === undefined ? { some } : { some, full: share(full10, full60, full300, fullTotal) };
}

/** `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`, and in the next line the same of `full`. */
const SHARE = String.raw`avg10=([\d.]+) avg60=([\d.]+) avg300=([\d.]+) total=(\d+)`;
const PRESSURE = new RegExp(`^some ${SHARE}(?:\nfull ${SHARE})?$`);

function readUnlessOff(file: string, read: ReadFile): string | undefined {
  try {
    return read(file);
  } catch (error) {
    if (error instanceof CgroupError && error.code === "EOPNOTSUPP") return undefined;
    throw error;
  }
}
