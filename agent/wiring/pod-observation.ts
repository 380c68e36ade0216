import type { PodUid } from "../../proto/ids.ts";
import type { SyncPorts } from "../loop/ports.ts";
import { createObservedImages, type ObservedImages } from "../observed/image-presence.ts";
import { type MemoryUsageReaders, withMemoryUsage } from "../observed/pods/memory-usage.ts";
import { createPodCache, type PodCache } from "../observed/pods/pod-cache.ts";
import { createPodCgroupReader } from "../observed/pods/pod-cgroups.ts";
import { createPodDirReader } from "../observed/pods/pod-dirs.ts";
import { createTerminationMessages } from "../observed/pods/termination-message.ts";
import type { Prober } from "../observed/probes/prober.ts";
import { createProbeRecorder } from "../serve/metrics/probe-recorder.ts";
import type { AgentOptions } from "./agent.ts";
import type { ImageVerifier } from "./image-verifier.ts";
import { createPodProber, type ProbeReceivers } from "./probes.ts";

/** What the container runtime and the files show of each pod. */
export function createPodObservation(
  { runtime, clock, log, disk, cgroups }: AgentOptions,
  wake: (uid: PodUid) => void,
) {
  const images = createObservedImages({ runtime, clock });
  const podDirs = createPodDirReader(disk.root, disk.logs);
  const terminationMessages = createTerminationMessages(disk.root, disk.logs);
  const podCgroups = cgroups && createPodCgroupReader(cgroups);
  const reads = { runtime, images, podDirs, podCgroups, terminationMessages };
  return { images, podCache: createPodCache({ ...reads, clock, log, wake }), usage: { runtime, podCgroups } };
}

/** The prober of the agent's pods. */
export function createProbes(
  options: AgentOptions,
  wake: (uid: PodUid) => void,
  reporters: Omit<ProbeReceivers, "onProbeEnded">,
) {
  const { runtime, clock, log, earlyProbes, settings } = options;
  const receivers = { ...reporters, onProbeEnded: createProbeRecorder(options.metrics) };
  return createPodProber({ runtime, clock, log, wake, hostIPs: () => settings().hostIPs, earlyProbes }, receivers);
}

interface ObservationDeps {
  readonly usage: MemoryUsageReaders;
  readonly podCache: PodCache;
  readonly imageVerifier: ImageVerifier;
  readonly probes: Prober;
}

/**
 * Reads a pod, which images it may use, and the health of its containers. Changes nothing on the node and sends nothing to
 * the API server.
 */
export function createObservePort(deps: ObservationDeps): SyncPorts["observe"] {
  const { usage, podCache, imageVerifier, probes } = deps;
  return async (uid, desired) => {
    const observed = await withMemoryUsage(usage, await podCache.observe(uid, desired), desired);
    return probes.withHealth(await imageVerifier.withVerification(observed, desired), desired);
  };
}

/** Returns the function that reads an image's size; undefined if it is unknown. */
export function imageSizeReader(images: ObservedImages): (image: string) => Promise<number | undefined> {
  return async (image) => {
    const presence = await images.presence(image);
    return presence.present === true ? presence.sizeBytes : undefined;
  };
}
