import { execFile, spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { createCgroupFiles } from "../../../cgroups/files.ts";
import { createCgroupLayout } from "../../../cgroups/path.ts";
import { createSystemd, systemdAddresses } from "../../../cgroups/systemd/systemd.ts";
import { createClock } from "../../../host/clock.ts";
import { readMachine } from "../../../host/machine.ts";
import { readPageBytes } from "../../../host/page-size.ts";
import type { CgroupName } from "../../../proto/cgroup/cgroup-name.ts";
import type { CgroupDriver } from "../../../proto/kubelet/config.ts";
import { ifAbsent } from "../../bed/if-absent.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import type { CgroupProcess, CgroupsFixture } from "../../contract/cgroups.ts";
import { kernelCgroupsFixture } from "../../contract/cgroups-kernel.ts";
import { recordWrites } from "../../fakes/counted-writes.ts";

const root = "/sys/fs/cgroup";
const STEP_TIMEOUT_MS = 60_000;
/** The program that waits, and the name that the kernel gives to its process. */
const WAITS = { argv: ["sleep", "1000"], comm: "sleep" } as const;
const execFileAsync = promisify(execFile);

/** The kernel's tree, and what only tests on it need. */
export interface KernelFixture extends CgroupsFixture {
  /** What the agent has changed, as `write FILE VALUE`, `make FOLDER`, `remove FOLDER`. */
  readonly changes: readonly string[];
  /** The folder of a cgroup. */
  path(name: CgroupName): string;
  /** The unit of a cgroup that is a slice. */
  unit(name: CgroupName): string;
  /** Starts a program in the cgroup itself, whatever the driver is. */
  startInside(name: CgroupName, argv: readonly string[]): Promise<CgroupProcess>;
}

/** Runs a program and returns what it prints. Throws with its error output if it fails. */
export async function runProgram(program: string, ...args: readonly string[]): Promise<string> {
  return (await execFileAsync(program, args)).stdout.trimEnd();
}

/** The tree of this machine, with cgroup v2 and systemd, for root. The runtime puts containers into scopes with systemd, and so does this. */
export function createKernelFixture(driver: CgroupDriver): KernelFixture {
  const { files, writes } = recordWrites(createCgroupFiles());
  const layout = createCgroupLayout({ root, cgroupRoot: "/", driver });
  const unit = (name: CgroupName) => layout.units(name).at(-1) ?? "";
  const startInside = async (folder: string, argv: readonly string[]) => {
    // It enters the cgroup itself, so that what it starts and the memory of its program count there.
    const child = startWaiting(["sh", "-c", `echo $$ > "$0"; exec "$@"`, `${folder}/cgroup.procs`, ...argv]);
    const inside = folder.slice(root.length);
    await pollUntil(
      `a process in ${folder}`,
      STEP_TIMEOUT_MS,
      async () =>
        (await child.read("cgroup")).trim().endsWith(`:${inside}`) &&
        (await child.read("cmdline")).startsWith(argv.join("\0")),
    );
    return child;
  };
  const systemd = createSystemd({
    addresses: systemdAddresses,
    uid: process.getuid?.() ?? 0,
    clock: createClock(),
    timeoutMs: STEP_TIMEOUT_MS,
    idleMs: 10,
  });
  const fixture = kernelCgroupsFixture({
    root,
    files,
    systemd: driver === "systemd" ? systemd : undefined,
    pageBytes: readPageBytes(),
    hugePageSizes: readMachine().hugePages.map(({ pageBytes }) => pageBytes),
    startProcess: (folder) =>
      driver === "systemd" ? startInScope(folder.slice(folder.lastIndexOf("/") + 1)) : startInside(folder, WAITS.argv),
    end: () => {},
  });
  return {
    ...fixture,
    changes: writes,
    path: (name) => layout.path(name),
    unit,
    startInside: (name, argv) => startInside(layout.path(name), argv),
  };
}

/** Returns once systemd has moved the program into a scope of the slice, and it runs. */
async function startInScope(slice: string): Promise<CgroupProcess> {
  const child = startWaiting(["systemd-run", "--quiet", "--scope", `--slice=${slice}`, "--", ...WAITS.argv]);
  await pollUntil(`a process in ${slice}`, STEP_TIMEOUT_MS, async () => {
    if (!(await child.isRunning())) throw new Error(`systemd-run --slice=${slice} has ended`);
    return (await child.read("comm")) === `${WAITS.comm}\n`;
  });
  return child;
}

function startWaiting([program = "", ...args]: readonly string[]) {
  const { pid = 0 } = spawn(program, args, { stdio: ["ignore", "ignore", "inherit"] });
  const read = async (file: string) => await readFile(`/proc/${pid}/${file}`, "utf8").catch(ifAbsent(""));
  return {
    pid,
    read,
    async isRunning() {
      // A zombie has ended: its parent has not waited for it yet.
      const state = /\) (\w)/.exec(await read("stat"))?.[1];
      return state !== undefined && state !== "Z" && state !== "X";
    },
  };
}
