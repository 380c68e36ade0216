// Watches the CPU time of foreign processes for the benchmark, in a process of its own, so that it delays no measurement. argv has the
// benchmark's pid and marker. Answers each message with the samples since the previous one.
import { readFileSync } from "node:fs";
import { cpuTimes } from "../quiet-machine.ts";
import type { CpuSample } from "./foreign-cpu.ts";
import { createForeignProcesses } from "./foreign-processes.ts";
import { procTable } from "./process-table.ts";

const PERIOD_MS = 2_000;

const [root = "", marker = ""] = process.argv.slice(2);
const foreign = createForeignProcesses({ table: procTable, root: Number(root), marker });
const readTimes = () => cpuTimes(readFileSync("/proc/stat", "utf8"));
let before = readTimes();
let samples: CpuSample[] = [];
foreign.next();

function sample(): void {
  const after = readTimes();
  const ms = (read: (times: typeof after) => number) => 10 * (read(after) - read(before));
  samples.push({ totalMs: ms(({ total }) => total), stealMs: ms(({ stolen }) => stolen), foreign: foreign.next() });
  before = after;
}

setInterval(sample, PERIOD_MS);
process.on("message", () => {
  sample();
  process.send?.(samples);
  samples = [];
});
process.on("disconnect", () => process.exit(0));
