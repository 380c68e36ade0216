import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path/posix";
import { toCgroupError } from "../../cgroups/error.ts";
import { type CgroupFiles, createCgroupFiles } from "../../cgroups/files.ts";
import { formatCpuList, parseCpuList } from "../../proto/cgroup/cpu-list.ts";

export interface ImitationOptions {
  /** What the kernel has; by default all that pods use, and one that they do not. */
  readonly controllers?: readonly string[];
  /** `cgroup.kill` exists since Linux 5.14. */
  readonly hasKill?: boolean;
}

/**
 * A temporary folder that imitates cgroup v2: it makes the files of a new cgroup, enables and disables controllers, shows
 * limits as the kernel rounds them, refuses the removal of what is in use, and kills its processes, which are mere
 * numbers. It validates only what the contract tests: the kernel rejects far more. Memory and CPU are never used.
 */
export interface ImitatedCgroupV2 {
  readonly files: CgroupFiles;
  /** Puts a process into a cgroup. */
  addProcess(folder: string, pid: number): void;
  /** The processes of a cgroup. */
  processes(folder: string): readonly number[];
  /** Processes that do not end when they are killed. */
  readonly stuck: Set<number>;
}

const PAGE_BYTES = 4096n;
const HUGE_PAGES: Readonly<Record<string, bigint>> = { "2MB": 2n ** 21n, "1GB": 2n ** 30n };
const NO_PRESSURE = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0";
const CPU_STAT = "usage_usec 0\nuser_usec 0\nsystem_usec 0";

/** The files of each controller in a new cgroup. */
const CONTROLLER_FILES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  cpu: { "cpu.weight": "100", "cpu.max": "max 100000" },
  cpuset: { "cpuset.cpus": "" },
  memory: {
    "memory.min": "0",
    "memory.low": "0",
    "memory.high": "max",
    "memory.max": "max",
    "memory.swap.max": "max",
    "memory.oom.group": "0",
    "memory.current": "0",
    "memory.peak": "0",
    "memory.swap.current": "0",
    "memory.stat": "anon 0\nfile 0\nkernel 0\nfile_mapped 0\ninactive_file 0\nactive_file 0\npgfault 0\npgmajfault 0",
    "memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0",
  },
  pids: { "pids.max": "max", "pids.current": "0" },
  hugetlb: Object.fromEntries(
    Object.keys(HUGE_PAGES).flatMap((size) => [
      [`hugetlb.${size}.max`, "max"],
      [`hugetlb.${size}.rsvd.max`, "max"],
      [`hugetlb.${size}.current`, "0"],
    ]),
  ),
  io: { "io.stat": "" },
};

export function imitateCgroupV2(root: string, options: ImitationOptions = {}): ImitatedCgroupV2 {
  const { controllers = ["cpuset", "cpu", "io", "memory", "hugetlb", "pids", "rdma"], hasKill = true } = options;
  const real = createCgroupFiles();
  const stuck = new Set<number>();
  const text = (file: string) => readFileSync(file, "utf8").trim();
  const words = (file: string) =>
    text(file)
      .split(/\s+/)
      .filter((word) => word !== "");
  const put = (file: string, value: string) => writeFileSync(file, value === "" ? "" : `${value}\n`);
  const below = (folder: string) =>
    readdirSync(folder, { withFileTypes: true }).flatMap((entry) =>
      entry.isDirectory() ? [join(folder, entry.name)] : [],
    );
  const processes = (folder: string) => words(`${folder}/cgroup.procs`).map(Number);
  const allProcesses = (folder: string): readonly number[] => [
    ...processes(folder),
    ...below(folder).flatMap(allProcesses),
  ];

  function putMissing(folder: string, contents: Readonly<Record<string, string>>): void {
    for (const [file, value] of Object.entries(contents))
      if (!existsSync(`${folder}/${file}`)) put(`${folder}/${file}`, value);
  }

  /** Brings the files of a cgroup in line with what the one above it enables. */
  function setControllers(folder: string, enabled: readonly string[]): void {
    put(`${folder}/cgroup.controllers`, enabled.join(" "));
    for (const [name, contents] of Object.entries(CONTROLLER_FILES))
      if (enabled.includes(name)) putMissing(folder, contents);
      else for (const file of Object.keys(contents)) rmSync(`${folder}/${file}`, { force: true });
  }

  function putBase(folder: string, enabled: readonly string[]): void {
    putMissing(folder, {
      "cgroup.subtree_control": "",
      "cgroup.procs": "",
      "cgroup.events": "populated 0\nfrozen 0",
      "cgroup.freeze": "0",
      ...(hasKill && { "cgroup.kill": "" }),
      "cpu.stat": CPU_STAT,
      "cpu.pressure": NO_PRESSURE,
      "memory.pressure": NO_PRESSURE,
      "io.pressure": NO_PRESSURE,
    });
    setControllers(folder, enabled);
  }

  /** The kernel notifies a cgroup and those above it when their last process ends, or their first one appears. */
  function updateEvents(folder: string): void {
    for (let each = folder; each.startsWith(root); each = dirname(each)) {
      const events = `populated ${allProcesses(each).length > 0 ? 1 : 0}\nfrozen 0`;
      if (existsSync(`${each}/cgroup.events`) && text(`${each}/cgroup.events`) !== events)
        put(`${each}/cgroup.events`, events);
      if (existsSync(`${each}/pids.current`)) put(`${each}/pids.current`, String(allProcesses(each).length));
    }
  }

  function endProcesses(folder: string, isEnded: (pid: number) => boolean): void {
    for (const each of below(folder)) endProcesses(each, isEnded);
    put(
      `${folder}/cgroup.procs`,
      processes(folder)
        .filter((pid) => !isEnded(pid) || stuck.has(pid))
        .join("\n"),
    );
    updateEvents(folder);
  }

  function writeSubtreeControl(folder: string, value: string): void {
    const file = `${folder}/cgroup.subtree_control`;
    const enabled = new Set(words(file));
    for (const change of value.split(" ")) {
      const name = change.slice(1);
      if (!words(`${folder}/cgroup.controllers`).includes(name)) fail("write", file, value, "ENOENT");
      if (change.startsWith("+")) enabled.add(name);
      else if (below(folder).some((each) => words(`${each}/cgroup.subtree_control`).includes(name)))
        fail("write", file, value, "EBUSY");
      else enabled.delete(name);
    }
    put(file, [...enabled].join(" "));
    for (const each of below(folder)) setControllers(each, [...enabled]);
  }

  const name = (path: string) => path.slice(path.lastIndexOf("/") + 1);
  const files: CgroupFiles = {
    ...real,
    async write(file, value) {
      const folder = dirname(file);
      if (!existsSync(file)) fail("write", file, value, "ENOENT");
      if (name(file) === "cgroup.subtree_control") writeSubtreeControl(folder, value);
      else if (name(file) === "cgroup.kill") endProcesses(folder, () => true);
      else if (name(file) === "pids.max" && Number(value) > 4_194_304) fail("write", file, value, "EINVAL");
      else put(file, shown(name(file), value));
    },
    async makeFolder(folder) {
      if (existsSync(folder)) return false;
      if (!existsSync(dirname(folder))) fail("make", folder, undefined, "ENOENT");
      mkdirSync(folder);
      putBase(folder, words(`${dirname(folder)}/cgroup.subtree_control`));
      return true;
    },
    async removeFolder(folder) {
      if (!existsSync(folder)) return;
      if (below(folder).length > 0 || processes(folder).length > 0) fail("remove", folder, undefined, "EBUSY");
      for (const file of readdirSync(folder)) rmSync(`${folder}/${file}`);
      rmdirSync(folder);
    },
    kill: (pid) => endProcesses(root, (each) => each === pid),
  };

  putBase(root, controllers);
  // The root has no limits.
  for (const contents of Object.values(CONTROLLER_FILES))
    for (const file of Object.keys(contents)) rmSync(`${root}/${file}`, { force: true });
  return {
    files,
    addProcess(folder, pid) {
      put(`${folder}/cgroup.procs`, [...processes(folder), pid].join("\n"));
      updateEvents(folder);
    },
    processes,
    stuck,
  };
}

function fail(verb: string, file: string, value: string | undefined, code: string): never {
  throw toCgroupError(verb, file, value, Object.assign(new Error(code), { code }));
}

/** A limit as the kernel shows it. */
function shown(file: string, value: string): string {
  if (file === "cpuset.cpus") return formatCpuList(parseCpuList(value) ?? new Set());
  const size = /^hugetlb\.(\w+)\./.exec(file)?.[1];
  const unit = size === undefined ? PAGE_BYTES : HUGE_PAGES[size];
  if (unit === undefined || !/^(memory\.(min|low|high|max|swap\.max)|hugetlb\..*)$/.test(file) || value === "max")
    return value;
  return String((BigInt(value) / unit) * unit);
}
