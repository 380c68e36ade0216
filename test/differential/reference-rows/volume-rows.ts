// What pods show of volumes.
import type { ReferenceRow } from "./reference-row.ts";

export const volumesRows: readonly ReferenceRow[] = [
  [
    170,
    "the loop",
    {
      "no-volume-of-two": 'MountVolume.SetUp failed for volume "second" : secret "none" not found',
      "no-volume-secret-until-it-appears": ['secret "awaited" not found', "later inside main: text /v/v/plain = later"],
      "no-volume-claim-until-it-is-bound": [
        'persistentvolumeclaims "awaited" not found',
        "later inside main: file /v/v/deep/file",
      ],
    },
  ],
  [
    171,
    "directories on disk",
    {
      "config-map-volume": "mountinfo /v/all = UID/volumes/kubernetes.io~configmap/all",
      "empty-dirs": "mountinfo /v/limited = UID/volumes/kubernetes.io~empty-dir/limited",
      "sub-paths": "mountinfo /v/nested = UID/volumes/kubernetes.io~empty-dir/data/there/deep",
    },
  ],
  [
    172,
    "atomic writer",
    {
      "config-map-volume": "inside main: file /v/all/app.conf = lrwxrwxrwx 0:0 ..data/app.conf",
      "config-map-volume-folders": "inside main: file /v/deep/..TIME/one/two/three = -rw-r--r-- 0:0",
      "config-map-volume-paths": "inside main: file /v/odd/..TIME/a/b/c = -rw-r--r-- 0:0",
      "config-map-volume-changes": "later inside main: file /v/v/added = lrwxrwxrwx 0:0 ..data/added",
    },
  ],
  [
    173,
    "objects as files",
    {
      "config-map-volume-optional": "inside main: file /v/there = drwxrwxrwx 0:0",
      "config-map-volume-modes": "inside main: file /v/items/..TIME/empty = -rw-r----- 0:0",
      "secret-volume": "inside main: text /v/all/tls.key = a key|",
      "downward-volume": "inside main: file /v/all/..TIME/labels = -rw-r--r-- 0:0",
      "projected-volume": "inside main: text /v/all/map/plain = text",
      "projected-volume-overlap": "inside main: file /v/back/..TIME",
      "no-volume-config-map-key": "configmap references non-existent config key: none",
      "sub-path-while-its-object-changes": [
        "later inside main: text /v/file = sooner",
        "later inside main: text /v/whole/plain = later",
      ],
    },
  ],
  [
    174,
    "caches of objects",
    {
      "config-map-volume-changes": "later inside main: text /v/v/added = later",
      "config-map-volume-appears": "later inside main: text /v/v/plain = later",
      "config-map-volume-immutable": "inside main: file /v/fixed = drwxrwxrwx 0:0",
      "projected-volume-changes": "later inside main: text /v/v/deep/plain = later",
    },
  ],
  [
    175,
    "tokens of service accounts",
    {
      token: 'lives 31536000 s: {"aud":["https://kubernetes.default.svc"]',
      "token-of-a-user": "serviceaccount/..TIME/token = -rw------- 1234:0",
      "token-of-a-group": "serviceaccount/..TIME/token = -rw-r----- 0:2345",
      "token-of-two-users": "inside of-2345: file /v/own/..TIME/token = -rw-r--r-- 0:0",
      "token-with-audiences": 'lives 600 s: {"aud":["vault"]',
    },
  ],
  [176, "trust bundles and certificates of pods", "Their feature gates are off on the reference kubelet."],
  [
    177,
    "emptyDir",
    {
      "empty-dirs": "inside main: file /v/limited-memory = drwxrwxrwt",
      "empty-dirs-within-limits": "mountinfo /v/more = - rw,relatime tmpfs rw,size=32768k",
      "empty-dirs-after-a-restart": [
        "containerStatuses[main].restartCount = 1",
        "inside main: text /v/memory/first = memory|",
      ],
      "empty-dirs-of-a-user": "inside main: write /v/memory/ = -rw-r--r-- 1234:2345",
    },
  ],
  [
    178,
    "hostPath",
    {
      "host-paths": "inside main: text /v/file-or-new = of the host|",
      "host-paths-made": "inside main: file /v/missing = drwxr-xr-x 0:0",
      "no-volume-host-path-no-folder": "hostPath type check failed: STATE/host/none is not a directory",
      "no-volume-host-path-file-in-nothing": "open STATE/host/no/such/folder/file: no such file or directory",
    },
  ],
  [
    179,
    "volumes of the node and of servers",
    {
      "claim-of-local-volume": "inside main: text /v/v/deep/file = of disk-of-local|",
      "claim-with-option-ro": "inside main: mountinfo /v/v = - ro,relatime",
      "no-volume-claim-elsewhere": "MountVolume.NodeAffinity check failed",
      "no-volume-claim-local-missing": 'path "STATE/host/no-disk" does not exist',
      "no-volume-claim-local-file": "only directory and block device are supported",
    },
  ],
  [
    180,
    "fsGroup",
    {
      "empty-dirs-of-a-group": "inside main: file /v/disk = drwxrwsrwx 0:2345",
      "objects-of-a-group": "inside main: file /v/fields/..TIME/name = -rw-r--r-- 0:2345",
      "group-on-root-mismatch": "inside main: file /v/map/..TIME/own = -rw-r--r-- 0:2345",
      "host-paths-of-a-group": "inside main: write /v/folder/ = -rw-r--r-- 0:0",
      "claim-of-a-group": "inside main: file /v/v/deep/file = -rw-rw---- 0:2345",
      "claim-read-only-of-a-group": "inside main: file /v/v/deep/file = -rw-r----- 0:0",
    },
  ],
  [
    181,
    "safety of subPaths",
    {
      "sub-paths-behind-links": "mountinfo /v/through = UID/volumes/kubernetes.io~empty-dir/data/there/deep/file",
      "sub-paths-that-leave-the-volume": 'failed to prepare subPath for volumeMount "data" of container "outside"',
      "sub-paths-that-lead-nowhere":
        'failed to create subPath directory for volumeMount "data" of container "dangling-below"',
      "sub-paths-that-are-missing": "inside main: file /v/again/folders = drwxrwxrwx 0:0",
      "sub-paths-of-a-group": "inside main: file /v/whole/of/new = drwxrwsrwx 0:3456",
      "sub-path-expressions-refused": "error SubPath `/there` must not be an absolute path",
    },
  ],
  [182, "attachment by a controller", "It needs a CSI driver, which this release does not support."],
  [185, "reconstruction", "It needs a restart of the agent; the scenarios and the e2e tests kill it amid mounts."],
  [186, "resize, SELinux and usage", "No side has a CSI driver or SELinux, and the API shows no usage."],
];
