import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Client, credentials } from "@grpc/grpc-js";
import { execa } from "execa";
import { type BedRecord, bedPaths, claim, findAbandoned } from "../cleanup/bed-record.ts";
import type { Leftovers } from "../cleanup/bed-resources.ts";
import { cleanUp } from "../cleanup/clean-up.ts";
import { apart } from "../cleanup/processes.ts";
import { pauseImage } from "../images/images.ts";
import { unpackSuite } from "../packages.ts";
import { until } from "../poll-until.ts";
import { type ContainerdPlan, cniConflist, configFormat2, configFormat3 } from "./containerd-config.ts";

export type ContainerdVersion = "1.6" | "2.1";

export interface ContainerdOptions {
  /** The release to run; 1.6 (Debian 12's) if not given. */
  readonly version?: ContainerdVersion;
  /** The OCI runtime; Debian 12's runc if not given. */
  readonly runc?: string;
  /** The folder that holds everything this containerd writes. Made if absent; one containerd each. */
  readonly stateDir: string;
  readonly say?: (line: string) => void;
}

/** A private containerd with its own bridge and subnet. */
export interface Containerd {
  readonly version: ContainerdVersion;
  /** `unix://` and the socket's path, as CRI clients want it. */
  readonly endpoint: string;
  readonly socket: string;
  /** The process id, 0 while it does not run. */
  readonly pid: number;
  readonly logFile: string;
  readonly bridge: string;
  readonly subnet: string;
  /** containerd's folder of `HOST/hosts.toml` files, read anew at every pull. */
  readonly registryHosts: string;
  readonly record: BedRecord;
  /** `ctr` on this containerd, ready for a command. */
  readonly ctrArgv: readonly [program: string, ...args: string[]];
  /** Runs `ctr` on this containerd and returns what it prints. */
  ctr(args: readonly string[]): Promise<string>;
  /** Kills containerd alone: its pods go on. */
  kill9(): Promise<void>;
  /** Starts it again after {@link kill9}, or ends it with SIGTERM and starts it; pods go on. */
  restart(): Promise<void>;
  /** Ends containerd and all its pods and removes every trace but the log. Returns what was there to remove. */
  stop(): Promise<Leftovers>;
}

/**
 * Starts a private containerd below `stateDir` and returns once its CRI answers. What an earlier owner of the folder
 * left behind is removed first. Throws if a living process uses the folder, or with the end of its log if it exits.
 */
export async function startContainerd(options: ContainerdOptions): Promise<Containerd> {
  const { version = "1.6", runc, stateDir, say } = options;
  const found = await findPrograms(version, say);
  const programs = runc === undefined ? found : { ...found, runc };
  const abandoned = await findAbandoned(stateDir);
  if (abandoned !== undefined) await cleanUp(abandoned);
  const record = await claim(stateDir);
  const paths = bedPaths(record.stateDir);
  await writeConfiguration(record, version, programs);
  await makePortmapChains();
  let child = await launch(paths, programs).catch(async (error: unknown) => {
    await cleanUp(record);
    throw error;
  });

  const end = async (signal: NodeJS.Signals) => {
    child.kill(signal);
    await ended(child);
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
      const { stdout } = await execa(program, [...address, ...args], apart);
      return stdout;
    },
    kill9: () => end("SIGKILL"),
    async restart() {
      await end("SIGTERM");
      child = await launch(paths, programs);
    },
    async stop() {
      await end("SIGTERM");
      return await cleanUp(record);
    },
  };
}

interface Programs {
  readonly folder: string;
  readonly containerd: string;
  readonly ctr: string;
  readonly runc: string;
  readonly cniBinDir: string;
}

/** containerd 2.1 is given Debian 12's runc: forky's needs a newer libc. */
async function findPrograms(version: ContainerdVersion, say?: (line: string) => void): Promise<Programs> {
  const own = await unpackSuite("bookworm", say);
  const { root } = version === "2.1" ? await unpackSuite("forky", say) : own;
  const folder = join(root, "usr/bin");
  return {
    folder,
    containerd: join(folder, "containerd"),
    ctr: join(folder, "ctr"),
    runc: join(own.root, "usr/sbin/runc"),
    cniBinDir: join(own.root, "usr/lib/cni"),
  };
}

async function writeConfiguration(bed: BedRecord, version: ContainerdVersion, programs: Programs): Promise<void> {
  const paths = bedPaths(bed.stateDir);
  const folders = [paths.home, paths.cniConfDir, paths.cniLeases, paths.registryHosts];
  for (const folder of folders) await mkdir(folder, { recursive: true });
  const plan: ContainerdPlan = { ...paths, runc: programs.runc, cniBinDir: programs.cniBinDir, pauseImage };
  const { network: name, bridge, subnet } = bed;
  await writeFile(paths.config, version === "2.1" ? configFormat3(plan) : configFormat2(plan));
  await writeFile(
    join(paths.cniConfDir, "10-berth.conflist"),
    cniConflist({ name, bridge, subnet, leases: paths.cniLeases }),
  );
}

/**
 * The chains that portmap shares among all pods of the machine. It looks for one, and makes it where it is not there: of two that do so at
 * once, for pods of two containerds say, one fails, and its sandbox with it.
 */
async function makePortmapChains(): Promise<void> {
  // Refused where it is there already.
  for (const chain of ["CNI-HOSTPORT-DNAT", "CNI-HOSTPORT-MASQ", "CNI-HOSTPORT-SETMARK"])
    await execa("iptables", ["--wait", "--table", "nat", "--new-chain", chain], { ...apart, reject: false });
}

async function launch(paths: ReturnType<typeof bedPaths>, programs: Programs): Promise<ChildProcess> {
  const log = openSync(paths.log, "a");
  const child = spawn(programs.containerd, ["--config", paths.config], {
    ...apart,
    stdio: ["ignore", log, log],
    // First in PATH, so that the shim of the same release is found.
    env: { ...process.env, PATH: `${programs.folder}:${process.env["PATH"] ?? ""}` },
  });
  closeSync(log);
  try {
    await criAnswers(paths.socket, child);
    return child;
  } catch (cause) {
    child.kill("SIGKILL");
    throw new Error(`containerd does not answer; its log is ${paths.log}`, { cause });
  }
}

/** containerd opens its socket before the CRI plugin is ready, so the plugin itself is asked. */
async function criAnswers(socket: string, child: ChildProcess): Promise<void> {
  const client = new Client(`unix://${socket}`, credentials.createInsecure(), {
    "grpc.initial_reconnect_backoff_ms": 20,
    "grpc.max_reconnect_backoff_ms": 50,
  });
  const raw = (bytes: Buffer) => bytes;
  const ask = () =>
    new Promise<boolean>((answer) => {
      const path = "/runtime.v1.RuntimeService/Version";
      const options = { deadline: Date.now() + 2000 };
      client.makeUnaryRequest(path, raw, raw, Buffer.alloc(0), options, (error) => answer(error === null));
    });
  try {
    await until("containerd's CRI", 30_000, async () => {
      if (!isRunning(child)) throw new Error(`containerd exited with code ${child.exitCode ?? child.signalCode}`);
      return await ask();
    });
  } finally {
    client.close();
  }
}

const isRunning = (child: ChildProcess) => child.exitCode === null && child.signalCode === null;

async function ended(child: ChildProcess): Promise<void> {
  if (isRunning(child)) await new Promise((resolve) => child.once("exit", resolve));
}
