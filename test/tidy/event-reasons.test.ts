import { expect, test } from "bun:test";
import { readFile } from "node:fs/promises";

/** The reasons of events that the kubelet has and this agent tells too: each stands in its source. */
const TOLD = [
  ...["Created", "Started", "Failed", "Killing", "BackOff", "FailedKillPod", "NetworkNotReady", "SandboxChanged"],
  ...["FailedCreatePodSandBox", "FailedMount", "FailedValidation", "FailedPostStartHook", "FailedPreStopHook"],
  ...["Pulling", "Pulled", "InspectFailed", "ErrImageNeverPull", "FailedToRetrieveImagePullSecret"],
  ...[
    "Unhealthy",
    "ProbeWarning",
    "LifecycleHTTPFallback",
    "DeadlineExceeded",
    "MissingClusterDNS",
    "DNSConfigForming",
  ],
  ...["Starting", "Rebooted", "NodeReady", "NodeNotReady", "NodeSchedulable", "NodeNotSchedulable", "SystemOOM"],
  ...["ResizeInfeasible", "FailedSync"],
] as const;

/** Those that nobody here tells, by why. A reason moves up when what it speaks of arrives. */
const NOT_TOLD = {
  "the look at a sandbox that was just run is a look as any other: FailedSync tells of one that fails": [
    "FailedPodSandBoxStatus",
  ],
  "no pod is put out for others here yet": ["Preempting", "ExceededGracePeriod", "EvictionThresholdMet"],
  "no cgroups of its own are made for a pod or the node yet": [
    "FailedCreatePodContainer",
    "FailedNodeAllocatableEnforcement",
    "NodeAllocatableEnforced",
  ],
  "resources are not changed in place yet": ["ResizeDeferred", "ResizeCompleted", "ResizeStarted", "ResizeError"],
  "emptyDir on disk and hostPath, the volumes there are, are neither attached nor resized nor in memory": [
    ...["FailedAttachVolume", "SuccessfulAttachVolume", "SuccessfulMountVolume", "FailedMapVolume"],
    ...["AlreadyMountedVolume", "FailedMountOnFilesystemMismatch", "PossibleMemoryBackedVolumesOnDisk"],
    ...["VolumeResizeFailed", "VolumeResizeSuccessful", "FileSystemResizeFailed", "FileSystemResizeSuccessful"],
    "VolumePermissionChangeInProgress",
  ],
  "images are not collected yet": ["ImageGCFailed", "FreeDiskSpaceFailed", "InvalidDiskCapacity", "InvalidImageID"],
  "what is left of containers is removed by each pod's own turns, whose failures are told as theirs": [
    "ContainerGCFailed",
  ],
  "no devices are claimed here yet": ["FailedPrepareDynamicResources"],
  "the node is not shut down gracefully yet": ["Shutdown"],
  "what keeps the agent from starting is said where it is started, by its one line and its exit code": [
    "KubeletSetupFailed",
  ],
  "addresses that a cloud provider chose are taken as they are": ["HostIPsIPFamilyMismatch"],
} as const;

test("each reason that an event may have is in the source of the agent, or said not to be", async () => {
  const paths = [...new Bun.Glob("agent/**/*.ts").scanSync(".")].filter((path) => !path.endsWith(".test.ts"));
  const sources = (await Promise.all(paths.map((path) => readFile(path, "utf8")))).join("\n");
  const isThere = (reason: string) => sources.includes(`"${reason}"`);
  expect(TOLD.filter((reason) => !isThere(reason))).toEqual([]);
  expect(
    Object.values(NOT_TOLD)
      .flat()
      .filter((reason) => isThere(reason)),
  ).toEqual([]);
});
