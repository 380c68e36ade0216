import { expect, test } from "bun:test";
import { FilesError } from "../../../host/fs/files.ts";
import type { Pod, Volume } from "../../../proto/kubernetes/gen/types.ts";
import type { ReferencedObject } from "../../../proto/kubernetes/references.ts";
import { FakeClock } from "../../../test/fakes/clock.ts";
import { FakeDisk } from "../../../test/fakes/files.ts";
import { FakeMounts } from "../../../test/fakes/mounts.ts";
import { FakeNetworkFiles } from "../../../test/fakes/network-files.ts";
import { FakeNetworkMounts } from "../../../test/fakes/network-mounts.ts";
import { nodeFacts } from "../../../test/fakes/node-facts.ts";
import { createVolumeDeps } from "../../../test/fakes/volume-deps.ts";
import type { NodeFacts } from "../../translate/node-facts.ts";
import { makePodDirs } from "./pod-dirs.ts";
import { removeVolume, setUpVolume } from "./volume-plugins.ts";

const noSignal = new AbortController().signal;
const uid = "u-1";
const volumes: readonly Volume[] = [
  { name: "settings", configMap: { name: "settings" } },
  { name: "keys", secret: { secretName: "keys", defaultMode: 0o400 } },
  { name: "about", downwardAPI: { items: [{ path: "name", fieldRef: { fieldPath: "metadata.name" } }] } },
  { name: "all", projected: { sources: [{ configMap: { name: "settings" } }, { secret: { name: "keys" } }] } },
  { name: "scratch", emptyDir: { medium: "Memory", sizeLimit: "1Mi" } },
];
const podOf = (spec: Partial<Pod["spec"]> = {}): Pod => ({
  metadata: { name: "web", namespace: "shop", uid },
  spec: { containers: [], volumes, ...spec },
});

const settings = (text: string): NonNullable<NodeFacts["cluster"]> => ({
  services: [],
  runtimeHandlers: undefined,
  referencedObjects: new Map<string, ReferencedObject>([
    ["configmap shop/settings", { uid: "c", version: "1", type: "", data: { "app.conf": text } }],
    ["secret shop/keys", { uid: "s", version: "1", type: "", data: { key: "c2VjcmV0" } }],
  ]),
  tokens: new Map(),
  claims: new Map(),
  nodeLabels: {},
});

function createBed() {
  const disk = new FakeDisk(() => 0);
  const mounts = new FakeMounts(disk);
  let cluster = settings("one");
  const clock = new FakeClock();
  const { deps, log } = createVolumeDeps({
    disk: { root: disk.at("/root"), logs: disk.at("/logs"), machine: disk.at("/") },
    ...{ mounts, clock },
    networkMounts: new FakeNetworkMounts(mounts, clock),
    networkFiles: new FakeNetworkFiles(disk, mounts, clock),
    facts: () => ({ ...nodeFacts, cluster }),
  });
  return {
    deps,
    disk,
    log,
    mounts,
    setCluster(next: NonNullable<NodeFacts["cluster"]>) {
      cluster = next;
    },
    /** The volumes' directories, and the files that containers see in them. */
    async tree(): Promise<readonly string[]> {
      const dirs = (await deps.disk.root.list(`pods/${uid}/volumes`)) ?? [];
      const lines = dirs.map(async ({ name: plugin }) => {
        const names = (await deps.disk.root.list(`pods/${uid}/volumes/${plugin}`)) ?? [];
        return await Promise.all(names.map(({ name }) => describeVolume(`pods/${uid}/volumes/${plugin}/${name}`)));
      });
      return (await Promise.all(lines)).flat(2);
    },
  };

  async function describeVolume(folder: string): Promise<readonly string[]> {
    const { root } = deps.disk;
    const stat = await root.stat(folder);
    const mounted = (await mounts.list()).find(({ mountPoint }) => mountPoint === root.path(folder));
    const head = `${folder.replace(`pods/${uid}/volumes/`, "")} ${stat?.mode.toString(8)} ${stat?.group} ${mounted?.fsType ?? "on disk"}`;
    const visible = ((await root.list(folder)) ?? []).filter(({ name }) => !name.startsWith(".."));
    const files = visible.map(async ({ name }) => {
      const file = await root.stat(`${folder}/${name}`);
      return `  ${name} ${file?.mode.toString(8)} ${file?.group} ${await root.read(`${folder}/${name}`, 100)}`;
    });
    return [head, ...(await Promise.all(files))];
  }
}

async function setUpAll({ deps }: ReturnType<typeof createBed>, pod: Pod): Promise<void> {
  await makePodDirs(deps.disk, pod);
  for (const { name } of volumes) await setUpVolume(deps, pod, name, noSignal);
}

test("content volumes have the kubelet's directories, and only ConfigMaps are on disk", async () => {
  const bed = createBed();
  await setUpAll(bed, podOf());
  expect(await bed.tree()).toMatchInlineSnapshot(`
    [
      "kubernetes.io~configmap/settings 777 0 on disk",
      "  app.conf 644 0 one",
      "kubernetes.io~downward-api/about 1777 0 tmpfs",
      "  name 644 0 web",
      "kubernetes.io~empty-dir/scratch 1777 0 tmpfs",
      "kubernetes.io~projected/all 1777 0 tmpfs",
      "  app.conf 644 0 one",
      "  key 644 0 secret",
      "kubernetes.io~secret/keys 1777 0 tmpfs",
      "  key 400 0 secret",
    ]
  `);
});

test("the files and directories belong to the pod's fsGroup", async () => {
  const bed = createBed();
  await setUpAll(bed, podOf({ securityContext: { fsGroup: 2000 } }));
  expect(await bed.tree()).toMatchInlineSnapshot(`
    [
      "kubernetes.io~configmap/settings 2777 2000 on disk",
      "  app.conf 644 2000 one",
      "kubernetes.io~downward-api/about 3777 2000 tmpfs",
      "  name 644 2000 web",
      "kubernetes.io~empty-dir/scratch 3777 2000 tmpfs",
      "kubernetes.io~projected/all 3777 2000 tmpfs",
      "  app.conf 644 2000 one",
      "  key 644 2000 secret",
      "kubernetes.io~secret/keys 3777 2000 tmpfs",
      "  key 440 2000 secret",
    ]
  `);
});

test("the files in memory may take as much as the pod's containers, or as all pods of the node", async () => {
  const sizesOf = async (pod: Pod) => {
    const bed = createBed();
    const sizes = new Set<number | undefined>();
    const mountTmpfs = bed.mounts.mountTmpfs.bind(bed.mounts);
    bed.mounts.mountTmpfs = async (path, options) => {
      if (!path.endsWith("/scratch")) sizes.add(options.sizeBytes);
      await mountTmpfs(path, options);
    };
    await setUpAll(bed, pod);
    return [...sizes];
  };
  const containers = [{ name: "a", resources: { limits: { memory: "4Mi" } } }];
  expect(await sizesOf(podOf({ containers }))).toEqual([4 * 2 ** 20]);
  expect(await sizesOf(podOf())).toEqual([Number(nodeFacts.allocatable.get("memory"))]);
});

test("a repeated set-up shows the current content, and writes nothing if that is the same", async () => {
  const bed = createBed();
  const pod = podOf();
  await setUpAll(bed, pod);
  const before = await bed.tree();
  await setUpAll(bed, pod);
  expect(await bed.tree()).toEqual(before);
  bed.setCluster(settings("two"));
  await setUpAll(bed, pod);
  expect(await bed.tree()).toEqual(before.map((line) => line.replace(/one$/, "two")));
});

test("a missing object leaves no directory, and does not touch a volume that is set up", async () => {
  const bed = createBed();
  const pod = podOf();
  await makePodDirs(bed.deps.disk, pod);
  bed.setCluster({ ...settings("one"), referencedObjects: new Map([["configmap shop/settings", "absent"]]) });
  await expect(setUpVolume(bed.deps, pod, "settings", noSignal)).rejects.toThrow('configmap "settings" not found');
  expect(await bed.tree()).toEqual([]);
  bed.setCluster(settings("one"));
  await setUpVolume(bed.deps, pod, "settings", noSignal);
  const before = await bed.tree();
  bed.setCluster({ ...settings("one"), referencedObjects: new Map([["configmap shop/settings", "absent"]]) });
  await expect(setUpVolume(bed.deps, pod, "settings", noSignal)).rejects.toThrow('configmap "settings" not found');
  expect(await bed.tree()).toEqual(before);
});

test("a removed volume is unmounted, and nothing of it is left; a busy one stays whole", async () => {
  const bed = createBed();
  await setUpAll(bed, podOf());
  const busy = bed.deps.disk.root.path(`pods/${uid}/volumes/kubernetes.io~secret/keys/key`);
  bed.mounts.openFiles.add(busy);
  await expect(removeVolume(bed.deps, { uid, name: "keys" }, noSignal)).rejects.toMatchObject({ code: "EBUSY" });
  expect((await bed.tree()).filter((line) => line.includes("key "))).toHaveLength(2);
  bed.mounts.openFiles.delete(busy);
  for (const { name } of volumes)
    for (let time = 0; time < 2; time++) await removeVolume(bed.deps, { uid, name }, noSignal);
  expect(await bed.tree()).toEqual([]);
  expect(bed.mounts.mountPoints).toEqual([]);
});

test("an emptyDir in huge pages belongs to root or the pod's fsGroup, and nothing of it is left", async () => {
  const requests = { "hugepages-2Mi": "4Mi" };
  const pages: Volume = { name: "pages", emptyDir: { medium: "HugePages" } };
  const withPages = (spec: Partial<Pod["spec"]> = {}) =>
    podOf({ containers: [{ name: "a", resources: { requests, limits: requests } }], volumes: [pages], ...spec });
  const path = `pods/${uid}/volumes/kubernetes.io~empty-dir/pages`;
  for (const [pod, expected] of [
    [withPages(), { mode: 0o755, group: 0 }],
    [withPages({ securityContext: { fsGroup: 2000 } }), { mode: 0o2775, group: 2000 }],
  ] as const) {
    const bed = createBed();
    await makePodDirs(bed.deps.disk, pod);
    for (let time = 0; time < 2; time++) await setUpVolume(bed.deps, pod, "pages", noSignal);
    expect((await bed.mounts.list()).slice(1)).toMatchObject([{ mountPoint: `/root/${path}`, fsType: "hugetlbfs" }]);
    expect(await bed.deps.disk.root.stat(path)).toMatchObject(expected);
    await removeVolume(bed.deps, { uid, name: "pages" }, noSignal);
    expect(bed.mounts.mountPoints).toEqual([]);
    expect(await bed.deps.disk.root.stat(path)).toBeUndefined();
  }
});

test("an emptyDir in huge pages that no container requests makes no directory", async () => {
  const bed = createBed();
  const pod = podOf({ volumes: [{ name: "pages", emptyDir: { medium: "HugePages" } }] });
  await makePodDirs(bed.deps.disk, pod);
  await expect(setUpVolume(bed.deps, pod, "pages", noSignal)).rejects.toThrow("no resource request for huge pages");
  expect(await bed.tree()).toEqual([]);
});

const scratch = `/root/pods/${uid}/volumes/kubernetes.io~empty-dir/scratch`;
const nodeMemory = { mode: 0o1777 } as const;
const bound = { isReadOnly: false, isRecursive: false } as const;
/** What a privileged container leaves at an emptyDir, and the medium of that; whether its files are removed one by one. */
const mountsAtVolume: readonly [
  sentence: string,
  medium: "" | "Memory",
  mount: (bed: ReturnType<typeof createBed>) => Promise<void> | void,
  isEmptied: boolean,
][] = [
  ["the volume's own tmpfs", "Memory", () => {}, true],
  ["a folder of the node", "", ({ mounts }) => mounts.bind("/srv", scratch, bound), false],
  [
    "the node's /dev/shm",
    "",
    async ({ mounts }) => {
      await mounts.mountTmpfs("/srv", nodeMemory);
      await mounts.bind("/srv", scratch, bound);
    },
    false,
  ],
  [
    "a folder of a tmpfs of the node",
    "",
    async ({ mounts, deps }) => {
      await mounts.mountTmpfs("/srv", nodeMemory);
      await deps.disk.machine.makeFolder("/srv/part", 0o755);
      await mounts.bind("/srv/part", scratch, bound);
    },
    false,
  ],
  [
    "its own tmpfs, a part of which another path shows",
    "Memory",
    async ({ mounts, deps }) => {
      await deps.disk.machine.makeFolder(`${scratch}/part`, 0o755);
      await mounts.bind(`${scratch}/part`, "/srv", bound);
    },
    false,
  ],
  [
    "a disk",
    "",
    ({ mounts }) => mounts.mountNetwork(scratch, { fsType: "ext4", source: "/dev/sdb", options: [] }),
    false,
  ],
  [
    "the file system of a server on top of its tmpfs",
    "Memory",
    ({ mounts }) => mounts.mountNetwork(scratch, { fsType: "nfs4", source: "nas:/data", options: [] }),
    false,
  ],
];
for (const [sentence, medium, mount, isEmptied] of mountsAtVolume)
  test(`an emptyDir at which ${sentence} is mounted is ${isEmptied ? "emptied, unmounted" : "unmounted with its files"} and removed`, async () => {
    const bed = createBed();
    const { machine } = bed.deps.disk;
    await machine.makeFolder("/srv", 0o755);
    const pod = podOf({ volumes: [{ name: "scratch", emptyDir: { medium } }] });
    await makePodDirs(bed.deps.disk, pod);
    await setUpVolume(bed.deps, pod, "scratch", noSignal);
    await mount(bed);
    await machine.write(`${scratch}/file`, "content", 0o600);
    const removed: string[] = [];
    bed.disk.before = (verb, path) => {
      if (verb === "remove" && path.startsWith(`${scratch}/`)) removed.push(path);
    };
    await removeVolume(bed.deps, { uid, name: "scratch" }, noSignal);
    expect(removed).toEqual(isEmptied ? [`${scratch}/file`] : []);
    expect(bed.mounts.mountPoints.filter((path) => path !== "/srv")).toEqual([]);
    expect(await bed.tree()).toEqual([]);
  });

/** The files by which a kubelet knows the volumes that are set up. */
const readyFiles = ({ disk }: ReturnType<typeof createBed>) =>
  disk.paths().flatMap((path) => {
    const [, file] = /^\/root\/pods\/u-1\/plugins\/(.*\/ready)$/.exec(path) ?? [];
    return file === undefined ? [] : [`${file} ${disk.nodes.get(path)?.mode.toString(8)}`];
  });

test("each volume that is set up has the kubelet's file that shows it, until the volume is removed", async () => {
  const bed = createBed();
  await setUpAll(bed, podOf());
  expect(readyFiles(bed).toSorted()).toEqual([
    "kubernetes.io~empty-dir/scratch/ready 644",
    ...["about", "all", "keys", "settings"].map((name) => `kubernetes.io~empty-dir/wrapped_${name}/ready 644`),
  ]);
  await removeVolume(bed.deps, { uid, name: "keys" }, noSignal);
  await removeVolume(bed.deps, { uid, name: "scratch" }, noSignal);
  expect(
    readyFiles(bed)
      .map((file) => file.split("/")[1])
      .toSorted(),
  ).toEqual(["wrapped_about", "wrapped_all", "wrapped_settings"]);
  expect(bed.disk.paths().filter((path) => path.includes("/plugins/") && path.endsWith("keys"))).toEqual([]);
});

test("on a full disk a Secret is mounted without that file, and the log says so", async () => {
  const bed = createBed();
  await makePodDirs(bed.deps.disk, podOf());
  bed.disk.before = (verb, path) => {
    if (verb === "makeFile" && path.includes("/plugins/"))
      throw new FilesError("ENOSPC", path, `${path} cannot be written: the disk is full`);
  };
  await setUpVolume(bed.deps, podOf(), "keys", noSignal);
  expect([(await bed.tree()).length, readyFiles(bed)]).toEqual([2, []]);
  expect(bed.log.takeLines()).toEqual([expect.stringMatching(/^warn: a mark for the kubelet is missing: .*ready/)]);
});
