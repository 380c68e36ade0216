import { existsSync } from "node:fs";
import { access, constants, readFile } from "node:fs/promises";
import { dirname } from "node:path/posix";
import type { Config } from "../../agent/config/config.ts";
import {
  type ConfiguredCgroupProblem,
  findConfiguredCgroupProblems,
} from "../../agent/preflight/configured-cgroups.ts";
import { LOCK_FILE } from "../../agent/preflight/instance-locks.ts";
import type { AgentStatus } from "../../agent/serve/local/agent-status.ts";
import { type CniFacts, readCniFacts, usualCni } from "../../cni/network-facts.ts";
import { socketPathOf } from "../../cri/endpoint.ts";
import type { Clock } from "../../host/clock.ts";
import { isClockSynchronized } from "../../host/clock-sync.ts";
import { createExec } from "../../host/exec.ts";
import type { FileSystemSpace } from "../../host/fs/file-system-space.ts";
import { type FileKind, type Files, FilesError } from "../../host/fs/files.ts";
import { findListeningSockets, type ListeningSocket } from "../../host/listening-sockets.ts";
import type { Log } from "../../host/log/log.ts";
import { type Machine, readMachine } from "../../host/machine.ts";
import { createNetlink } from "../../host/netlink/netlink.ts";
import { type Availability, memoryAvailabilityOf, TASK_LIMIT_FILES, taskAvailabilityOf } from "../../host/proc.ts";
import type { KubeletConfiguration } from "../../proto/kubelet/config.ts";
import { describeConnectError, requestAgent, socketPath } from "../local-agent.ts";
import { type ApiServerAnswer, readApiServer } from "./api-server-facts.ts";
import { type FirewallFacts, readFirewall } from "./firewall-facts.ts";
import { type Inventory, inventoryOf } from "./inventory.ts";
import { type KubeconfigFacts, readApiServerEndpoint, readKubeconfigFacts } from "./kubeconfig-facts.ts";
import { type LoopbackFacts, readLoopbackFacts } from "./loopback-facts.ts";
import { type PodNetworkFacts, readPodNetworkFacts } from "./pod-network-facts.ts";
import type { Readers, Readings } from "./reading.ts";
import { existingRealPath, type FolderMount, fileOwnerOf, mountOf } from "./root-directory-facts.ts";
import { type RuntimeAnswer, readRuntimeFacts } from "./runtime-facts.ts";

/** Everything that the checks judge. */
export interface Facts {
  readonly inventory: Inventory;
  readonly machine: Machine;
  readonly isRoot: boolean;
  readonly nowMs: number;
  /** Undefined if the kernel does not say. */
  readonly isClockSynchronized: boolean | undefined;
  /** Those of the root cgroup in version 2, the kernel's enabled ones in version 1. */
  readonly cgroupControllers: readonly string[];
  /** The cgroups that the configuration names, and that do not exist. */
  readonly configuredCgroupProblems: readonly ConfiguredCgroupProblem[];
  /** How many processes and threads the kernel allows; undefined if it does not say. */
  readonly maxTasks: number | undefined;
  /** Undefined if the kernel does not say. */
  readonly memory: Availability | undefined;
  readonly swapDevices: readonly string[];
  /** The file systems that the kernel has loaded. */
  readonly fileSystemTypes: readonly string[];
  /** The values of `checkedSysctls`; undefined where the kernel has no such setting. */
  readonly sysctls: Readonly<Record<string, number | undefined>>;
  readonly firewall: FirewallFacts;
  /** What exists at the path of the runtime's endpoint. */
  readonly runtimeSocket: FileKind | undefined;
  /** The sockets of container runtimes at other usual paths. */
  readonly otherSockets: readonly string[];
  readonly runtime: RuntimeAnswer;
  /** The network configuration that the runtime uses. */
  readonly cni: CniFacts;
  readonly podNetwork: PodNetworkFacts;
  /** The plugin `loopback` of the runtime; undefined if the runtime does without, or does not say. */
  readonly loopback: LoopbackFacts | undefined;
  readonly rootDir: FileKind | undefined;
  /** Whether the file system of the root directory refuses every write, also root's. */
  readonly isRootReadOnly: boolean;
  /** The mount of the root directory; undefined if the kernel lists none. */
  readonly rootMount: FolderMount | undefined;
  /** The id of the user that owns the root directory; undefined if it does not exist. */
  readonly rootDirOwner: number | undefined;
  readonly rootSpace: PlacedSpace;
  readonly logSpace: PlacedSpace;
  /** Undefined if the runtime does not say where its images are. */
  readonly imageSpace: PlacedSpace | undefined;
  /** What exists at `staticPodPath`. */
  readonly manifests: FileKind | undefined;
  /** Undefined without `--kubeconfig`. */
  readonly kubeconfig: KubeconfigFacts | undefined;
  /** The id of the user that owns it; undefined without `--kubeconfig`, or if the file does not exist. */
  readonly kubeconfigOwner: number | undefined;
  /** Undefined without `--kubeconfig`, or if the file does not exist. */
  readonly apiServer: ApiServerAnswer | undefined;
  /** The file of `--config`; undefined without one, or if it does not exist. */
  readonly configFile: { readonly path: string; readonly mode: number; readonly modifiedMs: number } | undefined;
  /** Whether the kubelet's usual configuration file exists. */
  readonly hasUsualConfig: boolean;
  readonly listeners: readonly ListeningSocket[];
  /** The agent that answers below the root directory. */
  readonly agent: { readonly node: string; readonly pid: number | undefined } | undefined;
  readonly nameservers: readonly string[];
}

/** The space of the file system that a folder is on, or will be on once it exists. */
export type PlacedSpace = FileSystemSpace & { readonly path: string };

export type MachineFacts = Readings<Facts>;

/** The kernel's settings that pods and the kubelet depend on. */
const checkedSysctls = [
  "vm.overcommit_memory",
  "vm.panic_on_oom",
  "kernel.panic",
  "kernel.panic_on_oops",
  "kernel.keys.root_maxkeys",
  "kernel.keys.root_maxbytes",
  "net.ipv4.ip_forward",
  "net.bridge.bridge-nf-call-iptables",
  "net.ipv4.conf.all.route_localnet",
] as const;

export const usualConfig = "/var/lib/kubelet/config.yaml";

const usualSockets = [
  "/run/containerd/containerd.sock",
  "/run/crio/crio.sock",
  "/run/k3s/containerd/containerd.sock",
  "/run/cri-dockerd.sock",
];

export interface MachineFactsOptions {
  readonly config: Config;
  readonly kubelet: Pick<KubeletConfiguration, "port" | "healthzPort">;
  /** The absolute path of `--config`. */
  readonly configPath: string | undefined;
  /** The command that starts this program again. */
  readonly berth: readonly [string, ...string[]];
  /** Rooted at `/`. */
  readonly files: Files;
  readonly clock: Clock;
  readonly log: Log;
  /** For each request to the runtime and to the API server. */
  readonly requestTimeoutMs: number;
}

/** The functions that read this machine; `readAll` calls them. They change nothing. */
export function machineReaders(options: MachineFactsOptions): Readers<Facts> {
  const { config, kubelet, files, clock, log, requestTimeoutMs } = options;
  let asked: Promise<RuntimeAnswer> | undefined;
  const runtime = () => {
    asked ??= readRuntimeFacts(config, { clock, log, requestTimeoutMs });
    return asked;
  };
  // Called by the readers, since it throws for an empty endpoint.
  const socket = () => socketPathOf(config.containerRuntimeEndpoint);
  return {
    ...kernelReaders(files, clock),
    inventory: () =>
      inventoryOf(createExec(), {
        berth: options.berth,
        path: process.env["PATH"] ?? "",
        timeoutMs: INVENTORY_LIMIT_MS,
      }),
    firewall: () =>
      readFirewall({
        files,
        exec: createExec(),
        netlink: createNetlink(),
        path: process.env["PATH"] ?? "",
        timeoutMs: FIREWALL_LIMIT_MS,
      }),
    configuredCgroupProblems: async () =>
      findConfiguredCgroupProblems(config, files.path("sys/fs/cgroup"), (path) => existsSync(path)),
    runtimeSocket: async () => (await files.stat(socket()))?.kind,
    otherSockets: async () =>
      await present(
        files,
        usualSockets.filter((path) => path !== socket()),
      ),
    runtime,
    cni: async () => await readCniFacts(files, cniFoldersOf(await runtime()) ?? usualCni),
    podNetwork: async () => await readPodNetworkFacts(files, config, cniFoldersOf(await runtime())?.confDir),
    loopback: async () => await readLoopbackFacts(files, await runtime()),
    rootDir: async () => (await files.stat(config.rootDir))?.kind,
    isRootReadOnly: () => isReadOnly(files, config.rootDir),
    rootMount: async () =>
      mountOf(
        await readFile(files.path("proc/self/mountinfo"), "utf8"),
        await existingRealPath(files.path(config.rootDir)),
      ),
    rootDirOwner: () => fileOwnerOf(files.path(config.rootDir)),
    rootSpace: () => spaceAhead(files, config.rootDir),
    logSpace: () => spaceAhead(files, config.podLogsDir),
    imageSpace: async () => {
      const answer = await runtime();
      const folder = answer.isReachable ? answer.facts.imageFolder : undefined;
      return folder === undefined ? undefined : await spaceAhead(files, folder);
    },
    manifests: async () =>
      config.staticPodPath === undefined ? undefined : (await files.stat(config.staticPodPath))?.kind,
    ...clusterReaders(options),
    configFile: async () => {
      const path = options.configPath;
      const stat = path === undefined ? undefined : await files.stat(path);
      return path === undefined || stat === undefined
        ? undefined
        : { path, mode: stat.mode, modifiedMs: stat.modifiedMs };
    },
    hasUsualConfig: async () => (await files.stat(usualConfig)) !== undefined,
    listeners: () => findListeningSockets([kubelet.port, kubelet.healthzPort].filter((port) => port > 0)),
    agent: () => readAgent(files, config.rootDir),
    nameservers: async () =>
      config.resolvConf === undefined ? [] : nameserversOf(await files.read(config.resolvConf, MAX_FILE_BYTES)),
  };
}

/** Undefined if the runtime does not say. */
const cniFoldersOf = (answer: RuntimeAnswer) => (answer.isReachable ? answer.facts.cni : undefined);

type OfCluster = "kubeconfig" | "kubeconfigOwner" | "apiServer";

function clusterReaders({
  config: { clusterConfigSource: source },
  files,
  clock,
  requestTimeoutMs,
}: MachineFactsOptions): Pick<Readers<Facts>, OfCluster> {
  const path = source?.kind === "kubeconfig" ? source.path : undefined;
  return {
    kubeconfig: async () => (path === undefined ? undefined : await readKubeconfigFacts(files, path)),
    kubeconfigOwner: async () => (path === undefined ? undefined : await fileOwnerOf(files.path(path))),
    apiServer: async () => {
      const endpoint = path === undefined ? undefined : await readApiServerEndpoint(files, path);
      return endpoint === undefined ? undefined : await readApiServer(endpoint, { clock, requestTimeoutMs });
    },
  };
}

const MAX_FILE_BYTES = 1 << 20;

/** A small board takes seconds to start a dozen programs. */
const INVENTORY_LIMIT_MS = 8_000;

/** A program that changes many rules holds the lock of iptables for seconds. */
const FIREWALL_LIMIT_MS = 4_000;

type OfKernel =
  | "machine"
  | "isRoot"
  | "nowMs"
  | "isClockSynchronized"
  | "cgroupControllers"
  | "maxTasks"
  | "memory"
  | "swapDevices"
  | "fileSystemTypes"
  | "sysctls";

function kernelReaders(files: Files, clock: Clock): Pick<Readers<Facts>, OfKernel> {
  const text = (path: string) => readFile(files.path(path), "utf8");
  return {
    machine: async () => readMachine(files.root),
    isRoot: async () => process.geteuid?.() === 0,
    nowMs: async () => clock.now(),
    isClockSynchronized: async () => isClockSynchronized(),
    cgroupControllers: async () => {
      const unified = await orUndefined(text("sys/fs/cgroup/cgroup.controllers"));
      return unified === undefined ? enabledControllers(await text("proc/cgroups")) : wordsOf(unified);
    },
    maxTasks: async () => {
      const limits = await Promise.all(TASK_LIMIT_FILES.map((path) => text(path)));
      return taskAvailabilityOf(await text("proc/loadavg"), limits)?.capacity;
    },
    memory: async () => memoryAvailabilityOf(await text("proc/meminfo")),
    swapDevices: async () => linesBelowHeader(await text("proc/swaps")).map((line) => wordsOf(line)[0] ?? ""),
    fileSystemTypes: async () =>
      (await text("proc/filesystems")).split("\n").flatMap((line) => wordsOf(line).at(-1) ?? []),
    sysctls: async () => {
      const values = checkedSysctls.map(async (name) => {
        const value = await orUndefined(text(`proc/sys/${name.replaceAll(".", "/")}`));
        return [name, value === undefined ? undefined : Number(value)] as const;
      });
      return Object.fromEntries(await Promise.all(values));
    },
  };
}

const wordsOf = (line: string) => line.split(/\s+/).filter((word) => word !== "");
const linesBelowHeader = (table: string) => table.trim().split("\n").slice(1);

/** /proc/cgroups of version 1: name, hierarchy, number of cgroups, enabled. */
function enabledControllers(table: string): readonly string[] {
  return linesBelowHeader(table).flatMap((line) => {
    const [name = "", , , isEnabled] = wordsOf(line);
    return isEnabled === "1" ? [name] : [];
  });
}

/** Undefined if the file does not exist. */
async function orUndefined(content: Promise<string>): Promise<string | undefined> {
  try {
    return await content;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}

async function present(files: Files, paths: readonly string[]): Promise<readonly string[]> {
  const kinds = await Promise.all(paths.map(async (path) => (await files.stat(path))?.kind));
  return paths.filter((_, index) => kinds[index] === "socket");
}

/** The space of the nearest existing folder: the agent creates the rest. */
async function spaceAhead(files: Files, path: string): Promise<PlacedSpace> {
  try {
    return { ...(await files.space(path)), path };
  } catch (error) {
    if (!(error instanceof FilesError && error.code === "ENOENT") || path === "/") throw error;
    return { ...(await spaceAhead(files, dirname(path))), path };
  }
}

/** Of the nearest existing folder: an SD card with errors is mounted read-only by the kernel. */
async function isReadOnly(files: Files, path: string): Promise<boolean> {
  try {
    await access(files.path(path), constants.W_OK);
    return false;
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    if (code === "ENOENT" && path !== "/") return await isReadOnly(files, dirname(path));
    // Other reasons, such as a missing permission, are not the file system's.
    return code === "EROFS";
  }
}

/** Undefined if no agent listens on the socket. The lock file names the process. */
async function readAgent(files: Files, rootDir: string): Promise<Facts["agent"]> {
  if ((await files.stat(socketPath(rootDir))) === undefined) return undefined;
  const response = await requestAgent(files.path(socketPath(rootDir)), "/status").catch(undefinedIfAbsent);
  if (response === undefined) return undefined;
  if (!response.ok) throw new Error(`the agent responded with HTTP ${response.status}`);
  const { node } = (await response.json()) as AgentStatus;
  // The process id is extra: an unreadable lock leaves it out.
  const lock = await files.read(`${rootDir}/${LOCK_FILE}`, MAX_FILE_BYTES).catch(() => "");
  const pid = /^pid (\d+)/.exec(lock)?.[1];
  return { node: node.name, pid: pid === undefined ? undefined : Number(pid) };
}

/** Rethrows all else: an agent that is frozen, or that this user may not ask, is not absent. */
function undefinedIfAbsent(error: unknown): undefined {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  if (code === "ENOENT" || code === "ECONNREFUSED") return undefined;
  throw new Error(describeConnectError(error), { cause: error });
}

function nameserversOf(resolvConf: string): readonly string[] {
  return resolvConf.split("\n").flatMap((line) => /^\s*nameserver\s+(\S+)/.exec(line)?.[1] ?? []);
}
