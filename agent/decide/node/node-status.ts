import type {
  ContainerImage,
  NodeRuntimeHandler,
  NodeStatus,
  NodeSystemInfo,
} from "../../../proto/kubernetes/gen/types.ts";
import { nodeAddresses } from "./node-addresses.ts";
import { nodeConditions } from "./node-conditions.ts";
import { nodeResources } from "./node-resources.ts";
import type { NodeSettings } from "./node-settings.ts";
import type { NodeImage, ObservedNode, RuntimeHandlerFeatures } from "./observed-node.ts";

const MAX_NAMES_PER_IMAGE = 5;

/**
 * The status of the Node: what this agent knows, over `before`, of which it keeps the fields of others (their
 * conditions and resources, attached volumes). Total: unknown values are left out.
 */
export function nodeStatus(
  observed: ObservedNode,
  before: NodeStatus,
  settings: NodeSettings,
  now: number,
): NodeStatus {
  const { capacity, allocatable } = nodeResources(observed.machine, before, settings);
  const { declaredFeatures: _, ...others } = before;
  return {
    ...others,
    addresses: nodeAddresses(observed.addresses, before.addresses ?? [], settings),
    allocatable,
    capacity,
    conditions: nodeConditions(observed, capacity, before.conditions ?? [], settings, now),
    ...(settings.kubeletPort === undefined
      ? {}
      : { daemonEndpoints: { kubeletEndpoint: { Port: settings.kubeletPort } } }),
    ...(settings.declaredFeatures.length === 0 ? {} : { declaredFeatures: settings.declaredFeatures }),
    ...runtimeFeatures(observed),
    ...(observed.images === undefined ? {} : { images: nodeImages(observed.images, settings.nodeStatusMaxImages) }),
    nodeInfo: nodeSystemInfo(observed, before.nodeInfo, settings),
  };
}

/** The runtime's features; while the runtime has not reported any, the reported ones stay. */
function runtimeFeatures({ runtime }: ObservedNode): Pick<NodeStatus, "runtimeHandlers" | "features"> {
  const { conditions, handlers, supplementalGroupsPolicy } = runtime;
  if (conditions === undefined) return {};
  return {
    runtimeHandlers: handlers.toSorted((a, b) => (a.name < b.name ? -1 : 1)).map(runtimeHandler),
    ...(supplementalGroupsPolicy === undefined ? {} : { features: { supplementalGroupsPolicy } }),
  };
}

function runtimeHandler({ name, recursiveReadOnlyMounts, userNamespaces }: RuntimeHandlerFeatures): NodeRuntimeHandler {
  return { ...(name === "" ? {} : { name }), features: { recursiveReadOnlyMounts, userNamespaces } };
}

/** The largest images first; of each image its names with digests before those with tags. */
function nodeImages(images: readonly NodeImage[], max: number): readonly ContainerImage[] {
  const sorted = images.toSorted((a, b) => b.sizeBytes - a.sizeBytes || (a.id > b.id ? -1 : 1));
  return (max < 0 ? sorted : sorted.slice(0, max)).map(({ digests, tags, sizeBytes }) => ({
    names: [...digests, ...tags].slice(0, MAX_NAMES_PER_IMAGE),
    ...(sizeBytes > 0 ? { sizeBytes } : {}),
  }));
}

function nodeSystemInfo(
  { machine, runtime }: ObservedNode,
  before: NodeSystemInfo | undefined,
  { kubeletVersion }: Pick<NodeSettings, "kubeletVersion">,
): NodeSystemInfo {
  const { architecture, bootID, kernelVersion, machineID, osImage, systemUUID, swapBytes } = machine;
  const reported = runtime.name === "" ? before?.containerRuntimeVersion : undefined;
  return {
    architecture,
    bootID,
    containerRuntimeVersion: reported ?? `${runtime.name || "unknown"}://${comparableVersion(runtime.version)}`,
    kernelVersion,
    kubeProxyVersion: "",
    kubeletVersion,
    machineID,
    operatingSystem: "linux",
    osImage,
    ...(swapBytes > 0 ? { swap: { capacity: swapBytes } } : {}),
    systemUUID,
  };
}

const PARTS = "[0-9A-Za-z-]+(?:\\.[0-9A-Za-z-]+)*";
const SEMANTIC = new RegExp(`^\\s*v?(\\d+\\.\\d+\\.\\d+(?:-${PARTS})?(?:\\+${PARTS})?)\\s*$`);
const GENERIC = /^\s*v?(\d+(?:\.\d+)+)/;

/**
 * A version that clients can compare: a semantic version as it is, of any other its numbers, so `1.6.20~ds1` is
 * `1.6.20`.
 */
function comparableVersion(version: string): string {
  return (SEMANTIC.exec(version) ?? GENERIC.exec(version))?.[1] ?? "Unknown";
}
