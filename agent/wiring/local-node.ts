import type { Clock } from "../../host/clock.ts";
import type { Log } from "../../host/log.ts";
import type { Kube } from "../../kube/client.ts";
import { nodes } from "../../kube/resource.ts";
import type { Node, NodeAddress } from "../../proto/kubernetes/gen/types.ts";
import type { Config } from "../config/config.ts";
import { hostIPsOf, nodeAddresses } from "../decide/node/node-addresses.ts";
import { networkProblemOf } from "../decide/node/node-conditions.ts";
import { type NodeEvent, nodeReference } from "../decide/node/node-report.ts";
import type { NodeSettings } from "../decide/node/node-settings.ts";
import { noPressure, type Pressure, type Supplies } from "../decide/node/observed-node.ts";
import { decidePressure, emptyPressureMemory, type PressureSettings, signalsOf } from "../decide/node/pressure.ts";
import { createOwnNode, type OwnNode } from "../desired/node-object.ts";
import { createNodeObserver, type NodeSources } from "../observed/node/node-observer.ts";
import { createNodeLease, type LeaseState } from "../report/node/lease.ts";
import { createNodeReport, type NodeReportState } from "../report/node/node-status.ts";
import { isOfServer, isOutage } from "../report/retry.ts";

export interface NodeParts
  extends Pick<NodeSources, "runtime" | "proc" | "files" | "rootDir" | "machine" | "addresses"> {
  readonly kube: Pick<Kube, "get" | "create" | "replace" | "patch" | "follow" | "onRecovery">;
  readonly clock: Clock;
  readonly log: Log;
  /** From 0 up to 1. */
  readonly random: () => number;
  readonly settings: NodeSettings;
  readonly mayRegister: boolean;
  readonly record: (event: NodeEvent) => void;
  /** The Node object came, went or is another: who waits for its labels may go on. */
  readonly changed: () => void;
  /** The runtime can give pods a network now, or can no more. */
  readonly networkChanged: () => void;
  /** What `hostIPs` answers is other than before, because the Node object is. */
  readonly hostIPsChanged: () => void;
}

export interface NodeState {
  readonly status: NodeReportState;
  readonly lease: LeaseState;
}

/** This machine as a node of the cluster: its object, its status and its lease. */
export interface OwnNodeRoom {
  /** Keeps all of it until the signal aborts; never rejects. */
  run(signal: AbortSignal): Promise<void>;
  /** The object as the API server has it; undefined: it has none; `unknown`: it has not been heard. */
  node(): Node | undefined | "unknown";
  /** Asks for the object; true when `node` is up to date then, or will not be by asking; false when nobody answers. Never rejects. */
  ask(): Promise<boolean>;
  /** Why the runtime can give no pod a network, as it told last; undefined where it can, or has not told. */
  networkProblem(): string | undefined;
  /** The addresses that pods are told as the node's, the primary first. Where a cloud tells them, those of the Node object. */
  hostIPs(): readonly string[];
  state(): NodeState;
  /** The connection to the runtime came or went. */
  doubtRuntime(): void;
  /** An image came or went. */
  doubtImages(): void;
  /** The node's addresses may be others. */
  doubtAddresses(): void;
}

/** What the configuration says of the node. `kubeletPort` is undefined where nobody listens. */
export function nodeSettingsOf(
  { nodeName, nodeIPs, node }: Pick<Config, "nodeName" | "nodeIPs" | "node">,
  kubeletVersion: string,
  kubeletPort: number | undefined,
): NodeSettings {
  return { ...node, nodeName, nodeIPs, kubeletVersion, kubeletPort };
}

/** A runtime that hangs must not keep the node from being registered. */
const FIRST_ANSWER_WITHIN_MS = 1_000;

/** Joins what is seen of the node, what the API server has of it, and what is reported. */
export function createOwnNodeRoom(parts: NodeParts): OwnNodeRoom {
  const { clock, log, settings, record } = parts;
  const deadlineMs = Math.min(settings.nodeStatusUpdateFrequencyMs, settings.nodeLeaseDurationSeconds * 1000);

  const pressure = createPressure(log, settings, clock, wake);
  const observer = createNodeObserver({
    ...parts,
    signals: signalsOf(settings),
    askEveryMs: settings.nodeStatusUpdateFrequencyMs,
    changed: seen,
    measured: pressure.measured,
  });
  const own = createOwnNode({ ...parts, nodeName: settings.nodeName, changed, back: hurry });
  const lease = createNodeLease({ ...parts, nodeUid, deadlineMs });
  const report = createNodeReport({
    ...parts,
    observed: () => ({ ...observer.now(), pressure: pressure.now() }),
    known: own,
    // Images may also come and go without us: a report is the time to look.
    reported: observer.doubtImages,
    deadlineMs,
  });
  let leasedFor: string | undefined;
  let problemBefore: string | undefined;
  const hostIPs = createHostIPs(parts, own);

  function seen(): void {
    report.wake();
    const problem = networkProblem();
    if (problem === problemBefore) return;
    problemBefore = problem;
    parts.networkChanged();
  }

  const networkProblem = () => networkProblemOf(observer.now().runtime);

  function wake(): void {
    report.wake();
  }

  function changed(): void {
    report.wake();
    if (nodeUid() !== leasedFor) lease.hurry();
    leasedFor = nodeUid();
    parts.changed();
    hostIPs.nodeChanged();
  }

  function hurry(): void {
    report.hurry();
    lease.hurry();
  }

  function nodeUid(): string | undefined {
    const node = own.latest();
    return node === "unknown" ? undefined : node?.metadata.uid;
  }

  return {
    async run(signal) {
      record({
        object: nodeReference(settings),
        type: "Normal",
        reason: "Starting",
        message: "Starting kubelet.",
      });
      parts.kube.onRecovery(hurry, signal);
      // A node whose runtime is there is ready from the first word on.
      await observer.look(FIRST_ANSWER_WITHIN_MS);
      await Promise.all([observer.follow(signal), own.follow(signal), report.run(signal), lease.run(signal)]);
      log.debug({}, "the node is reported no more");
    },
    node: own.latest,
    ask: () => askForNode(parts, own),
    networkProblem,
    hostIPs: hostIPs.now,
    state: () => ({ status: report.state(), lease: lease.state() }),
    doubtRuntime: observer.doubtRuntime,
    doubtImages: observer.doubtImages,
    doubtAddresses: wake,
  };
}

/** The addresses that pods are told as the node's. */
function createHostIPs({ settings, addresses, hostIPsChanged }: NodeParts, own: OwnNode) {
  const now = () =>
    settings.isCloudExternal ? hostIPsOf(nodeAddresses(addresses(), toldByCloud(), settings)) : addresses();
  let before = now().join();

  function toldByCloud(): readonly NodeAddress[] {
    const node = own.latest();
    return (node === "unknown" ? undefined : node?.status?.addresses) ?? [];
  }

  return {
    now,
    nodeChanged() {
      // Who has them from this machine hears of others by the kernel.
      if (!settings.isCloudExternal || now().join() === before) return;
      before = now().join();
      hostIPsChanged();
    },
  };
}

/** Of what the node has too little, as of the last measurement. */
function createPressure(log: Log, settings: PressureSettings, clock: Clock, changed: () => void) {
  let [pressure, memory] = [noPressure, emptyPressureMemory];
  const namesOf = (felt: Pressure) =>
    Object.entries(felt)
      .filter(([, isFelt]) => isFelt)
      .map(([name]) => name);
  return {
    now: () => pressure,
    measured(supplies: Supplies) {
      const before = namesOf(pressure);
      const decided = decidePressure(supplies, memory, settings, clock.now());
      [pressure, memory] = [decided.pressure, decided.memory];
      const felt = namesOf(pressure);
      if (felt.join() === before.join()) return;
      // Which of the thresholds it is no condition says.
      if (felt.length > before.length)
        log.warn({ pressure: felt }, `the node runs short: ${decided.shortages.join("; ")}`);
      else log.info({ pressure: felt }, "the node runs short of less than it did");
      changed();
    },
  };
}

/** A server that says that it has none is not told of again: its watch says so too. */
async function askForNode({ kube, settings, log }: NodeParts, own: OwnNode): Promise<boolean> {
  try {
    own.heard(await kube.get(nodes, settings.nodeName));
  } catch (error) {
    if (isOutage(error) || isOfServer(error)) return false;
    log.debug({ err: error }, "the node's own object cannot be read");
  }
  return true;
}
