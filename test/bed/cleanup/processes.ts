import { readdir, readFile } from "node:fs/promises";

export interface RunningProcess {
  readonly pid: number;
  readonly parent: number;
  /** The process group, named by the process that leads it. */
  readonly group: number;
  readonly argv: readonly string[];
}

/**
 * For a program that is started: a group of its own. A terminal sends Ctrl-C to all programs of a group, and we alone are to
 * hear it, so that nothing ends half way and everything in order.
 */
export const apart = { detached: true } as const;

/** Every process of the machine that is not a zombie. Kernel threads have an empty `argv`. */
export async function listProcesses(): Promise<readonly RunningProcess[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number);
  const found = await Promise.all(pids.map(readProcess));
  return found.filter((one) => one !== undefined);
}

/** When a process started, in clock ticks since boot as text; undefined if it is gone or a zombie. */
export async function processStart(pid: number): Promise<string | undefined> {
  const fields = await statFields(pid);
  return fields?.[0] === "Z" ? undefined : fields?.[19];
}

/** `roots` and everything that descends from them. */
export function withDescendants(all: readonly RunningProcess[], roots: readonly number[]): ReadonlySet<number> {
  const family = new Set(roots);
  for (let size = -1; size !== family.size; ) {
    size = family.size;
    for (const { pid, parent } of all) if (family.has(parent)) family.add(pid);
  }
  return family;
}

async function readProcess(pid: number): Promise<RunningProcess | undefined> {
  const [fields, cmdline] = await Promise.all([
    statFields(pid),
    readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => ""),
  ]);
  if (fields === undefined || fields[0] === "Z") return undefined;
  return { pid, parent: Number(fields[1]), group: Number(fields[2]), argv: cmdline.split("\0").slice(0, -1) };
}

/** The fields of /proc/PID/stat from the state on: the name before them may hold spaces and brackets. */
async function statFields(pid: number): Promise<readonly string[] | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => undefined);
  return stat?.slice(stat.lastIndexOf(")") + 2).split(" ");
}
