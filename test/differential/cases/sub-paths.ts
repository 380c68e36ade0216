import type { Container, VolumeMount } from "../../../proto/kubernetes/gen/types.ts";
import { busyboxImage } from "../../bed/images/images.ts";
import { script } from "../../e2e/manifest.ts";
import { type ViewPart, viewScript } from "../container-view.ts";
import { updateCondition, type VolumesByName, volumeCase, volumesOf } from "./content-volumes.ts";
import { configMap } from "./objects-of-volumes.ts";
import { HOST_FOLDER, hasEnded, isReady, isThereAndHasEnded, type PodCase, waitsWithSandbox } from "./pod-case.ts";

const data: VolumesByName = { data: { emptyDir: {} } };
const ofUser = { securityContext: { runAsUser: 1234, runAsGroup: 2345 } };
const nameOfPod = { name: "POD", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } };

/** Each subPath at `/v/NAME`. */
const partsOf = (name: string, subPaths: Readonly<Record<string, string>>): readonly VolumeMount[] =>
  Object.entries(subPaths).map(([each, subPath]) => ({ name, mountPath: `/v/${each}`, subPath }));
const whole = (name = "data"): VolumeMount => ({ name, mountPath: "/v/whole" });
const ownOf = (name: string, subPathExpr: string): VolumeMount => ({
  name: "data",
  mountPath: `/v/${name}`,
  subPathExpr,
});

/** Prepares the volume `data` before the container's subPaths are mounted. */
const preparing = (text: string): Container => ({
  name: "first",
  image: busyboxImage,
  command: script(text),
  volumeMounts: [{ name: "data", mountPath: "/data" }],
});
const makeTree =
  "cd /data; mkdir -m 750 there; mkdir -m 700 there/deep; echo file > there/file; chmod 640 there/file; echo deep > there/deep/file";

/** A pod that shows what its container sees of these mounts. */
const subPathCase = (
  name: string,
  parts: readonly ViewPart[],
  volumes: VolumesByName,
  volumeMounts: readonly VolumeMount[],
  { prepare, ...container }: Partial<Container> & { readonly prepare?: string } = {},
): PodCase =>
  volumeCase(name, parts, volumes, {
    container: { volumeMounts, ...container },
    ...(prepare !== undefined && { spec: { initContainers: [preparing(prepare)] } }),
  });

const presentCases: readonly PodCase[] = [
  subPathCase(
    "sub-paths",
    ["files", "texts", "mountinfo", "writes"],
    data,
    partsOf("data", { folder: "there", nested: "there/deep", file: "there/file", "odd-name": "./there//deep/" }),
    { prepare: makeTree },
  ),
  subPathCase(
    "sub-paths-behind-links",
    ["texts", "mountinfo"],
    data,
    partsOf("data", { folder: "folder", file: "file", through: "folder/deep/file", back: "there/up/there" }),
    { prepare: `${makeTree}; ln -s there folder; ln -s folder/file file; ln -s ../there/.. there/up` },
  ),
  subPathCase(
    "sub-paths-read-only",
    ["files", "mountinfo", "writes"],
    data,
    [...partsOf("data", { folder: "there", missing: "new" }).map((each) => ({ ...each, readOnly: true })), whole()],
    { prepare: makeTree },
  ),
  subPathCase("sub-path-of-a-pipe", ["files", "mountinfo"], data, partsOf("data", { pipe: "pipe" }), {
    prepare: "mkfifo -m 620 /data/pipe",
  }),
  subPathCase(
    "sub-path-of-the-whole-volume",
    ["files", "mountinfo"],
    data,
    partsOf("data", { dot: ".", dots: "./././" }),
    { prepare: makeTree },
  ),
  subPathCase(
    "sub-paths-of-objects",
    ["files", "texts", "mountinfo", "writes"],
    {
      map: { configMap: { name: "settings", items: [{ key: "plain", path: "deep/plain" }] } },
      secret: { secret: { secretName: "keys", defaultMode: 0o440 } },
      fields: { downwardAPI: { items: [{ path: "name", fieldRef: { fieldPath: "metadata.name" } }] } },
      all: { projected: { sources: [{ configMap: { name: "overlap" } }] } },
    },
    [
      ...partsOf("map", { deep: "deep", "deep-file": "deep/plain" }),
      ...partsOf("secret", { "of-secret": "plain" }),
      ...partsOf("fields", { "of-pod": "name" }),
      ...partsOf("all", { "of-all": "own", "of-data": "..data/own" }),
    ],
  ),
  subPathCase(
    "sub-paths-of-host-paths",
    ["files", "texts"],
    { data: { hostPath: { path: HOST_FOLDER } } },
    partsOf("data", { file: "file", folder: "folder", made: "by-sub-path/deep" }),
  ),
];

const missingCases: readonly PodCase[] = [
  subPathCase("sub-paths-that-are-missing", ["files", "mountinfo", "writes"], data, [
    ...partsOf("data", { one: "new", deep: "of/new/folders", again: "of/new" }),
    whole(),
  ]),
  subPathCase(
    "sub-paths-that-are-missing-for-a-user",
    ["files", "writes"],
    { data: { emptyDir: { medium: "Memory" } } },
    [...partsOf("data", { one: "new", deep: "of/new" }), whole()],
    ofUser,
  ),
  subPathCase(
    "sub-path-missing-in-strict-folder",
    ["files"],
    data,
    [...partsOf("data", { one: "there/new" }), whole()],
    {
      prepare: `${makeTree}; chown 7:8 there; chmod 2750 there`,
    },
  ),
  subPathCase(
    "sub-path-behind-links-that-are-missing",
    ["files"],
    data,
    [...partsOf("data", { one: "link/new" }), whole()],
    {
      prepare: `${makeTree}; ln -s there/deep link`,
    },
  ),
  subPathCase("sub-path-of-missing-key", ["files"], { data: { configMap: { name: "overlap" } } }, [
    ...partsOf("data", { key: "none" }),
    whole(),
  ]),
  {
    ...subPathCase(
      "sub-paths-of-a-group",
      ["files", "writes"],
      data,
      [...partsOf("data", { one: "of/new" }), whole()],
      ofUser,
    ),
    spec: { restartPolicy: "Never", volumes: volumesOf(data) ?? [], securityContext: { fsGroup: 3456 } },
  },
];

const expressionCases: readonly PodCase[] = [
  subPathCase(
    "sub-path-expressions",
    ["mountinfo"],
    data,
    [
      ownOf("pod", "$(POD)"),
      ownOf("two", "of/$(POD)/$(FOLDER)"),
      ownOf("escaped", "$$(POD)"),
      ownOf("plain", "plain"),
      ownOf("deep", "$(DEEP)/x"),
      ownOf("open", "$(POD"),
    ],
    { env: [nameOfPod, { name: "FOLDER", value: "folder" }, { name: "DEEP", value: "a/$(FOLDER)" }] },
  ),
  subPathCase(
    "sub-path-expression-of-objects",
    ["mountinfo"],
    data,
    [ownOf("colour", "$(colour)"), ownOf("user", "$(USER)")],
    {
      env: [{ name: "USER", valueFrom: { secretKeyRef: { name: "login", key: "user" } } }],
      envFrom: [{ configMapRef: { name: "site" } }],
    },
  ),
];

/** Containers that cannot start because of their paths. */
const refused = (name: string, volumeMount: Omit<VolumeMount, "name" | "mountPath">): Container => ({
  name,
  image: busyboxImage,
  command: script("true"),
  env: [
    { name: "BACK", value: "there/../there" },
    { name: "ROOT", value: "/there" },
    { name: "EMPTY", value: "" },
  ],
  volumeMounts: [{ name: "data", mountPath: "/v/data", ...volumeMount }],
});

const refusedCase = (name: string, prepare: string, containers: readonly Container[]): PodCase => {
  const all = containers.map((each, index) => (index === 0 ? { ...each, name: "main" } : each));
  return {
    name,
    spec: {
      restartPolicy: "Never",
      initContainers: [preparing(prepare)],
      containers: all,
      volumes: volumesOf(data) ?? [],
    },
    until: waitsWithSandbox("CreateContainerConfigError", all.at(-1)?.name),
  };
};

const refusedCases: readonly PodCase[] = [
  refusedCase(
    "sub-paths-that-leave-the-volume",
    `${makeTree}; ln -s / root; ln -s ../.. up; ln -s /data/there absolute; ln -s /etc/hostname outside`,
    [
      refused("root", { subPath: "root" }),
      refused("root-file", { subPath: "root/etc/hostname" }),
      refused("up", { subPath: "up" }),
      refused("up-missing", { subPath: "up/missing/folder" }),
      refused("absolute", { subPath: "absolute" }),
      refused("outside", { subPath: "outside" }),
    ],
  ),
  refusedCase(
    "sub-paths-that-lead-nowhere",
    `${makeTree}; ln -s missing dangling; ln -s loop loop; ln -s ../missing dangling-outside`,
    [
      refused("dangling", { subPath: "dangling" }),
      refused("dangling-below", { subPath: "dangling/below" }),
      refused("dangling-outside", { subPath: "dangling-outside" }),
      refused("of-loop", { subPath: "loop" }),
      refused("below-file", { subPath: "there/file/below" }),
    ],
  ),
  refusedCase("sub-path-expressions-refused", makeTree, [
    refused("back", { subPathExpr: "$(BACK)" }),
    refused("absolute", { subPathExpr: "$(ROOT)" }),
    refused("missing", { subPathExpr: "$(NONE)/x" }),
    refused("empty", { subPathExpr: "$(EMPTY)" }),
    refused("two-missing", { subPathExpr: "$(NONE)/$(ALSO)" }),
  ]),
];

const seenBy = (name: string, volumeMounts: readonly VolumeMount[], text: string): Container => ({
  name,
  image: busyboxImage,
  command: script(text),
  volumeMounts,
});
const changing: VolumesByName = { map: { configMap: { name: "changing-below" } } };

const lifeCases: readonly PodCase[] = [
  {
    ...volumeCase("sub-path-while-its-object-changes", ["texts", "mountinfo"], changing, {
      container: {
        command: script(
          `until ${updateCondition("whole", "plain")}; do sleep 0.3; done; ${viewScript("texts", "mountinfo")}`,
        ),
        volumeMounts: [whole("map"), ...partsOf("map", { file: "plain", data: "..data" })],
      },
    }),
    objects: [configMap("changing-below", { plain: "sooner" })],
    until: isReady,
    afterwards: {
      kind: "apply objects",
      objects: [configMap("changing-below", { plain: "later" })],
      until: isThereAndHasEnded,
    },
  },
  {
    ...volumeCase("sub-paths-after-a-restart", ["texts", "mountinfo"], data, {
      container: {
        volumeMounts: [whole(), ...partsOf("data", { folder: "folder", file: "file" })],
        command: script(
          `if [ -e /v/whole/first ]; then ${viewScript("texts", "mountinfo")}; exit 0; fi; cd /v/whole; touch first; echo old > folder/text; mv folder moved; mkdir folder; echo new > folder/text; mv file other; echo new > file; exit 1`,
        ),
      },
      spec: { restartPolicy: "OnFailure", initContainers: [preparing("mkdir /data/folder; echo old > /data/file")] },
    }),
    until: hasEnded,
  },
  volumeCase("sub-paths-of-several-containers", ["texts", "mountinfo"], data, {
    spec: {
      initContainers: [
        seenBy("first", partsOf("data", { one: "one" }), "echo first > /v/one/text"),
        seenBy("second", partsOf("data", { one: "one", two: "two" }), "cat /v/one/text > /v/two/copy"),
      ],
      containers: [
        seenBy("main", partsOf("data", { two: "two" }), viewScript("texts", "mountinfo")),
        seenBy("more", [whole()], viewScript("texts", "mountinfo")),
      ],
    },
  }),
];

/** subPath and subPathExpr: files and folders of a volume that are there, missing, behind symlinks, or refused. */
export const subPathCases: readonly PodCase[] = [
  ...lifeCases,
  ...presentCases,
  ...missingCases,
  ...expressionCases,
  ...refusedCases,
];
