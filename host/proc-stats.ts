import { readdirSync, readFileSync, readlinkSync, statSync } from "node:fs";
import { meminfoBytes } from "./proc.ts";

/** What the node uses. Nanoseconds and bytes; counters begin with the boot. */
export interface NodeUsage {
  readonly cpu: { readonly usageNs: number; readonly userNs: number; readonly systemNs: number };
  readonly memory: NodeMemory;
  readonly swap: { readonly totalBytes: number; readonly freeBytes: number };
}

export interface NodeMemory {
  readonly totalBytes: number;
  /** Memory of processes, page cache, and the part of the cache that the kernel takes back first. */
  readonly anonBytes: number;
  readonly cacheBytes: number;
  readonly activeFileBytes: number;
  readonly inactiveFileBytes: number;
  readonly mappedFileBytes: number;
  readonly kernelBytes: number;
  readonly pageFaults: number;
  readonly majorPageFaults: number;
}

/** Counters of a network interface. */
export interface InterfaceCounters {
  readonly name: string;
  readonly rxBytes: number;
  readonly rxPackets: number;
  readonly rxErrors: number;
  readonly rxDropped: number;
  readonly txBytes: number;
  readonly txPackets: number;
  readonly txErrors: number;
  readonly txDropped: number;
}

/** Figures of processes and of the node, read from /proc on each call. */
export interface ProcStats {
  /** Undefined if the kernel does not report them. */
  node(): NodeUsage | undefined;
  /** The content of `/proc/pressure/RESOURCE`; undefined without PSI. */
  pressure(resource: "cpu" | "memory" | "io"): string | undefined;
  /** The interfaces of the network namespace of a process, without loopback; undefined if the process has ended. */
  interfaces(pid: number): readonly InterfaceCounters[] | undefined;
  /**
   * How many files a process has open, and how many of the first `limit` of them are sockets: that takes a call of the
   * kernel for each. Undefined if it has ended.
   */
  openFiles(pid: number, limit: number): { readonly descriptors: number; readonly sockets: number } | undefined;
  /** The soft limit of open files of a process, -1 for none; undefined if it has ended. */
  openFilesLimit(pid: number): number | undefined;
  /** The seconds since the boot; undefined if the kernel does not report them. */
  uptimeSeconds(): number | undefined;
  /** How many CPU cores and sockets the machine has; a virtual machine or board that does not say it has one core a CPU. */
  cpuTopology(): { readonly cores: number; readonly sockets: number };
  /** The cgroup of this process in cgroup v2; undefined if there is none. */
  ownCgroup(): string | undefined;
}

/** The kernel counts CPU time in hundredths of a second for programs, whatever its own tick. */
const TICK_NS = 10_000_000;

export function createProcStats(proc = "/proc"): ProcStats {
  const read = (path: string): string | undefined => {
    try {
      return readFileSync(`${proc}/${path}`, "utf8");
    } catch {
      // The process has ended, or the kernel has no such file: there are no figures.
      return undefined;
    }
  };
  return {
    node: () => parseNodeUsage(read("stat") ?? "", read("meminfo") ?? "", read("vmstat") ?? ""),
    pressure: (resource) => read(`pressure/${resource}`)?.trim(),
    interfaces(pid) {
      const text = read(`${pid}/net/dev`);
      return text === undefined ? undefined : parseNetDev(text);
    },
    openFiles(pid, limit) {
      const folder = `${proc}/${pid}/fd`;
      try {
        // The number of descriptors since Linux 6.2, 0 before.
        const { size } = statSync(folder);
        // A process gets the lowest free number for each file: they need no list, which may have a million names.
        const names = size > limit ? Array.from({ length: limit }, (_, fd) => String(fd)) : readdirSync(folder);
        const sockets = names.slice(0, limit).filter((name) => isSocket(`${folder}/${name}`));
        return { descriptors: Math.max(size, names.length), sockets: sockets.length };
      } catch {
        // The process has ended.
        return undefined;
      }
    },
    openFilesLimit(pid) {
      const soft = /^Max open files\s+(\S+)/m.exec(read(`${pid}/limits`) ?? "")?.[1];
      if (soft === undefined) return undefined;
      return /^\d+$/.test(soft) ? Number(soft) : -1;
    },
    uptimeSeconds() {
      const seconds = /^(\d+(?:\.\d+)?) /.exec(read("uptime") ?? "")?.[1];
      return seconds === undefined ? undefined : Number(seconds);
    },
    cpuTopology: () => parseCpuTopology(read("cpuinfo") ?? ""),
    ownCgroup: () => /^0::(\/.*)$/m.exec(read("self/cgroup") ?? "")?.[1],
  };
}

function isSocket(path: string): boolean {
  try {
    return readlinkSync(path).startsWith("socket:");
  } catch {
    // It was closed meanwhile.
    return false;
  }
}

/**
 * `stat`, `meminfo` and `vmstat` are the contents of those files. Undefined without the first two.
 *
 * @internal
 */
export function parseNodeUsage(stat: string, meminfo: string, vmstat: string): NodeUsage | undefined {
  const ticks = /^cpu +(\d+(?: \d+){6,})/m.exec(stat)?.[1]?.split(" ").map(Number);
  const bytesOf = (key: string) => meminfoBytes(meminfo, key);
  const totalBytes = bytesOf("MemTotal");
  if (ticks === undefined || totalBytes === 0) return undefined;
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0] = ticks;
  const eventsOf = (key: string) => Number(new RegExp(`^${key} (\\d+)$`, "m").exec(vmstat)?.[1] ?? 0);
  return {
    cpu: {
      usageNs: (user + nice + system + irq + softirq) * TICK_NS,
      userNs: (user + nice) * TICK_NS,
      systemNs: (system + irq + softirq) * TICK_NS,
    },
    memory: {
      totalBytes,
      anonBytes: bytesOf("AnonPages"),
      cacheBytes: bytesOf("Cached") + bytesOf("Buffers"),
      activeFileBytes: bytesOf("Active(file)"),
      inactiveFileBytes: bytesOf("Inactive(file)"),
      mappedFileBytes: bytesOf("Mapped"),
      kernelBytes: bytesOf("Slab") + bytesOf("KernelStack") + bytesOf("PageTables"),
      pageFaults: eventsOf("pgfault"),
      majorPageFaults: eventsOf("pgmajfault"),
    },
    swap: { totalBytes: bytesOf("SwapTotal"), freeBytes: bytesOf("SwapFree") },
  };
}

/**
 * `cpuinfo` is the content of that file. Each CPU is a paragraph; those of a core have its two ids.
 *
 * @internal
 */
export function parseCpuTopology(cpuinfo: string): { readonly cores: number; readonly sockets: number } {
  const cpus = cpuinfo.split("\n\n").filter((each) => /^processor\s*:/m.test(each));
  const idIn = (cpu: string, key: string) => new RegExp(`^${key}\\s*:\\s*(\\d+)`, "m").exec(cpu)?.[1];
  const cores = new Set(
    cpus.map((cpu, index) => `${idIn(cpu, "physical id")}/${idIn(cpu, "core id") ?? `cpu ${index}`}`),
  );
  const sockets = new Set(cpus.flatMap((cpu) => idIn(cpu, "physical id") ?? []));
  return { cores: cores.size, sockets: Math.max(cpus.length > 0 ? 1 : 0, sockets.size) };
}

/** Interfaces that belong to the machine's inside, by the start of their names. Rule: cAdvisor's ignoredDevicePrefixes. */
const IGNORED = /^(lo|veth|docker|nerdctl)/i;

/**
 * The interfaces in `net/dev`; a line that is none is skipped.
 *
 * @internal
 */
export function parseNetDev(text: string): readonly InterfaceCounters[] {
  return text.split("\n").flatMap((line) => {
    const [, name = "", rest = ""] = /^\s*(\S+):\s*(\d[\d\s]*)$/.exec(line) ?? [];
    const figures = rest.trim().split(/\s+/).map(Number);
    if (figures.length !== 16 || IGNORED.test(name)) return [];
    const [rxBytes = 0, rxPackets = 0, rxErrors = 0, rxDropped = 0] = figures;
    const [txBytes = 0, txPackets = 0, txErrors = 0, txDropped = 0] = figures.slice(8);
    return [{ name, rxBytes, rxPackets, rxErrors, rxDropped, txBytes, txPackets, txErrors, txDropped }];
  });
}
