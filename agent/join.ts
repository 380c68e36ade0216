import type { CriRuntime } from "../cri/client.ts";
import type { Clock } from "../host/clock.ts";
import { createExec } from "../host/exec.ts";
import type { Files } from "../host/fs/files.ts";
import type { Log } from "../host/log.ts";
import type { Proc } from "../host/proc.ts";
import type { ClusterSource } from "../kube/auth/cluster-endpoint.ts";
import { readInCluster } from "../kube/auth/in-cluster.ts";
import { readKubeconfig } from "../kube/auth/kubeconfig.ts";
import { createKube } from "../kube/client.ts";
import { KubeError } from "../kube/error.ts";
import { createConnection } from "../kube/transport/connection.ts";
import { kubernetesVersion } from "../proto/kubernetes/version.ts";
import type { ClusterPlace, Config } from "./config/config.ts";
import { type NodeEvent, nodeReference } from "./decide/node/node-report.ts";
import type { ObservedMachine } from "./decide/node/observed-node.ts";
import type { Taken } from "./decide/pod/action-call.ts";
import { kubeletVersion } from "./kubelet-version.ts";
import { StartError } from "./preflight/start-error.ts";
import type { ClusterStatus } from "./serve/local/agent-status.ts";
import { type Cluster, type ClusterNeeds, createCluster } from "./wiring/cluster.ts";
import { clusterStatus, withWatchState } from "./wiring/cluster-status.ts";
import { createOwnNodeRoom, nodeSettingsOf } from "./wiring/local-node.ts";

export interface JoinParts {
  readonly config: Config;
  /** Where it stands which cluster it is. */
  readonly place: ClusterPlace;
  readonly machine: Files;
  readonly proc: Proc;
  readonly observedMachine: ObservedMachine;
  readonly runtime: CriRuntime;
  readonly addresses: () => readonly string[];
  readonly clock: Clock;
  readonly log: Log;
  /** From 0 up to 1, for jitter. */
  readonly random: () => number;
}

/** What makes this machine a node of a cluster. */
export interface Membership {
  /** Makes the rooms that face the cluster; called once, by the agent. */
  readonly join: (needs: ClusterNeeds) => Cluster;
  /** Keeps the Node object and its lease until the signal aborts; never rejects. */
  run(signal: AbortSignal): Promise<void>;
  /** Something has happened to the node, as its events tell it. */
  tell(event: Omit<NodeEvent, "object">): void;
  /** The node's addresses may be others. */
  doubtAddresses(): void;
  /** The connection to the container runtime came or went. */
  doubtRuntime(): void;
  /** The addresses that pods are told as the node's, the primary first. */
  hostIPs(): readonly string[];
  /** What `berth status` says of the cluster. */
  state(): ClusterStatus;
  close(): void;
}

/**
 * The adapters and rooms that only a node of a cluster needs; whoever stands alone never loads this file. Throws `StartError` where
 * what says which cluster it is cannot be used. Nothing is sent before `run`.
 */
export async function becomeMember(parts: JoinParts): Promise<Membership> {
  const { config, machine, runtime, clock, log, random } = parts;
  const cluster = await readCluster(parts);
  const rates = { main: config.kubeAPI, events: config.events };
  const connection = createConnection({
    cluster,
    nodeName: config.nodeName,
    userAgent: userAgent(),
    rates,
    clock,
    log,
    random,
  });
  const kube = createKube({ connection, clock, log, random });
  const watched = withWatchState(kube, clock);
  let joined: Cluster | undefined;
  // Nobody has any before the agent is made.
  let wakePods = () => {};
  const room = createOwnNodeRoom({
    kube,
    runtime,
    proc: parts.proc,
    files: machine,
    rootDir: config.rootDir,
    clock,
    log,
    random,
    settings: nodeSettingsOf(config, kubeletVersion, undefined),
    mayRegister: config.node.registerNode,
    machine: parts.observedMachine,
    addresses: parts.addresses,
    record: ({ object, ...event }) => joined?.recorder.record(object, event),
    changed() {
      const node = room.node();
      if (node !== "unknown") joined?.node(node);
    },
    networkChanged: () => wakePods(),
    hostIPsChanged: () => wakePods(),
  });

  return {
    join(needs) {
      const ownNode = { latest: room.node, ask: room.ask };
      wakePods = needs.telling.wakeAll;
      const { networkProblem } = room;
      const facing = { kube: watched.kube, nodeName: config.nodeName, clock, log, random, ownNode, networkProblem };
      const rooms = createCluster(facing, needs);
      joined = {
        ...rooms,
        took(taken) {
          if (hasBroughtImage(taken)) room.doubtImages();
          rooms.took(taken);
        },
      };
      return joined;
    },
    run: room.run,
    tell: (event) => joined?.recorder.record(nodeReference(config), event),
    doubtAddresses: room.doubtAddresses,
    doubtRuntime: room.doubtRuntime,
    hostIPs: room.hostIPs,
    state() {
      const server = cluster.server();
      return clusterStatus({ server, connection: connection.state(), node: room.state(), watch: watched.watch() });
    },
    close: connection.close,
  };
}

async function readCluster({ place, machine, clock, log }: JoinParts): Promise<ClusterSource> {
  const told = { files: machine, environment: process.env, clock, log };
  try {
    if (place.kind === "in-cluster") return readInCluster(told);
    return await readKubeconfig({ ...told, path: place.path, exec: createExec() });
  } catch (error) {
    if (!(error instanceof KubeError)) throw error;
    throw new StartError(error.message, { cause: error });
  }
}

function hasBroughtImage({ action, result }: Taken): boolean {
  return action.kind === "pullImage" && typeof result !== "string" && result.ok;
}

/** As the kubelet's: program, platform. */
function userAgent(): string {
  return `berth/${kubernetesVersion} (linux/${process.arch === "x64" ? "amd64" : process.arch})`;
}
