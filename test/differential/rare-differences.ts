// Differences that a busy machine causes once in many runs, with the values that they have.
import { allCases } from "./cases/all.ts";
import { isThereAndHasEnded } from "./cases/pod-case.ts";
import type { KnownDifference } from "./compare.ts";
import { exitsRepeatedly, namesOf, untilDeleted, withoutNetwork } from "./timing-dependent-differences.ts";

/** What Berth may show in one run, if no further run shows it. */
export const inOneRun: readonly KnownDifference[] = [
  {
    pod: exitsRepeatedly,
    field: /^event Warning BackOff\b/,
    kubelet: "×2",
    berth: "×3",
    // The kubelet's runs differ by one, those of some pods by chance not.
    within: 1,
    reason: untilDeleted,
  },
  {
    pod: /^pull-(refused|not-found|latest|digest|without-credentials|with-wrong-credentials)$/,
    field: /^event (Normal BackOff|Warning Failed) .*: (Back-off pulling image ".*"|Error: ImagePullBackOff)$/,
    kubelet: "×1",
    berth: "×2",
    reason: "the sandbox may take longer than the first back-off; Berth pulls the image beside it",
  },
  {
    pod: "config-map-volume-large",
    field:
      'event Warning FailedMount: MountVolume.SetUp failed for volume "large" : failed to sync configmap cache: timed out waiting for the condition',
    berth: "×1",
    reason:
      "both wait a second for the first read of a megabyte, and try again; in the kubelet's runs it came late for other ConfigMaps and for the large Secret",
  },
  {
    pod: "out-of-memory",
    field: /^(settled|gone) containerStatuses\[main\]\.state\.terminated\.reason$/,
    kubelet: "OOMKilled",
    berth: "Error",
    reason:
      "containerd 1.6 reads the event that a container ran out of memory beside its exit, and may save the exit first",
  },
];

/** The pods that end once something has changed. */
const endedLater = namesOf(allCases.filter(({ afterwards }) => afterwards?.until === isThereAndHasEnded));

const instanceOfSide = (instance: number) => `containerd://INSTANCE ${instance} OF side`;

const REFUSED_CLAIM =
  'event Warning FailedMount: Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]: error processing PVC NAMESPACE/below: failed to fetch PVC from API server: persistentvolumeclaims "below" is forbidden: User "system:node:NODE" cannot get resource "persistentvolumeclaims" in API group "" in the namespace "NAMESPACE": no relationship found between node \'NODE\' and this object';
const PRIVATE_IMAGE = "PRIVATE-HUB/berth.test/private:1";
const knowsPodLater =
  "the API server's node authorizer may learn of the pod after the kubelet, and refuses its first read";

/** What a live kubelet may show although all recorded runs agree. None of it excuses Berth. */
export const ofLiveKubelets: readonly KnownDifference[] = [
  {
    pod: endedLater,
    field: /^(later|gone) conditions\[PodReadyToStartContainers\]\.status$/,
    kubelet: ["True", "False"],
    berth: "False",
    reason: withoutNetwork,
  },
  ...(
    [
      [
        /^(settled|gone) initContainerStatuses\[side\]\.lastState\.terminated\.containerID$/,
        [1, 0].map(instanceOfSide),
      ],
      [/^(settled|gone) initContainerStatuses\[side\]\.lastState\.terminated\.exitCode$/, ["12", "11"]],
      [
        "event Warning BackOff spec.initContainers{side}: Back-off restarting failed container side in pod sidecar-in-back-off-at-the-end_NAMESPACE(UID)",
        ["×1", undefined],
      ],
    ] as const
  ).map(([field, kubelet]) => ({
    pod: "sidecar-in-back-off-at-the-end",
    field,
    kubelet,
    berth: kubelet[0],
    reason: "a kubelet that has not synced since the exit still finds the container, and has not shown the wait",
  })),
  ...["main", "first"].map((container) => ({
    pod: /./,
    field: /^(settled|later|gone) times$/,
    kubelet: ["in order", `${container} has finished before it started`],
    berth: "in order",
    reason: "the runtime reads the time of the start when the container may have ended",
  })),
  {
    pod: /ready-by-(named-)?(http|redirect|redirect-elsewhere|closed-port)$/,
    field:
      /^event Warning Unhealthy spec\.containers\{main\}: Readiness probe failed: Get "http:\/\/POD-IP:\d+\/[a-z/.-]*": context deadline exceeded \(Client\.Timeout exceeded while awaiting headers\)$/,
    kubelet: ["×1", undefined],
    examples: [
      'event Warning Unhealthy spec.containers{main}: Readiness probe failed: Get "http://POD-IP:9/": context deadline exceeded (Client.Timeout exceeded while awaiting headers)',
    ],
    reason: "a busy machine may not accept the connection in time",
  },
  {
    pod: /claim/,
    field:
      /^event Warning FailedMount: Unable to attach or mount volumes: unmounted volumes=\[\w+\], unattached volumes=\[\], failed to process volumes=\[\w+\]: error processing PVC NAMESPACE\/[\w-]+: failed to fetch PVC from API server: persistentvolumeclaims "[\w-]+" is forbidden: User "system:node:NODE" cannot get resource "persistentvolumeclaims" in API group "" in the namespace "NAMESPACE": no relationship found between node 'NODE' and this object$/,
    kubelet: ["×1", undefined],
    examples: [REFUSED_CLAIM],
    reason: knowsPodLater,
  },
  {
    pod: "private-image",
    field: `event Normal Pulling spec.containers{main}: Pulling image "${PRIVATE_IMAGE}"`,
    kubelet: ["×1", "×2"],
    berth: "×1",
    reason: knowsPodLater,
  },
  ...[
    "event Warning FailedToRetrieveImagePullSecret: Unable to retrieve some image pull secrets (private); attempting to pull the image may not succeed.",
    `event Warning Failed spec.containers{main}: Failed to pull image "${PRIVATE_IMAGE}": failed to pull and unpack image "${PRIVATE_IMAGE}": failed to resolve reference "${PRIVATE_IMAGE}": pulling from host PRIVATE-HUB failed with status code [manifests 1]: 401 Unauthorized`,
    "event Warning Failed spec.containers{main}: Error: ErrImagePull",
    `event Normal BackOff spec.containers{main}: Back-off pulling image "${PRIVATE_IMAGE}"`,
    "event Warning Failed spec.containers{main}: Error: ImagePullBackOff",
  ].map((field) => ({ pod: "private-image", field, kubelet: ["×1", undefined], reason: knowsPodLater })),
];
