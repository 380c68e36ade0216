import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, statSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { LOCAL_SOCKET } from "../../agent/config/local-socket.ts";
import type { PodListing } from "../../agent/serve/local/pod-list.ts";
import { isEarlierRelease } from "../upgrade/earlier-release.ts";
import { bedPaths } from "./cleanup/bed-record.ts";
import { ownProcessGroup } from "./cleanup/processes.ts";
import { pickPorts } from "./ports.ts";

export interface AgentOptions {
  /** The compiled program, `dist/berth`. */
  readonly binary: string;
  readonly stateDir: string;
  /** The container runtime's socket with its scheme. */
  readonly endpoint: string;
  /** Fields of KubeletConfiguration in addition to those that the test bed sets. */
  readonly configuration?: Readonly<Record<string, unknown>>;
  /** The cluster that the agent joins; without it the agent runs static pods only. */
  readonly cluster?: JoinedCluster;
  /** Further command-line arguments. */
  readonly flags?: readonly string[];
}

/** A cluster for the agent to join. */
export interface JoinedCluster {
  /** The path of the kubeconfig, with the node's credentials. */
  readonly kubeconfig: string;
  readonly nodeName: string;
}

/** The flag of every agent that a test starts on this machine, whose kernel settings are not its own. Earlier releases set none. */
export const keepsKernelTunables = "--set-kernel-tunables=false";

/** The name of a node without a cluster. */
export const standaloneNodeName = "berth";

/** A running agent of a test bed. */
export interface Agent {
  readonly pid: number;
  /** The start time of its process, in milliseconds since the epoch. */
  readonly startedAt: number;
  /** The folder of manifests it watches. */
  readonly manifests: string;
  readonly logFile: string;
  readonly isRunning: boolean;
  /** Resolves when the process ends, with how it ended: `was ended by SIGKILL`, `exited with code 1`. */
  readonly ended: Promise<string>;
  /** The command that shows its pods, ready for more options. */
  readonly podsArgv: readonly string[];
  /** The current pods; rejects while no agent answers on the socket. */
  pods(): Promise<PodListing>;
  /**
   * The output of `berth pods --watch`: the current pods, and again after each change, until `signal` or the agent's
   * end.
   */
  watch(signal: AbortSignal): AsyncGenerator<PodListing>;
  kill9(): Promise<void>;
  /** Stops the agent; its pods keep running. */
  stop(): Promise<void>;
}

/** Starts the compiled agent below `stateDir` and logs to a file there. Returns before the agent answers. */
export async function startAgent(options: AgentOptions): Promise<Agent> {
  const { binary, stateDir, endpoint, configuration, cluster, flags = [] } = options;
  const paths = bedPaths(stateDir);
  for (const folder of [paths.manifests, paths.agentRoot, paths.podLogs]) await mkdir(folder, { recursive: true });
  const api = cluster === undefined ? {} : await apiSettings(stateDir, paths.agentConfig, cluster);
  await writeFile(paths.agentConfig, kubeletConfiguration({ ...paths, endpoint }, { ...api, ...configuration }));
  const log = openSync(paths.agentLog, "a");
  const certDir = join(paths.agentRoot, "pki");
  const pathFlags = ["--config", paths.agentConfig, "--root-dir", paths.agentRoot, "--cert-dir", certDir];
  const own = isEarlierRelease(binary) ? [] : [keepsKernelTunables];
  const argv = ["run", ...pathFlags, "--hostname-override", cluster?.nodeName ?? standaloneNodeName, ...own, ...flags];
  if (cluster !== undefined) argv.push("--kubeconfig", cluster.kubeconfig);
  const startedAt = Date.now();
  const child = spawn(binary, argv, { ...ownProcessGroup, stdio: ["ignore", log, log] });
  closeSync(log);
  const ended = new Promise<string>((resolve) => {
    // A failure to start the program is reported as the end of the agent.
    child.once("error", ({ message }) => resolve(`could not be started: ${message}`));
    child.once("exit", (code, signal) =>
      resolve(signal === null ? `exited with code ${code}` : `was ended by ${signal}`),
    );
  });
  const podsArgv = [binary, "pods", "--root-dir", paths.agentRoot] as const;
  return {
    pid: child.pid ?? 0,
    startedAt,
    manifests: paths.manifests,
    logFile: paths.agentLog,
    podsArgv,
    get isRunning() {
      return isRunning(child);
    },
    ended,
    async pods() {
      const answer = await fetch("http://berth/pods", { unix: join(paths.agentRoot, LOCAL_SOCKET) });
      return (await answer.json()) as PodListing;
    },
    async *watch(signal) {
      const [program, ...args] = [...podsArgv, "--output", "json", "--watch"] as const;
      // In its own process group: a Ctrl-C that ended this command would look like the end of the agent.
      const command = spawn(program, args, { ...ownProcessGroup, stdio: ["ignore", "pipe", "ignore"] });
      const stopCommand = () => command.kill();
      signal.addEventListener("abort", stopCommand);
      try {
        for await (const line of createInterface({ input: command.stdout })) yield JSON.parse(line) as PodListing;
      } finally {
        signal.removeEventListener("abort", stopCommand);
        stopCommand();
      }
    },
    kill9: () => end(child, "SIGKILL"),
    stop: () => end(child, "SIGTERM"),
  };
}

/**
 * The settings of the node's API: a port of its own, since there may be several agents on a machine, which it keeps when it
 * starts again, and as client CA the cluster's, if the kubeconfig contains it.
 */
async function apiSettings(
  stateDir: string,
  agentConfig: string,
  { kubeconfig }: JoinedCluster,
): Promise<Readonly<Record<string, unknown>>> {
  // Before its first start the agent has no configuration; a test may write the kubeconfig later, or have a folder there.
  const isFile = (path: string) => statSync(path, { throwIfNoEntry: false })?.isFile() === true;
  const textOf = async (path: string) => (isFile(path) ? await readFile(path, "utf8") : "");
  const port = /"port": (\d+)/.exec(await textOf(agentConfig))?.[1] ?? (await pickPorts(1))[0];
  const ca = /"certificate-authority-data": "([^"]+)"/.exec(await textOf(kubeconfig))?.[1];
  if (ca === undefined) return { enableServer: true, port: Number(port) };
  const clientCAFile = join(stateDir, "client-ca.crt");
  await writeFile(clientCAFile, Buffer.from(ca, "base64"));
  return { enableServer: true, port: Number(port), authentication: { x509: { clientCAFile } } };
}

/**
 * The KubeletConfiguration of a test bed's agent, as JSON, which is valid YAML. `cgroupsPerQOS` is off because a
 * sandboxed machine has no cgroup v2 controllers to delegate. No port is served: there may be several agents on a machine.
 */
export function kubeletConfiguration(
  paths: { readonly manifests: string; readonly podLogs: string; readonly endpoint: string },
  overrides: Readonly<Record<string, unknown>> = {},
): string {
  const configuration = {
    apiVersion: "kubelet.config.k8s.io/v1beta1",
    kind: "KubeletConfiguration",
    staticPodPath: paths.manifests,
    containerRuntimeEndpoint: paths.endpoint,
    podLogsDir: paths.podLogs,
    cgroupsPerQOS: false,
    enforceNodeAllocatable: [],
    failCgroupV1: false,
    failSwapOn: false,
    enableServer: false,
    healthzPort: 0,
    // A machine without CAP_SYS_RESOURCE refuses more; the OOM killer chooses the agent of a test before others.
    oomScoreAdj: 0,
    maxOpenFiles: 4096,
    ...overrides,
  };
  return `${JSON.stringify(configuration, null, 2)}\n`;
}

/** The program that `npm run build` creates. */
export const builtBinary = join(import.meta.dirname, "..", "..", "dist", "berth");

const isRunning = (child: ChildProcess) =>
  child.pid !== undefined && child.exitCode === null && child.signalCode === null;

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (!isRunning(child)) return;
  const exited = new Promise((resolve) => child.once("exit", resolve));
  child.kill(signal);
  const killTimer = setTimeout(() => child.kill("SIGKILL"), 10_000);
  await exited;
  clearTimeout(killTimer);
}
