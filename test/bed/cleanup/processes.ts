import { readdir, readFile } from "node:fs/promises";
import { ifAbsent } from "../if-absent.ts";

export interface RunningProcess {
  readonly pid: number;
  readonly parent: number;
  /** The process group, which is the pid of its leader. */
  readonly group: number;
  readonly argv: readonly string[];
}

/**
 * Options that start a program in its own process group. A terminal sends Ctrl-C to all processes of a group; only the
 * script itself must receive it, so that the clean-up runs in order.
 */
export const ownProcessGroup = { detached: true } as const;

/** All processes of the machine except zombies. Kernel threads have an empty `argv`. */
export async function listProcesses(): Promise<readonly RunningProcess[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number);
  const found = await Promise.all(pids.map(readProcess));
  return found.filter((one) => one !== undefined);
}

/** The start time of a process, in clock ticks since boot as text; undefined if it has ended or is a zombie. */
export async function processStart(pid: number): Promise<string | undefined> {
  const fields = await statFields(pid);
  return fields?.[0] === "Z" ? undefined : fields?.[19];
}

/** `roots` and all their descendants. */
export function withDescendants(all: readonly RunningProcess[], roots: readonly number[]): ReadonlySet<number> {
  const descendants = new Set(roots);
  for (let size = -1; size !== descendants.size; ) {
    size = descendants.size;
    for (const { pid, parent } of all) if (descendants.has(parent)) descendants.add(pid);
  }
  return descendants;
}

async function readProcess(pid: number): Promise<RunningProcess | undefined> {
  const [fields, cmdline] = await Promise.all([
    statFields(pid),
    readFile(`/proc/${pid}/cmdline`, "utf8").catch(ifAbsent("")),
  ]);
  if (fields === undefined || fields[0] === "Z") return undefined;
  return { pid, parent: Number(fields[1]), group: Number(fields[2]), argv: cmdline.split("\0").slice(0, -1) };
}

/** The fields of /proc/PID/stat from the state on. The process name before them may contain spaces and brackets. */
async function statFields(pid: number): Promise<readonly string[] | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(ifAbsent(undefined));
  return stat?.slice(stat.lastIndexOf(")") + 2).split(" ");
}
