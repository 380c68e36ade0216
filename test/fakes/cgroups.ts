import type { Cgroups } from "../../cgroups/cgroups.ts";
import { CgroupError } from "../../cgroups/error.ts";
import { type CgroupLayout, createCgroupLayout } from "../../cgroups/path.ts";
import type { CgroupName } from "../../proto/cgroup/cgroup-name.ts";
import { formatCpuList, parseCpuList } from "../../proto/cgroup/cpu-list.ts";
import type { CgroupLimits, Limit } from "../../proto/cgroup/limits.ts";
import type { CgroupStats } from "../../proto/cgroup/stats.ts";
import type { CgroupDriver } from "../../proto/kubelet/config.ts";

export type CgroupsVerb = "make" | "write" | "remove";

export interface FakeCgroupsOptions {
  readonly driver?: CgroupDriver;
  /** The kernel's names of its huge page sizes; without any, it has no hugetlb controller. */
  readonly hugePages?: readonly string[];
}

interface FakeCgroup {
  readonly name: CgroupName;
  limits: CgroupLimits;
  stats: CgroupStats;
  hasControllers: boolean;
  processes: readonly FakeProcess[];
}

/** A process in a cgroup. */
export interface FakeProcess {
  isRunning: boolean;
  /** The kernel cannot end it: it waits for a device or a server. */
  isStuck: boolean;
}

const PAGE_BYTES = 4096;
/** PID_MAX_LIMIT of a 64-bit kernel. */
const MAX_PIDS = 4_194_304;

/**
 * Cgroups in memory, with the limits as the kernel rounds them. They outlive agents; `reboot` removes them. `before`
 * injects failures; the methods below `Cgroups` change the tree behind the agent's back.
 */
export class FakeCgroups implements Cgroups {
  readonly driver: CgroupDriver;
  /** Called before a method takes effect; it may throw. */
  before: (verb: CgroupsVerb, name: CgroupName) => void = () => {};
  /** How many cgroups were made and removed, and files written. */
  writes = 0;
  readonly #layout: CgroupLayout;
  readonly #hugePages: readonly string[];
  readonly #cgroups = new Map<string, FakeCgroup>();

  constructor({ driver = "cgroupfs", hugePages = ["2MB", "1GB"] }: FakeCgroupsOptions = {}) {
    this.driver = driver;
    this.#hugePages = hugePages;
    this.#layout = createCgroupLayout({ root: "", cgroupRoot: "/", driver });
    this.#cgroups.set("", this.#newCgroup([]));
  }

  async make(name: CgroupName, limits: CgroupLimits): Promise<void> {
    this.#layout.path(name);
    this.before("make", name);
    const present = this.#cgroups.size;
    this.add(name);
    this.writes += this.#cgroups.size - present;
    this.#write(name, limits);
  }

  async write(name: CgroupName, limits: CgroupLimits): Promise<void> {
    this.#existing(name);
    this.before("write", name);
    this.#write(name, limits);
  }

  async exists(name: CgroupName): Promise<boolean> {
    this.#layout.path(name);
    return this.#cgroups.get(keyOf(name))?.hasControllers ?? false;
  }

  async children(name: CgroupName): Promise<readonly string[]> {
    this.#layout.path(name);
    return [...this.#cgroups.values()]
      .filter((each) => each.name.length === name.length + 1 && keyOf(each.name.slice(0, -1)) === keyOf(name))
      .map((each) => each.name.at(-1) ?? "")
      .toSorted();
  }

  async remove(name: CgroupName): Promise<void> {
    this.#layout.path(name);
    this.before("remove", name);
    for (const each of this.#below(name)) {
      for (const process of each.processes) process.isRunning = process.isStuck;
      if (each.processes.some(({ isRunning }) => isRunning)) {
        const file = this.#layout.path(each.name);
        throw new CgroupError("ETIMEDOUT", file, undefined, `cannot remove ${file}: a process in it does not end`);
      }
    }
    const present = this.#cgroups.size;
    this.removeBehind(name);
    this.writes += present - this.#cgroups.size;
  }

  async read(name: CgroupName): Promise<CgroupLimits> {
    return this.#existing(name).limits;
  }

  async stats(name: CgroupName): Promise<CgroupStats> {
    const { stats } = this.#existing(name);
    const processes = this.#below(name).flatMap((each) => each.processes);
    return { ...stats, pids: { current: processes.filter(({ isRunning }) => isRunning).length } };
  }

  criParent(name: CgroupName): string {
    return this.#layout.criParent(name);
  }

  /** The names of all cgroups below the root, sorted, joined by `/`. */
  get names(): readonly string[] {
    return [...this.#cgroups.keys()].filter((key) => key !== "").toSorted();
  }

  /** The limits of a cgroup; undefined if it is absent. */
  limitsOf(name: CgroupName): CgroupLimits | undefined {
    return this.#cgroups.get(keyOf(name))?.limits;
  }

  /** Makes a cgroup and those above it, as another program does: a container runtime, or a kubelet. */
  add(name: CgroupName): void {
    for (let depth = 1; depth <= name.length; depth++) {
      const part = name.slice(0, depth);
      const present = this.#cgroups.get(keyOf(part));
      if (present === undefined) this.#cgroups.set(keyOf(part), this.#newCgroup(part));
      else present.hasControllers = true;
    }
  }

  /** Another program writes limits. */
  change(name: CgroupName, limits: CgroupLimits): void {
    const found = this.#existing(name);
    found.limits = { ...found.limits, ...limits };
  }

  /** Another program turns the controllers of a cgroup off, as systemd does to those that it does not need. A write enables those that it needs. */
  disableControllers(name: CgroupName): void {
    this.#existing(name).hasControllers = false;
  }

  /** It uses this much memory, with so much page cache of each kind in it. */
  useMemory(name: CgroupName, currentBytes: number, { activeFileBytes = 0, inactiveFileBytes = 0 } = {}): void {
    const found = this.#existing(name);
    const { memory } = found.stats;
    const used = { currentBytes, activeFileBytes, inactiveFileBytes };
    if (memory !== undefined) found.stats = { ...found.stats, memory: { ...memory, ...used } };
  }

  startProcess(name: CgroupName, isStuck = false): FakeProcess {
    const process = { isRunning: true, isStuck };
    const found = this.#existing(name);
    found.processes = [...found.processes, process];
    return process;
  }

  /** Another program removes a cgroup with all below. */
  removeBehind(name: CgroupName): void {
    for (const each of this.#below(name)) this.#cgroups.delete(keyOf(each.name));
  }

  /** What a restart of the machine does. */
  reboot(): void {
    this.#cgroups.clear();
    this.#cgroups.set("", this.#newCgroup([]));
  }

  #write(name: CgroupName, limits: CgroupLimits): void {
    const found = this.#existing(name);
    for (const [field, wanted] of Object.entries(limits)) {
      if (field === "hugetlbMax") {
        if (this.#hugePages.length > 0) this.#writeHugePages(found, wanted as NonNullable<CgroupLimits["hugetlbMax"]>);
        continue;
      }
      const shown = this.#shown(name, { [field]: wanted });
      if (Bun.deepEquals({ ...found.limits, ...shown }, found.limits)) continue;
      found.limits = { ...found.limits, ...shown };
      this.writes += 1;
    }
  }

  #writeHugePages(found: FakeCgroup, wanted: NonNullable<CgroupLimits["hugetlbMax"]>): void {
    for (const [size, limit] of Object.entries(wanted)) {
      if (!this.#hugePages.includes(size)) {
        const file = `${this.#layout.path(found.name)}/hugetlb.${size}.max`;
        throw new CgroupError("ECONTROLLER", file, String(limit), `cannot write ${file}: the kernel has no such pages`);
      }
      if (found.limits.hugetlbMax?.[size] === limit) continue;
      found.limits = { ...found.limits, hugetlbMax: { ...found.limits.hugetlbMax, [size]: limit } };
      this.writes += 1;
    }
  }

  /** A limit as the kernel shows it after it was written. */
  #shown(name: CgroupName, limits: CgroupLimits): CgroupLimits {
    if (typeof limits.pidsMax === "number" && limits.pidsMax > MAX_PIDS) {
      const file = `${this.#layout.path(name)}/pids.max`;
      throw new CgroupError("EINVAL", file, String(limits.pidsMax), `cannot write ${file}: EINVAL`);
    }
    if (limits.cpus !== undefined) return { cpus: formatCpuList(parseCpuList(limits.cpus) ?? new Set()) };
    if (limits.cpuMax !== undefined) return { cpuMax: this.#shownCpuMax(limits.cpuMax) };
    const { killsAsGroup, cpuWeight, pidsMax } = limits;
    if (killsAsGroup !== undefined || cpuWeight !== undefined || pidsMax !== undefined) return limits;
    return Object.fromEntries(Object.entries(limits).map(([field, limit]) => [field, wholePages(limit as Limit)]));
  }

  #shownCpuMax({ quotaUs, periodUs }: NonNullable<CgroupLimits["cpuMax"]>): NonNullable<CgroupLimits["cpuMax"]> {
    if (quotaUs === "max" || this.driver === "cgroupfs") return { quotaUs, periodUs };
    const percents = Math.ceil((quotaUs * 100) / periodUs);
    return { quotaUs: (percents * periodUs) / 100, periodUs };
  }

  #newCgroup(name: CgroupName): FakeCgroup {
    const hugetlbMax = Object.fromEntries(this.#hugePages.map((size) => [size, "max"] as const));
    return {
      name,
      limits: { ...KERNEL_DEFAULTS, ...(this.#hugePages.length > 0 && { hugetlbMax }) },
      stats: UNUSED,
      hasControllers: true,
      processes: [],
    };
  }

  #existing(name: CgroupName): FakeCgroup {
    const file = this.#layout.path(name);
    const found = this.#cgroups.get(keyOf(name));
    if (found === undefined) throw new CgroupError("ENOENT", file, undefined, `${file} does not exist`);
    return found;
  }

  /** The cgroup and those below it, the deepest first. */
  #below(name: CgroupName): readonly FakeCgroup[] {
    return [...this.#cgroups.values()]
      .filter((each) => keyOf(each.name) === keyOf(name) || keyOf(each.name).startsWith(`${keyOf(name)}/`))
      .toSorted((a, b) => b.name.length - a.name.length);
  }
}

const keyOf = (name: CgroupName) => name.join("/");

/** What a new cgroup has. */
const KERNEL_DEFAULTS: CgroupLimits = {
  cpuWeight: 100,
  cpuMax: { quotaUs: "max", periodUs: 100_000 },
  cpus: "",
  memoryMin: 0,
  memoryLow: 0,
  memoryHigh: "max",
  memoryMax: "max",
  memorySwapMax: "max",
  killsAsGroup: false,
  pidsMax: "max",
};

const UNUSED: CgroupStats = {
  cpu: { usageUs: 0, userUs: 0, systemUs: 0 },
  memory: {
    currentBytes: 0,
    workingSetBytes: 0,
    anonBytes: 0,
    fileBytes: 0,
    fileMappedBytes: 0,
    activeFileBytes: 0,
    inactiveFileBytes: 0,
    pageFaults: 0,
    majorPageFaults: 0,
    maxEvents: 0,
    oomKills: 0,
  },
};

function wholePages(limit: Limit): Limit {
  return limit === "max" ? limit : limit - (limit % PAGE_BYTES);
}
