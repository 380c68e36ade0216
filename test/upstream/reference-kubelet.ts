import { mkdir, writeFile } from "node:fs/promises";
import { networkInterfaces } from "node:os";
import { basename, join } from "node:path";
import { bedPaths } from "../bed/cleanup/bed-record.ts";
import { listProcesses } from "../bed/cleanup/processes.ts";
import { pickPorts } from "../bed/ports.ts";
import type { ControlPlane } from "./control-plane.ts";
import { answers, startDaemon } from "./daemon.ts";
import { findPrograms } from "./programs.ts";

export interface ReferenceKubeletOptions {
  readonly controlPlane: ControlPlane;
  readonly nodeName: string;
  /** The container runtime's socket with its scheme. One runtime each. */
  readonly endpoint: string;
  /** The state folder of the runtime's bed, whose clean-up takes the kubelet along. */
  readonly stateDir: string;
  /** The node's address, which must be on an interface; the machine's own if not given. */
  readonly nodeIp?: string;
  /** Fields of KubeletConfiguration on top of those the test bed needs. */
  readonly configuration?: Readonly<Record<string, unknown>>;
  readonly say?: (line: string) => void;
}

/** The upstream kubelet as a node of a control plane: the peer that Berth is compared with. */
export interface ReferenceKubelet {
  readonly pid: number;
  /** When its process was begun, in milliseconds since the epoch. */
  readonly startedAt: number;
  readonly logFile: string;
  readonly isRunning: boolean;
  kill9(): Promise<void>;
  /** Ends the kubelet; its pods go on. */
  stop(): Promise<void>;
}

/**
 * Starts the upstream kubelet and returns once it says that it is healthy; its node is Ready some seconds later. Throws
 * with one clear line where the program cannot be had or the machine has a kubelet of its own, or with the end of its log
 * if it ends at once.
 */
export async function startReferenceKubelet(options: ReferenceKubeletOptions): Promise<ReferenceKubelet> {
  const { controlPlane, nodeName, endpoint, stateDir, nodeIp = machineAddress(), configuration, say } = options;
  const programs = await findPrograms(["kubelet"], say);
  await refuseBesideStranger();
  const { kubeletConfig, kubeletRoot, kubeletLog, podLogs } = bedPaths(stateDir);
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
  ];
  const daemon = startDaemon(join(programs, "kubelet"), args, kubeletLog);
  try {
    await answers(daemon, `http://127.0.0.1:${healthzPort}/healthz`);
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

/** A kubelet that starts cuts off the device plugins of any other on the machine, which in a test bed has none. */
async function refuseBesideStranger(): Promise<void> {
  const kubelets = (await listProcesses()).filter(({ argv }) => basename(argv[0] ?? "") === "kubelet");
  const stranger = kubelets.find(({ argv }) => !argv.some((word) => word.endsWith("/reference-kubelet.yaml")));
  if (stranger === undefined) return;
  const reason = "the reference kubelet would cut off its device plugins";
  throw new Error(`a kubelet that is not of a test runs on this machine as process ${stranger.pid}; ${reason}`);
}

/** A sandboxed machine has no cgroup v2 controllers to give, and no right to more weight or less swap. */
function referenceConfiguration(
  fields: {
    readonly port: number;
    readonly healthzPort: number;
    readonly nodeIp: string;
    readonly endpoint: string;
    readonly podLogs: string;
    readonly clientCaFile: string;
  },
  more: Readonly<Record<string, unknown>> = {},
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
    cgroupsPerQOS: false,
    enforceNodeAllocatable: [],
    failCgroupV1: false,
    failSwapOn: false,
    localStorageCapacityIsolation: false,
    makeIPTablesUtilChains: false,
    oomScoreAdj: 0,
    ...more,
  };
  return `${JSON.stringify(configuration, null, 2)}\n`;
}

/** The first IPv4 address of this machine that is not a loopback, which no node may have. */
function machineAddress(): string {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  const found = all.find(({ family, internal }) => family === "IPv4" && !internal);
  if (found === undefined) throw new Error("this machine has no address but its loopback; give the kubelet a nodeIp");
  return found.address;
}
