// Paths of the node that are on the file system of a server. A call of the agent itself on one that does not answer fails
// the scenario.
import { expect, test } from "bun:test";
import { persistentVolumeClaims, persistentVolumes } from "../../kube/resource.ts";
import type { PersistentVolumeSpec, PodSpec, Volume } from "../../proto/kubernetes/gen/types.ts";
import { settlePromises } from "../fakes/clock.ts";
import { apiScenario, runInCluster } from "./api-scenario.ts";
import type { AgentHarness } from "./harness.ts";

const claim = { persistentVolumeClaim: { claimName: "data" } };
const checked = { hostPath: { path: "/mnt/data", type: "DirectoryOrCreate" } } as const;
const specOf = (source: Omit<Volume, "name">, more: Partial<PodSpec> = {}): PodSpec => ({
  ...more,
  volumes: [{ name: "v", ...source }],
  containers: [
    {
      name: "a",
      image: "busybox:1",
      imagePullPolicy: "IfNotPresent",
      volumeMounts: [{ name: "v", mountPath: "/data" }],
    },
  ],
});

/** Mounts the file system of a server at /mnt/nas, as an administrator does, with a symlink that leads there. */
async function mountNas({ disk, mounts }: AgentHarness, isAnswering = true): Promise<void> {
  const machine = disk.at("/");
  await machine.makeFolder("mnt/nas", 0o755);
  await machine.link("mnt/data", "nas/data");
  mounts.mountNetwork("/mnt/nas", { fsType: "nfs4", source: "nas:/volume", options: [] });
  await machine.makeFolder("mnt/nas/data", 0o755);
  if (!isAnswering) mounts.deadServers.add("nas");
}

/** Creates a claim, and a volume that is bound to it. */
async function bind({ kube }: AgentHarness, spec: PersistentVolumeSpec): Promise<void> {
  const { metadata } = await kube.user.create(persistentVolumeClaims("default"), {
    metadata: { name: "data", namespace: "default" },
    spec: { volumeName: "pv-data" },
    status: { phase: "Bound" },
  });
  const claimRef = { namespace: "default", name: "data", uid: metadata.uid ?? "" };
  await kube.user.create(persistentVolumes, { metadata: { name: "pv-data" }, spec: { ...spec, claimRef } });
  await settlePromises();
}

const local: PersistentVolumeSpec = { local: { path: "/mnt/data" } };
const leftovers = ({ disk, mounts }: AgentHarness): readonly string[] => [
  ...disk.paths().filter((path) => path.startsWith("/root/pods/")),
  ...mounts.mountPoints,
];
const setUpFailure = (volume: string, why: string) =>
  `Warning FailedMount: MountVolume.SetUp failed for volume "${volume}" : /mnt/data does not answer: ${why} did not end within 60 s; nas:/volume (nfs4) is mounted at /mnt/nas`;

const kinds: readonly [sentence: string, source: Omit<Volume, "name">, event: string, pv?: PersistentVolumeSpec][] = [
  ["a hostPath that is checked", checked, setUpFailure("v", "stat")],
  ["a volume of a hostPath behind a claim", claim, setUpFailure("pv-data", "stat"), { hostPath: checked.hostPath }],
  ["a local volume", claim, setUpFailure("pv-data", "stat"), local],
  ["a local block device", claim, setUpFailure("v", "realPath"), { ...local, volumeMode: "Block" }],
];
for (const [sentence, source, event, pv] of kinds)
  test(`${sentence} on a server that does not answer: its pods wait and say for what, and others start`, async () => {
    const harness = await runInCluster(async (on) => {
      await mountNas(on, false);
      if (pv !== undefined) await bind(on, pv);
      const { containers, ...spec } = specOf(source);
      const isBlock = pv?.volumeMode === "Block";
      const device = { volumeMounts: [], volumeDevices: [{ name: "v", devicePath: "/dev/data" }] };
      const mine = { ...spec, containers: containers.map((each) => ({ ...each, ...(isBlock && device) })) };
      for (let pod = 0; pod < 9; pod++) await on.apply(`waits-${pod}`, mine);
      await on.apply("web", {});
      await on.advance("1s");
    });
    const isRunning = (line: string) => line.includes("Running, ready");
    expect((await harness.apiPods()).filter(isRunning)).toEqual(["web Running, ready: a running"]);
    await harness.advance("60s");
    for (let pod = 0; pod < 9; pod++) expect(await harness.events(`waits-${pod}`)).toEqual([`1x ${event}`]);
    if (pv?.volumeMode === "Block") return;
    harness.mounts.deadServers.clear();
    await harness.advance("3m");
    expect((await harness.apiPods()).filter(isRunning)).toHaveLength(10);
  });

for (const [sentence, source, , pv] of kinds.filter(([, , , spec]) => spec?.volumeMode !== "Block"))
  apiScenario(
    `${sentence} on a server that does not answer: a pod that is deleted leaves at once`,
    async (harness) => {
      await mountNas(harness, false);
      if (pv !== undefined) await bind(harness, pv);
      await harness.apply("web", specOf(source));
      await harness.advance("20s");
      await harness.deletePod("web");
      await harness.advance("3s");
    },
    async (end, harness) => {
      expect(end.api).toEqual([]);
      expect(leftovers(harness)).toEqual(["/mnt/nas"]);
    },
  );

apiScenario(
  "a server that stops answering delays no end of a pod with a local volume there, and the data stay",
  async (harness) => {
    await mountNas(harness);
    await bind(harness, local);
    await harness.disk.at("/").makeFile("mnt/nas/data/file", 0o600, "precious");
    await harness.apply("web", specOf(claim, { securityContext: { fsGroup: 2000 } }));
    await harness.advance("5s");
    expect(await harness.apiPods()).toEqual(["web Running, ready: a running"]);
    harness.mounts.deadServers.add("nas");
    await harness.deletePod("web");
    await harness.advance("40s");
  },
  async (end, harness) => {
    expect(end.api).toEqual([]);
    expect(leftovers(harness)).toEqual(["/mnt/nas"]);
    harness.mounts.deadServers.clear();
    expect(await harness.disk.at("/").stat("mnt/nas/data/file")).toMatchObject({ group: 2000, mode: 0o660 });
  },
  { stride: 3 },
);

apiScenario(
  "a subPath of a local volume on a server that stops answering is unmounted before the volume",
  async (harness) => {
    await mountNas(harness);
    await bind(harness, local);
    const { containers, ...spec } = specOf(claim);
    const volumeMounts = [{ name: "v", mountPath: "/data", subPath: "part" }];
    await harness.apply("web", { ...spec, containers: containers.map((each) => ({ ...each, volumeMounts })) });
    await harness.advance("5s");
    harness.mounts.deadServers.add("nas");
    await harness.deletePod("web");
    await harness.advance("40s");
  },
  async (end, harness) => {
    expect(end.api).toEqual([]);
    expect(leftovers(harness)).toEqual(["/mnt/nas"]);
  },
  { stride: 3 },
);

test("a path beside the mount of a server, or above it, takes no process of its own", async () => {
  const harness = await runInCluster(async (on) => {
    await mountNas(on, false);
    for (const [index, path] of ["/mnt", "/mnt/nas-2", "/srv"].entries())
      await on.apply(`web-${index}`, specOf({ hostPath: { path, type: "DirectoryOrCreate" } }));
    await on.advance("5s");
  });
  expect((await harness.apiPods()).filter((line) => line.includes("Running, ready"))).toHaveLength(3);
  expect(harness.networkFiles.calls).toEqual([]);
});

test("what is missing on a server is made there", async () => {
  const harness = await runInCluster(async (on) => {
    await mountNas(on);
    await on.apply("one", specOf({ hostPath: { path: "/mnt/data/new/folder", type: "DirectoryOrCreate" } }));
    await on.apply("two", specOf({ hostPath: { path: "/mnt/data/file", type: "FileOrCreate" } }));
    await on.advance("5s");
  });
  expect((await harness.apiPods()).filter((line) => line.includes("Running, ready"))).toHaveLength(2);
  expect(harness.disk.nodes.get("/mnt/nas/data/new/folder")).toMatchObject({ kind: "directory", mode: 0o755 });
  expect(harness.disk.nodes.get("/mnt/nas/data/file")).toMatchObject({ kind: "file", mode: 0o644, content: "" });
});
