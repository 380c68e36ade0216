import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { localSocket } from "../../agent/config/local-socket.ts";
import type { PodListing } from "../../agent/serve/local/pod-list.ts";
import { bedPaths } from "./cleanup/bed-record.ts";
import { apart } from "./cleanup/processes.ts";

export interface AgentOptions {
  /** The compiled program, `dist/berth`. */
  readonly binary: string;
  readonly stateDir: string;
  /** The container runtime's socket with its scheme. */
  readonly endpoint: string;
  /** Fields of KubeletConfiguration on top of those the test bed needs. */
  readonly configuration?: Readonly<Record<string, unknown>>;
  /** Where its pods come from besides the manifests; the agent stands alone if not given. */
  readonly cluster?: JoinedCluster;
  /** More of the command line. */
  readonly flags?: readonly string[];
}

/** A cluster to be a node of. */
export interface JoinedCluster {
  /** The file that says where it is, and who the node is to it. */
  readonly kubeconfig: string;
  readonly nodeName: string;
}

/** The name of a node that stands alone. */
export const aloneName = "berth";

/** An agent that runs the manifests of its folder, and the pods of its cluster if it has one. */
export interface Agent {
  readonly pid: number;
  /** When its process was begun, in milliseconds since the epoch. */
  readonly startedAt: number;
  /** The folder of manifests it watches. */
  readonly manifests: string;
  readonly logFile: string;
  readonly isRunning: boolean;
  /** Resolves when it has ended, with how: `was ended by SIGKILL`, `exited with code 1`. */
  readonly ended: Promise<string>;
  /** The command that shows its pods, ready for more options. */
  readonly podsArgv: readonly string[];
  /** What the agent shows now; rejects while none answers. */
  pods(): Promise<PodListing>;
  /** What `berth pods --watch` prints: the pods now, and again after every change, until `signal` or the agent's end. */
  watch(signal: AbortSignal): AsyncGenerator<PodListing>;
  kill9(): Promise<void>;
  /** Ends the agent; its pods go on. */
  stop(): Promise<void>;
}

/** Starts the compiled agent below `stateDir`, with its output in a file. Returns at once: ask for its pods to see it up. */
export async function startAgent(options: AgentOptions): Promise<Agent> {
  const { binary, stateDir, endpoint, configuration, cluster, flags = [] } = options;
  const paths = bedPaths(stateDir);
  for (const folder of [paths.manifests, paths.agentRoot, paths.podLogs]) await mkdir(folder, { recursive: true });
  await writeFile(paths.agentConfig, kubeletConfiguration({ ...paths, endpoint }, configuration));
  const log = openSync(paths.agentLog, "a");
  const places = ["--config", paths.agentConfig, "--root-dir", paths.agentRoot];
  const argv = ["run", ...places, "--hostname-override", cluster?.nodeName ?? aloneName, ...flags];
  if (cluster !== undefined) argv.push("--kubeconfig", cluster.kubeconfig);
  const startedAt = Date.now();
  const child = spawn(binary, argv, { ...apart, stdio: ["ignore", log, log] });
  closeSync(log);
  const ended = new Promise<string>((resolve) => {
    // A program that cannot be started shows as an agent that has ended.
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
      const answer = await fetch("http://berth/pods", { unix: join(paths.agentRoot, localSocket) });
      return (await answer.json()) as PodListing;
    },
    async *watch(signal) {
      const [program, ...args] = [...podsArgv, "--output", "json", "--watch"] as const;
      // Apart, since a Ctrl-C that ended it too would look like the agent's own end.
      const command = spawn(program, args, { ...apart, stdio: ["ignore", "pipe", "ignore"] });
      const leave = () => command.kill();
      signal.addEventListener("abort", leave);
      try {
        for await (const line of createInterface({ input: command.stdout })) yield JSON.parse(line) as PodListing;
      } finally {
        signal.removeEventListener("abort", leave);
        leave();
      }
    },
    kill9: () => end(child, "SIGKILL"),
    stop: () => end(child, "SIGTERM"),
  };
}

/**
 * The configuration of an agent in a test bed, as JSON, which is YAML. A sandboxed machine has no cgroup v2 controllers
 * to give, so the agent writes no cgroups.
 */
export function kubeletConfiguration(
  places: { readonly manifests: string; readonly podLogs: string; readonly endpoint: string },
  more: Readonly<Record<string, unknown>> = {},
): string {
  const configuration = {
    apiVersion: "kubelet.config.k8s.io/v1beta1",
    kind: "KubeletConfiguration",
    staticPodPath: places.manifests,
    containerRuntimeEndpoint: places.endpoint,
    podLogsDir: places.podLogs,
    cgroupsPerQOS: false,
    enforceNodeAllocatable: [],
    failCgroupV1: false,
    failSwapOn: false,
    ...more,
  };
  return `${JSON.stringify(configuration, null, 2)}\n`;
}

/** Where the program is that `npm run build` makes. */
export const builtBinary = join(import.meta.dirname, "..", "..", "dist", "berth");

const isRunning = (child: ChildProcess) =>
  child.pid !== undefined && child.exitCode === null && child.signalCode === null;

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (!isRunning(child)) return;
  const exited = new Promise((resolve) => child.once("exit", resolve));
  child.kill(signal);
  const giveUp = setTimeout(() => child.kill("SIGKILL"), 10_000);
  await exited;
  clearTimeout(giveUp);
}
