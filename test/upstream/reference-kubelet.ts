import { mkdir, writeFile } from "node:fs/promises";
import { networkInterfaces } from "node:os";
import { basename, join } from "node:path";
import { bedPaths } from "../bed/cleanup/bed-record.ts";
import { listProcesses } from "../bed/cleanup/processes.ts";
import { pickPorts } from "../bed/ports.ts";
import type { ControlPlane } from "./control-plane.ts";
import { startDaemon, waitUntilReady } from "./daemon.ts";
import { ensurePrograms } from "./programs.ts";

export interface ReferenceKubeletOptions {
  readonly controlPlane: ControlPlane;
  readonly nodeName: string;
  /** The container runtime's socket with its scheme. Each kubelet needs a runtime of its own. */
  readonly endpoint: string;
  /** The state folder of the runtime's bed, whose clean-up also removes the kubelet. */
  readonly stateDir: string;
  /** The node's address, which must be on an interface; default: the machine's own. */
  readonly nodeIp?: string;
  /** The root directory, for a kubelet that takes over a node or hands it over; default: one of its own. */
  readonly rootDir?: string;
  /** Additional fields of KubeletConfiguration. They override those of the test bed. */
  readonly configuration?: Readonly<Record<string, unknown>>;
  /** Additional flags. */
  readonly flags?: readonly string[];
  readonly print?: (line: string) => void;
}

/** The upstream kubelet as a node of a control plane, with which Berth is compared. */
export interface ReferenceKubelet {
  readonly pid: number;
  /** The start time of its process, in milliseconds since the epoch. */
  readonly startedAt: number;
  readonly logFile: string;
  readonly isRunning: boolean;
  kill9(): Promise<void>;
  /** Stops the kubelet; its pods keep running. */
  stop(): Promise<void>;
}

/**
 * Starts the upstream kubelet and returns once its healthz succeeds; its node is Ready some seconds later. Throws with
 * one line if the program is unavailable or another kubelet runs on the machine, and with the end of its log if it
 * exits.
 */
export async function startReferenceKubelet(options: ReferenceKubeletOptions): Promise<ReferenceKubelet> {
  const { controlPlane, nodeName, endpoint, stateDir, nodeIp = machineAddress(), configuration, print } = options;
  const programs = await ensurePrograms(["kubelet"], print);
  await rejectForeignKubelet();
  const { kubeletConfig, kubeletLog, podLogs, ...paths } = bedPaths(stateDir);
  const { rootDir: kubeletRoot = paths.kubeletRoot } = options;
  for (const folder of [kubeletRoot, podLogs]) await mkdir(folder, { recursive: true });
  const clientCaFile = join(kubeletRoot, "client-ca.crt");
  await writeFile(clientCaFile, controlPlane.ca);
  const [port = 0, healthzPort = 0] = await pickPorts(2);
  const fields = { port, healthzPort, nodeIp, endpoint, podLogs, clientCaFile };
  await writeFile(kubeletConfig, referenceConfiguration(fields, configuration));
  const args = [
    `--config=${kubeletConfig}`,
    `--kubeconfig=${await controlPlane.nodeKubeconfig(nodeName)}`,
    `--root-dir=${kubeletRoot}`,
    `--cert-dir=${join(kubeletRoot, "pki")}`,
    `--hostname-override=${nodeName}`,
    `--node-ip=${nodeIp}`,
    ...(options.flags ?? []),
  ];
  const daemon = startDaemon(join(programs, "kubelet"), args, kubeletLog);
  try {
    await waitUntilReady(daemon, `http://127.0.0.1:${healthzPort}/healthz`);
  } catch (error) {
    await daemon.end("SIGKILL");
    throw error;
  }
  return {
    pid: daemon.pid,
    startedAt: daemon.startedAt,
    logFile: daemon.logFile,
    get isRunning() {
      return daemon.isRunning;
    },
    kill9: () => daemon.end("SIGKILL"),
    stop: () => daemon.end("SIGTERM"),
  };
}

/**
 * A kubelet that starts disconnects the device plugins of any other kubelet on the machine. Kubelets of test beds have
 * none.
 */
async function rejectForeignKubelet(): Promise<void> {
  const kubelets = (await listProcesses()).filter(({ argv }) => basename(argv[0] ?? "") === "kubelet");
  const foreign = kubelets.find(({ argv }) => !argv.some((arg) => arg.endsWith("/reference-kubelet.yaml")));
  if (foreign === undefined) return;
  const reason = "the reference kubelet would disconnect its device plugins";
  throw new Error(`a kubelet outside the tests runs on this machine as process ${foreign.pid}; ${reason}`);
}

/**
 * The settings of every reference kubelet. A sandboxed machine delegates no cgroup v2 controllers and does not allow a
 * lower oom_score_adj or less swap.
 */
export const referenceSettings = {
  cgroupsPerQOS: false,
  enforceNodeAllocatable: [],
  failCgroupV1: false,
  failSwapOn: false,
  localStorageCapacityIsolation: false,
  makeIPTablesUtilChains: false,
  oomScoreAdj: 0,
} as const;

/** The content of a configuration file: the settings, with addresses and paths, and `overrides` before both. */
function referenceConfiguration(
  fields: {
    readonly port: number;
    readonly healthzPort: number;
    readonly nodeIp: string;
    readonly endpoint: string;
    readonly podLogs: string;
    readonly clientCaFile: string;
  },
  overrides: Readonly<Record<string, unknown>> = {},
): string {
  const configuration = {
    apiVersion: "kubelet.config.k8s.io/v1beta1",
    kind: "KubeletConfiguration",
    address: fields.nodeIp,
    port: fields.port,
    healthzPort: fields.healthzPort,
    containerRuntimeEndpoint: fields.endpoint,
    podLogsDir: fields.podLogs,
    authentication: { anonymous: { enabled: false }, x509: { clientCAFile: fields.clientCaFile } },
    ...referenceSettings,
    ...overrides,
  };
  return `${JSON.stringify(configuration, null, 2)}\n`;
}

/** The first IPv4 address of this machine that is not a loopback address, which a node must not have. */
function machineAddress(): string {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  const found = all.find(({ family, internal }) => family === "IPv4" && !internal);
  if (found === undefined) throw new Error("this machine has only loopback addresses; set nodeIp for the kubelet");
  return found.address;
}
