import type { Container, HostPathType, VolumeMount } from "../../../proto/kubernetes/gen/types.ts";
import { busyboxImage } from "../../bed/images/images.ts";
import { script } from "../../e2e/manifest.ts";
import { type ViewPart, viewScript } from "../container-view.ts";
import { mountsOf, noVolumeCase, type VolumesByName, volumeCase, volumesOf } from "./content-volumes.ts";
import { HOST_FOLDER, HOST_SOCKET, hasEnded, type PodCase } from "./pod-case.ts";

const memory = (sizeLimit?: string) => ({
  emptyDir: { medium: "Memory", ...(sizeLimit !== undefined && { sizeLimit }) },
});
const host = (path: string, type?: HostPathType) => ({ hostPath: { path, ...(type !== undefined && { type }) } });
const limitOf = (bytes: string) => ({ resources: { limits: { memory: bytes } } });
const viewing = (...parts: readonly ViewPart[]) => ["sh", "-c", viewScript(...parts)];
const other = (name: string, container: Partial<Container>): Container => ({ name, image: busyboxImage, ...container });

const emptyDirs: VolumesByName = { disk: { emptyDir: {} }, memory: memory() };

const emptyDirCases: readonly PodCase[] = [
  volumeCase("empty-dirs", ["files", "mountinfo", "writes"], {
    ...emptyDirs,
    limited: { emptyDir: { sizeLimit: "8Mi" } },
    "limited-memory": memory("8Mi"),
  }),
  volumeCase("empty-dirs-of-a-user", ["files", "mountinfo", "writes"], emptyDirs, {
    container: { securityContext: { runAsUser: 1234, runAsGroup: 2345 } },
  }),
  volumeCase(
    "empty-dirs-within-limits",
    ["mountinfo"],
    { whole: memory(), less: memory("16Mi"), more: memory("64Mi"), odd: memory("1500k") },
    { container: limitOf("32Mi") },
  ),
  volumeCase(
    "empty-dirs-beside-no-limit",
    ["mountinfo"],
    { whole: memory(), less: memory("16Mi") },
    { container: limitOf("32Mi"), spec: { initContainers: [other("first", { command: ["true"] })] } },
  ),
  volumeCase(
    "empty-dirs-of-two-containers",
    ["mountinfo"],
    { whole: memory() },
    {
      spec: {
        containers: ["main", "more"].map((name) =>
          other(name, {
            ...limitOf("16Mi"),
            command: viewing("mountinfo"),
            volumeMounts: mountsOf({ whole: memory() }) ?? [],
          }),
        ),
      },
    },
  ),
  {
    ...volumeCase("empty-dirs-after-a-restart", ["texts", "mountinfo"], emptyDirs, {
      container: {
        command: script(
          `if [ -e /v/disk/first ]; then ${viewScript("texts", "mountinfo")}; else echo disk > /v/disk/first; echo memory > /v/memory/first; exit 1; fi`,
        ),
      },
      spec: { restartPolicy: "OnFailure" },
    }),
    until: hasEnded,
  },
  volumeCase("empty-dirs-shared", ["files", "texts"], emptyDirs, {
    spec: {
      containers: [
        other("main", {
          command: script(`until [ -e /v/memory/done ]; do sleep 0.2; done; ${viewScript("files", "texts")}`),
          volumeMounts: mountsOf(emptyDirs) ?? [],
        }),
        other("writer", {
          command: script("echo shared > /v/disk/text; touch /v/memory/done"),
          volumeMounts: mountsOf(emptyDirs) ?? [],
          securityContext: { runAsUser: 1234 },
        }),
      ],
    },
  }),
  volumeCase("empty-dirs-from-init-containers", ["files", "texts"], emptyDirs, {
    spec: {
      initContainers: [
        other("first", {
          command: script(
            "umask 077; mkdir /v/disk/d; echo first > /v/disk/d/f; echo 1 > /v/memory/f; chown -R 7:8 /v/disk/d",
          ),
          volumeMounts: mountsOf(emptyDirs) ?? [],
        }),
        other("second", {
          command: script("echo second >> /v/disk/d/f; ln -s d/f /v/disk/link"),
          volumeMounts: mountsOf(emptyDirs) ?? [],
        }),
      ],
    },
  }),
  volumeCase("empty-dirs-read-only", ["mountinfo", "writes"], emptyDirs, {
    how: { memory: { readOnly: true } },
    container: {
      volumeMounts: [
        { name: "disk", mountPath: "/v/disk" },
        { name: "disk", mountPath: "/v/again", readOnly: true },
        { name: "memory", mountPath: "/v/memory", readOnly: true },
      ],
    },
  }),
  volumeCase("empty-dirs-on-read-only-root", ["mountinfo", "writes"], emptyDirs, {
    container: { securityContext: { readOnlyRootFilesystem: true } },
  }),
  volumeCase(`empty-dir-named-${"long".repeat(12)}`, ["mountinfo"], { [`v-${"long".repeat(15)}`]: { emptyDir: {} } }),
  volumeCase("volumes-within-volumes", ["files", "mountinfo", "writes"], emptyDirs, {
    container: {
      volumeMounts: [
        { name: "memory", mountPath: "/v/outer/deep/inner" },
        { name: "disk", mountPath: "/v/outer" },
      ],
    },
  }),
];

const ofGroup = { securityContext: { fsGroup: 2345 } };
const key = (mode?: number) => ({ key: "plain", path: "deep/plain", ...(mode !== undefined && { mode }) });

const groupCases: readonly PodCase[] = [
  volumeCase("empty-dirs-of-a-group", ["id", "files", "mountinfo", "writes"], emptyDirs, {
    spec: { securityContext: { fsGroup: 2345, runAsUser: 1234, runAsGroup: 3456 } },
  }),
  volumeCase(
    "objects-of-a-group",
    ["files", "mountinfo"],
    {
      map: { configMap: { name: "settings", items: [key()] } },
      secret: { secret: { secretName: "keys", items: [key()] } },
      fields: { downwardAPI: { items: [{ path: "name", fieldRef: { fieldPath: "metadata.name" } }] } },
    },
    { spec: ofGroup },
  ),
  volumeCase(
    "modes-of-a-group",
    ["files"],
    {
      none: { configMap: { name: "settings", defaultMode: 0, items: [key()] } },
      strict: { configMap: { name: "settings", items: [key(0o400)] } },
      open: { secret: { secretName: "keys", items: [key(0o777)] } },
      all: { projected: { defaultMode: 0o600, sources: [{ secret: { name: "keys", items: [key()] } }] } },
    },
    { spec: ofGroup },
  ),
  volumeCase(
    "group-on-root-mismatch",
    ["files", "writes"],
    { ...emptyDirs, map: { configMap: { name: "overlap" } } },
    { spec: { securityContext: { fsGroup: 2345, fsGroupChangePolicy: "OnRootMismatch" } } },
  ),
  volumeCase(
    "host-paths-of-a-group",
    ["files", "writes"],
    { folder: host(`${HOST_FOLDER}/of-group`, "DirectoryOrCreate") },
    { spec: ofGroup },
  ),
];

const hostPathCases: readonly PodCase[] = [
  volumeCase("host-paths", ["files", "texts", "mountinfo"], {
    any: host(`${HOST_FOLDER}/folder`),
    folder: host(`${HOST_FOLDER}/folder`, "Directory"),
    file: host(`${HOST_FOLDER}/file`, "File"),
    "file-or-new": host(`${HOST_FOLDER}/file`, "FileOrCreate"),
    socket: host(HOST_SOCKET, "Socket"),
    device: host("/dev/null", "CharDevice"),
  }),
  volumeCase("host-paths-made", ["files", "mountinfo"], {
    missing: host(`${HOST_FOLDER}/made/by/runtime`),
    folder: host(`${HOST_FOLDER}/made/folder/deep`, "DirectoryOrCreate"),
    file: host(`${HOST_FOLDER}/made-file`, "FileOrCreate"),
  }),
  volumeCase(
    "host-paths-read-only",
    ["mountinfo", "writes"],
    { folder: host(`${HOST_FOLDER}/folder`) },
    {
      how: { folder: { readOnly: true } },
    },
  ),
  noVolumeCase("host-path-folder-over-file", { v: host(`${HOST_FOLDER}/file`, "DirectoryOrCreate") }),
  noVolumeCase("host-path-file-over-folder", { v: host(`${HOST_FOLDER}/folder`, "FileOrCreate") }),
  noVolumeCase("host-path-file-in-nothing", { v: host(`${HOST_FOLDER}/no/such/folder/file`, "FileOrCreate") }),
  noVolumeCase("host-path-folder-in-file", { v: host(`${HOST_FOLDER}/file/folder`, "DirectoryOrCreate") }),
  noVolumeCase("host-path-no-folder", { v: host(`${HOST_FOLDER}/none`, "Directory") }),
  noVolumeCase("host-path-no-socket", { v: host(`${HOST_FOLDER}/none`, "Socket") }),
  noVolumeCase("host-path-no-character-device", { v: host(`${HOST_FOLDER}/file`, "CharDevice") }),
];

const modes = ["None", "HostToContainer"] as const;
const mounted = (mountPropagation: NonNullable<VolumeMount["mountPropagation"]>) => [
  { name: "shared", mountPath: "/v/shared", mountPropagation },
  { name: "signals", mountPath: "/signals" },
];
const waitFor = (name: string) => `until [ -e /signals/${name} ]; do sleep 0.2; done`;

/** A container mounts a file system into a volume while two others, which mount it otherwise, are running. */
export const propagationCase = (name: string, source: VolumesByName[string]): PodCase => ({
  ...volumeCase(
    name,
    ["files", "mountinfo"],
    {},
    {
      spec: {
        volumes: volumesOf({ shared: source, signals: { emptyDir: {} } }) ?? [],
        containers: [
          other("main", {
            command: script(
              [
                ...modes.map((mode) => waitFor(`ready-${mode}`)),
                "mkdir /v/shared/inner; mount -t tmpfs -o size=64k inner /v/shared/inner; touch /v/shared/inner/file /signals/mounted",
                viewScript("files", "mountinfo"),
                ...modes.map((mode) => waitFor(`seen-${mode}`)),
                "umount /v/shared/inner",
              ].join("; "),
            ),
            securityContext: { privileged: true },
            volumeMounts: mounted("Bidirectional"),
          }),
          ...modes.map((mode) =>
            other(mode.toLowerCase(), {
              command: script(
                `touch /signals/ready-${mode}; ${waitFor("mounted")}; ${viewScript("files", "mountinfo")}; touch /signals/seen-${mode}`,
              ),
              volumeMounts: mounted(mode),
            }),
          ),
        ],
      },
    },
  ),
});

const propagationCases: readonly PodCase[] = [
  propagationCase("propagation-in-empty-dir", { emptyDir: {} }),
  propagationCase("propagation-in-memory", memory()),
  volumeCase(
    "propagation-of-objects",
    ["mountinfo"],
    { map: { configMap: { name: "overlap" } }, secret: { secret: { secretName: "keys" } } },
    { how: { map: { mountPropagation: "HostToContainer" }, secret: { mountPropagation: "None" } } },
  ),
];

/** Volumes that are folders of the node, on disk or in memory. */
export const directoryVolumeCases: readonly PodCase[] = [
  ...emptyDirCases,
  ...groupCases,
  ...hostPathCases,
  ...propagationCases,
];
