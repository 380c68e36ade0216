// What Berth says of a pod that waits for a volume or its sandbox, where the kubelet says something else, or nothing.
import type { KnownDifference } from "./compare.ts";
import { fewTimes } from "./timing-dependent-differences.ts";

const setUpFailed = (volume: string, why: string) => `MountVolume.SetUp failed for volume "${volume}" : ${why}`;
const notMounted = (why: string) =>
  `Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]: ${why}`;
const ofClaim = (claim: string, why: string) => notMounted(`error processing PVC NAMESPACE/${claim}: ${why}`);
const noSandbox = (why: string) => `Failed to create pod sandbox: ${why}`;

const claimOfWrongType = "pv-host-path-of-wrong-type-NAMESPACE";

/** The hostPath volumes whose file is of another type than they want, with what Berth says of the file. */
const wrongTypes: readonly (readonly [pod: string, volume: string, path: string, wanted: string, found: string])[] = [
  ["no-volume-host-path-folder-over-file", "v", "STATE/host/file", "directory", "it is a file"],
  ["no-volume-host-path-file-over-folder", "v", "STATE/host/folder", "file", "it is a directory"],
  ["no-volume-host-path-no-folder", "v", "STATE/host/none", "directory", "it does not exist"],
  ["no-volume-host-path-no-socket", "v", "STATE/host/none", "socket file", "it does not exist"],
  ["no-volume-host-path-no-character-device", "v", "STATE/host/file", "character device", "it is a file"],
  ["no-volume-claim-host-path-of-wrong-type", claimOfWrongType, "STATE/host/disk", "file", "it is a directory"],
  ["host-path-no-device", "host", "/dev/null", "block device", "it is a character device"],
  ["host-path-no-directory", "host", "/etc/hostname", "directory", "it is a file"],
  ["host-path-no-file", "host", "/no/such/file", "file", "it does not exist"],
  ["host-path-no-socket", "host", "/etc/hostname", "socket file", "it is a file"],
];

/** A pod whose volume cannot be mounted, with what each side says of it. */
interface MountFailure extends Pick<KnownDifference, "reason"> {
  readonly pod: string;
  readonly kubelet: string;
  readonly berth: string;
}

const sentenceOfError = "the event says in a sentence what the file system has refused; the kubelet gives the call";
const failures: readonly MountFailure[] = [
  ...wrongTypes.map(([pod, volume, path, wanted, found]) => {
    const kubelet = setUpFailed(volume, `hostPath type check failed: ${path} is not a ${wanted}`);
    const reason = "the actual type of the file follows the kubelet's message";
    return { pod, kubelet, berth: `${kubelet}: ${found}`, reason };
  }),
  {
    pod: "no-volume-host-path-file-in-nothing",
    kubelet: setUpFailed("v", "open STATE/host/no/such/folder/file: no such file or directory"),
    berth: setUpFailed("v", "STATE/host/no/such/folder/file does not exist"),
    reason: sentenceOfError,
  },
  {
    pod: "no-volume-host-path-folder-in-file",
    kubelet: setUpFailed("v", "mkdir STATE/host/file: not a directory"),
    berth: setUpFailed("v", "STATE/host/file/folder is below something that is not a directory"),
    reason: sentenceOfError,
  },
];

const nfsRefused = `mount failed: exit status 32
Mounting command: mount
Mounting arguments: -t nfs -o ro 192.0.2.1:/data ROOT/pods/UID/volumes/kubernetes.io~nfs/v
Output: mount: ROOT/pods/UID/volumes/kubernetes.io~nfs/v: unknown filesystem type 'nfs'.
       dmesg(1) may have more information after failed mount system call.
`;

/** The causes that Berth and the kubelet name alike in their events. */
const causes: readonly string[] = [
  ...[
    'secret "awaited" not found',
    'secret "none" not found',
    "references non-existent secret key: none",
    'configmap "none" not found',
    "configmap references non-existent config key: none",
    '[configmap "none" not found, secret "none" not found, configmap references non-existent config key: none]',
    "container none not found",
    "medium HugePages-2Mi: hugePages storage requested, but there is no resource request for huge pages",
    nfsRefused,
  ].map((why) => setUpFailed("v", why)),
  setUpFailed("first", 'configmap "none" not found'),
  setUpFailed("second", 'secret "none" not found'),
  'MountVolume.NodeAffinity check failed for volume "pv-elsewhere-NAMESPACE" : no matching NodeSelectorTerms',
  'MountVolume.MountOptionSupport check failed for volume "pv-host-path-with-options-NAMESPACE" : mount options are not supported for this volume type',
  'MountVolume.NewMounter initialization failed for volume "pv-local-file-NAMESPACE" : only directory and block device are supported',
  'MountVolume.NewMounter initialization failed for volume "pv-local-missing-NAMESPACE" : path "STATE/host/no-disk" does not exist',
  notMounted("volume v has volumeMode Block, but is specified in volumeMounts"),
  notMounted(
    "PVC NAMESPACE/no-volume-ephemeral-of-others-v was not created for pod NAMESPACE/no-volume-ephemeral-of-others (pod is not owner)",
  ),
  ...["none", "awaited"].map((claim) =>
    ofClaim(claim, `failed to fetch PVC from API server: persistentvolumeclaims "${claim}" not found`),
  ),
  ...["unbound", "many-writers", "large", "awaited"].map((claim) => ofClaim(claim, "PVC is not bound")),
  noSandbox("can't set `spec.hostUsers: false`, runtime does not support user namespaces"),
  noSandbox(
    'rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for "no-such-handler" is configured',
  ),
  noSandbox(
    "failed to construct FQDN from pod hostname and cluster domain, FQDN ownownownownownownownownownownownown.subsubsubsubsubsub.NAMESPACE.svc.cluster.local is too long (64 characters is the max, 81 characters requested)",
  ),
];

/** How Berth differs from the kubelet in the pods that wait for a volume or their sandbox. */
export const mountFailures: readonly KnownDifference[] = [
  {
    // On a busy machine the event may repeat before the status has its message: in one run 21 of 38 pods showed it.
    pod: /^(no-volume|host-path-no)-|unknown-handler$|-fqdn-too-long$|^user-namespace$/,
    field: /^settled (container|initContainer)Statuses\[(main|first)\]\.state\.waiting\.message$/,
    berth: [...causes, ...failures.map(({ berth }) => berth)],
    eventReasons: ["FailedMount", "FailedCreatePodSandBox"],
    mayAgree: "in some pods",
    reason: "a waiting container names the cause in its message",
  },
  ...failures.flatMap(({ pod, kubelet, berth, reason }) => [
    { pod, field: `event Warning FailedMount: ${kubelet}`, kubelet: fewTimes, reason },
    { pod, field: `event Warning FailedMount: ${berth}`, berth: /^×[1-3]$/, reason },
  ]),
];
