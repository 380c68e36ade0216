import { expect, test } from "bun:test";
import { readFile } from "node:fs/promises";

/** The kubelet's event reasons that this agent records: each occurs in its source. */
const RECORDED = [
  ...["Created", "Started", "Failed", "Killing", "BackOff", "FailedKillPod", "NetworkNotReady", "SandboxChanged"],
  ...["FailedCreatePodSandBox", "FailedMount", "FailedMapVolume", "FailedValidation"],
  ...["FailedPostStartHook", "FailedPreStopHook", "AlreadyMountedVolume", "VolumePermissionChangeInProgress"],
  ...["Pulling", "Pulled", "InspectFailed", "ErrImageNeverPull", "FailedToRetrieveImagePullSecret"],
  ...[
    "Unhealthy",
    "ProbeWarning",
    "LifecycleHTTPFallback",
    "DeadlineExceeded",
    "MissingClusterDNS",
    "DNSConfigForming",
  ],
  ...[
    "Starting",
    "Rebooted",
    "NodeReady",
    "NodeNotReady",
    "NodeSchedulable",
    "NodeNotSchedulable",
    "SystemOOM",
    "CgroupV1",
    "PossibleMemoryBackedVolumesOnDisk",
  ],
  ...["ResizeInfeasible", "ResizeDeferred", "ResizeStarted", "ResizeCompleted", "ResizeError", "FailedSync"],
  ...["FailedCreatePodContainer", "NodeAllocatableEnforced", "FailedNodeAllocatableEnforcement"],
] as const;

/**
 * The kubelet's event reasons that this agent does not record yet, by explanation. A reason moves up when its feature
 * is implemented.
 */
const NOT_RECORDED = {
  "a failed observation of a new sandbox is recorded as FailedSync, like any other": ["FailedPodSandBoxStatus"],
  "pods are not evicted or preempted yet": ["Preempting", "ExceededGracePeriod", "EvictionThresholdMet"],
  "the supported volumes are neither attached nor resized, and a tmpfs that cannot be mounted is a FailedMount": [
    ...["FailedAttachVolume", "SuccessfulAttachVolume"],
    ...["FailedMountOnFilesystemMismatch"],
    ...["VolumeResizeFailed", "VolumeResizeSuccessful", "FileSystemResizeFailed", "FileSystemResizeSuccessful"],
  ],
  "images are not garbage-collected yet": [
    "ImageGCFailed",
    "FreeDiskSpaceFailed",
    "InvalidDiskCapacity",
    "InvalidImageID",
  ],
  "each pod's sync removes its old containers and reports the failures itself": ["ContainerGCFailed"],
  "dynamic resources are not claimed yet": ["FailedPrepareDynamicResources"],
  "the node is not shut down gracefully yet": ["Shutdown"],
  "an agent that cannot start prints one line and exits with a code": ["KubeletSetupFailed"],
  "the node addresses of a cloud provider are used unchanged": ["HostIPsIPFamilyMismatch"],
} as const;

/** Tests of what is recorded: the files that run the agent, and the rows of the kubelet that it is compared with. */
const evidence = [
  ...new Bun.Glob("{agent,test}/**/*.test.ts").scanSync("."),
  ...new Bun.Glob("test/golden/kubelet-rows/*.json").scanSync("."),
];

test("each event reason that is recorded is expected by a test, or is in a row of the kubelet", async () => {
  const paths = evidence.filter((path) => !path.startsWith("test/tidy/"));
  const texts = (await Promise.all(paths.map((path) => readFile(path, "utf8")))).join("\n");
  const isExpected = (reason: string) =>
    new RegExp(`(?<!!== )["(]${reason}["):]|\\b(Normal|Warning) ${reason}\\b`).test(texts);
  expect(RECORDED.filter((reason) => !isExpected(reason))).toEqual([]);
});

test("each event reason of the kubelet is in the agent's source, or listed as not recorded", async () => {
  const paths = [...new Bun.Glob("agent/**/*.ts").scanSync(".")].filter((path) => !path.endsWith(".test.ts"));
  const sources = (await Promise.all(paths.map((path) => readFile(path, "utf8")))).join("\n");
  const isInSource = (reason: string) => sources.includes(`"${reason}"`);
  expect(RECORDED.filter((reason) => !isInSource(reason))).toEqual([]);
  expect(
    Object.values(NOT_RECORDED)
      .flat()
      .filter((reason) => isInSource(reason)),
  ).toEqual([]);
});
