import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Client, credentials } from "@grpc/grpc-js";
import { execa } from "execa";
import { ensureContainerd } from "../../upstream/containerd.ts";
import { type BedRecord, bedPaths, claimStateDir, findAbandonedBed } from "../cleanup/bed-record.ts";
import type { BedResources } from "../cleanup/bed-resources.ts";
import { cleanUp } from "../cleanup/clean-up.ts";
import { ownProcessGroup } from "../cleanup/processes.ts";
import { pauseImage } from "../images/images.ts";
import { type PackageSet, unpackPackages } from "../packages.ts";
import { pollUntil } from "../poll-until.ts";
import { installBuiltinNetwork } from "./builtin-network.ts";
import { type ContainerdPlan, cniConflist, configFormat2, configFormat3 } from "./containerd-config.ts";

export const containerdVersions = ["1.6", "1.7", "2.0", "2.1"] as const;
export type ContainerdVersion = (typeof containerdVersions)[number];

export interface ContainerdOptions {
  /** The release to run; by default 1.6, that of Debian 12. */
  readonly version?: ContainerdVersion;
  /** The path of the OCI runtime; by default runc of Debian 12. */
  readonly runc?: string;
  /** `HOST:PORT` of the OpenTelemetry collector that it sends its traces to. From 2.0 on. */
  readonly traceCollector?: string;
  /** The folder of the CNI plugins; by default the packages'. */
  readonly cniBinDir?: string;
  /** The folder for everything that this containerd writes. Created if absent; used by one containerd at a time. */
  readonly stateDir: string;
  /** The network of its pods: the chain of bridge and portmap, which it executes itself, or the built-in one, which an agent executes. */
  readonly network?: "chain" | "builtin";
  readonly print?: (line: string) => void;
}

/** A private containerd with its own bridge and subnet. */
export interface Containerd {
  readonly version: ContainerdVersion;
  /** `unix://` and the socket's path, as CRI clients expect it. */
  readonly endpoint: string;
  readonly socket: string;
  /** The process id, 0 while containerd does not run. */
  readonly pid: number;
  readonly logFile: string;
  readonly bridge: string;
  readonly subnet: string;
  /** containerd's folder of `HOST/hosts.toml` files, which it reads at every pull. */
  readonly registryHosts: string;
  readonly record: BedRecord;
  /** The argv of `ctr` for this containerd, without a command. */
  readonly ctrArgv: readonly [program: string, ...args: string[]];
  /** Runs `ctr` on this containerd and returns its output. */
  ctr(args: readonly string[]): Promise<string>;
  /** Kills containerd; its pods keep running. */
  kill9(): Promise<void>;
  /** Starts containerd again, after SIGTERM if it runs; its pods keep running. */
  restart(): Promise<void>;
  /** Stops containerd and all its pods and removes everything except the log. Returns what was removed. */
  stop(): Promise<BedResources>;
}

/**
 * Starts a private containerd below `stateDir` and returns once its CRI answers. First removes what a killed owner of
 * the folder has left. Throws if a living process uses the folder, or if containerd does not answer.
 */
export async function startContainerd(options: ContainerdOptions): Promise<Containerd> {
  const { version = "1.6", runc, traceCollector, cniBinDir, stateDir, network = "chain", print } = options;
  const found = await findPrograms(version, print);
  const programs = {
    ...found,
    ...(runc !== undefined && { runc }),
    ...(cniBinDir !== undefined && { cniBinDir }),
    traceCollector,
  };
  const abandoned = await findAbandonedBed(stateDir);
  if (abandoned !== undefined) await cleanUp(abandoned);
  const record = await claimStateDir(stateDir);
  const paths = bedPaths(record.stateDir);
  const prepare = async () => {
    await (network === "builtin"
      ? writeBuiltinConfiguration(record, version, programs)
      : writeChainConfiguration(record, version, programs));
    return await launch(paths, programs);
  };
  let child = await prepare().catch(async (error: unknown) => {
    await cleanUp(record);
    throw error;
  });

  const stopProcess = async (signal: NodeJS.Signals) => {
    child.kill(signal);
    await waitForExit(child);
  };
  const ctrArgv = [programs.ctr, "--address", paths.socket] as const;
  return {
    version,
    endpoint: `unix://${paths.socket}`,
    socket: paths.socket,
    get pid() {
      return isRunning(child) ? (child.pid ?? 0) : 0;
    },
    logFile: paths.log,
    bridge: record.bridge,
    subnet: record.subnet,
    registryHosts: paths.registryHosts,
    record,
    ctrArgv: [...ctrArgv],
    async ctr(args) {
      const [program, ...address] = ctrArgv;
      const { stdout } = await execa(program, [...address, ...args], ownProcessGroup);
      return stdout;
    },
    kill9: () => stopProcess("SIGKILL"),
    async restart() {
      await stopProcess("SIGTERM");
      child = await launch(paths, programs);
    },
    async stop() {
      await stopProcess("SIGTERM");
      return await cleanUp(record);
    },
  };
}

/** The release of Debian that has each release of containerd; undefined where none has it, and it is built. */
const packageSets: Readonly<Record<ContainerdVersion, PackageSet | undefined>> = {
  "1.6": "bookworm",
  "1.7": "trixie",
  "2.0": undefined,
  "2.1": "forky",
};

interface Programs {
  readonly folder: string;
  readonly containerd: string;
  readonly ctr: string;
  readonly runc: string;
  readonly cniBinDir: string;
  readonly traceCollector?: string | undefined;
}

/** Downloads or builds what a release needs, for tests that start it where there is no network. */
export async function downloadContainerd(version: ContainerdVersion): Promise<void> {
  await findPrograms(version);
}

/** Each release runs with runc of Debian 12, because that of forky needs a newer libc. */
async function findPrograms(version: ContainerdVersion, print?: (line: string) => void): Promise<Programs> {
  const own = await unpackPackages("bookworm", print);
  const packageSet = packageSets[version];
  const folder =
    packageSet === undefined
      ? await ensureContainerd(print)
      : join((await unpackPackages(packageSet, print)).root, "usr/bin");
  return {
    folder,
    containerd: join(folder, "containerd"),
    ctr: join(folder, "ctr"),
    runc: join(own.root, "usr/sbin/runc"),
    cniBinDir: join(own.root, "usr/lib/cni"),
  };
}

/** Writes the configuration of a bed whose pods get the network of `bridge`, `host-local` and `portmap`. */
async function writeChainConfiguration(bed: BedRecord, version: ContainerdVersion, programs: Programs): Promise<void> {
  const { cniConfDir, cniLeases: leases } = bedPaths(bed.stateDir);
  const { network: name, bridge, subnet } = bed;
  await writeConfiguration(bed, version, programs, { cniConfDir, cniBinDir: programs.cniBinDir });
  await writeFile(join(cniConfDir, "10-berth.conflist"), cniConflist({ name, bridge, subnet, leases }));
  await createPortmapChains();
}

/** Writes the configuration of a bed whose pods get the built-in network. */
async function writeBuiltinConfiguration(
  bed: BedRecord,
  version: ContainerdVersion,
  programs: Programs,
): Promise<void> {
  const { cniDelegateDir: cniConfDir, cniBinDir } = bedPaths(bed.stateDir);
  await writeConfiguration(bed, version, programs, { cniConfDir, cniBinDir });
  await installBuiltinNetwork(bed, programs.cniBinDir);
}

async function writeConfiguration(
  bed: BedRecord,
  version: ContainerdVersion,
  { runc, traceCollector }: Programs,
  cniFolders: Pick<ContainerdPlan, "cniConfDir" | "cniBinDir">,
): Promise<void> {
  const paths = bedPaths(bed.stateDir);
  const folders = [paths.home, paths.cniConfDir, paths.cniLeases, paths.registryHosts];
  for (const folder of folders) await mkdir(folder, { recursive: true });
  const plan: ContainerdPlan = { ...paths, ...cniFolders, runc, pauseImage, isTraced: traceCollector !== undefined };
  const config = version === "1.6" || version === "1.7" ? configFormat2(plan) : configFormat3(plan, version);
  await writeFile(paths.config, config);
}

/**
 * Creates the chains that portmap shares among all pods of the machine. portmap checks for a chain and then creates it:
 * when two do so at once, for example for pods of two containerds, one fails, and RunPodSandbox with it.
 */
async function createPortmapChains(): Promise<void> {
  // iptables refuses a chain that exists already.
  for (const chain of ["CNI-HOSTPORT-DNAT", "CNI-HOSTPORT-MASQ", "CNI-HOSTPORT-SETMARK"])
    await execa("iptables", ["--wait", "--table", "nat", "--new-chain", chain], { ...ownProcessGroup, reject: false });
}

async function launch(paths: ReturnType<typeof bedPaths>, programs: Programs): Promise<ChildProcess> {
  const log = openSync(paths.log, "a");
  const child = spawn(programs.containerd, ["--config", paths.config], {
    ...ownProcessGroup,
    stdio: ["ignore", log, log],
    // First in PATH, so that containerd finds the shim of its own release.
    env: { ...process.env, ...tracingEnvironment(programs), PATH: `${programs.folder}:${process.env["PATH"] ?? ""}` },
  });
  closeSync(log);
  try {
    await waitForCri(paths.socket, child);
    return child;
  } catch (cause) {
    child.kill("SIGKILL");
    throw new Error(`containerd does not answer; its log is ${paths.log}`, { cause });
  }
}

function tracingEnvironment({ traceCollector }: Programs): Readonly<Record<string, string>> {
  if (traceCollector === undefined) return {};
  return { OTEL_EXPORTER_OTLP_ENDPOINT: `http://${traceCollector}`, OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" };
}

/** Waits for the CRI plugin itself: containerd opens its socket before the plugin is ready. */
async function waitForCri(socket: string, child: ChildProcess): Promise<void> {
  const client = new Client(`unix://${socket}`, credentials.createInsecure(), {
    "grpc.initial_reconnect_backoff_ms": 20,
    "grpc.max_reconnect_backoff_ms": 50,
  });
  const raw = (bytes: Buffer) => bytes;
  const requestVersion = () =>
    new Promise<boolean>((answer) => {
      const path = "/runtime.v1.RuntimeService/Version";
      const options = { deadline: Date.now() + 2000 };
      client.makeUnaryRequest(path, raw, raw, Buffer.alloc(0), options, (error) => answer(error === null));
    });
  try {
    await pollUntil("containerd's CRI", 30_000, async () => {
      if (!isRunning(child)) throw new Error(`containerd exited with code ${child.exitCode ?? child.signalCode}`);
      return await requestVersion();
    });
  } finally {
    client.close();
  }
}

const isRunning = (child: ChildProcess) => child.exitCode === null && child.signalCode === null;

async function waitForExit(child: ChildProcess): Promise<void> {
  if (isRunning(child)) await new Promise((resolve) => child.once("exit", resolve));
}
