import type { EventSource } from "../../host/async/event-source.ts";
import type { IdleTimer } from "../../host/async/idle-timer.ts";
import type { LogRotation } from "../act/logs/log-rotation.ts";
import type { LogSymlinks } from "../act/logs/log-symlinks.ts";
import type { ProbeMarks } from "../act/probes/probe-marks.ts";
import type { DesiredPods } from "../desired/pods.ts";
import type { Loop } from "../loop/loop.ts";
import type { ObservedImages } from "../observed/image-presence.ts";
import type { PodCache } from "../observed/pods/pod-cache.ts";
import { watchRuntime } from "../observed/pods/runtime-watch.ts";
import type { Prober } from "../observed/probes/prober.ts";
import type { NodeSummary } from "../report/local/node-summary.ts";
import type { Agent, AgentOptions } from "./agent.ts";
import type { ClusterSync } from "./cluster/cluster.ts";
import type { ImageVerifier } from "./image-verifier.ts";
import type { NetworkAuditTimes } from "./network-audit-times.ts";

interface RunDeps {
  readonly desired: DesiredPods;
  readonly probes: Prober;
  readonly probeMarks: ProbeMarks;
  readonly links: LogSymlinks;
  readonly logRotation: LogRotation;
  readonly imageVerifier: ImageVerifier;
  readonly clusterSync: ClusterSync | undefined;
  readonly idleTimer: IdleTimer;
  readonly loop: Loop;
  readonly images: ObservedImages;
  readonly podsInRuntime: PodCache;
  readonly nodeSummary: NodeSummary;
  readonly runtimeListed: EventSource;
  readonly networkAudits: Pick<NetworkAuditTimes, "stop">;
  readonly wakeAll: () => void;
}

/** Returns the function that runs all components of an agent until its signal aborts. */
export function createRun({ runtime, clock, log, sources, traces }: AgentOptions, components: RunDeps): Agent["run"] {
  const { desired, probes, links, logRotation, imageVerifier, clusterSync, idleTimer, loop, images, podsInRuntime } =
    components;

  /** Compares the symlinks and records on the node with what the runtime has. */
  async function audit(): Promise<void> {
    // In the background: no pod depends on the records.
    void imageVerifier.records?.audit();
    await links.audit();
  }

  function onListed(): void {
    components.nodeSummary.onRuntimeReady();
    desired.admitPending();
    components.wakeAll();
    // The starts that the list allows come before the audit of the network.
    components.idleTimer.touch();
    components.runtimeListed.emit();
  }

  return async (signal, onRestored = () => {}) => {
    await desired.restore();
    onRestored();
    idleTimer.touch();
    await Promise.all([
      watchRuntime({ runtime, pods: podsInRuntime, images, clock, log, onListed, audit }, signal),
      ...sources.map(({ follow }) => follow(desired, signal)),
      clusterSync?.run(signal),
    ]);
    idleTimer.stop();
    components.networkAudits.stop();
    imageVerifier.stop();
    logRotation.stop();
    await Promise.all([loop.stop(), probes.stop()]);
    await Promise.all([
      links.settled(),
      logRotation.settled(),
      components.probeMarks.settled(),
      imageVerifier.settled(),
    ]);
    await traces?.stop();
  };
}
