// Bad input of volumes: what cannot be mounted, written or unmounted holds up its own pod alone, and says why.
import { expect, test } from "bun:test";
import { FilesError } from "../../host/fs/files.ts";
import { configMaps, secrets } from "../../kube/resource.ts";
import type { PodSpec, Volume } from "../../proto/kubernetes/gen/types.ts";
import { settlePromises } from "../fakes/clock.ts";
import { apiScenario, runInCluster } from "./api-scenario.ts";
import type { AgentHarness } from "./harness.ts";

const specOf = (...volumes: readonly Volume[]): Partial<PodSpec> => ({
  containers: [
    {
      name: "a",
      image: "busybox:1",
      imagePullPolicy: "IfNotPresent",
      volumeMounts: volumes.map(({ name }) => ({ name, mountPath: `/${name}` })),
    },
  ],
  volumes,
});
const keys: Volume = { name: "keys", secret: { secretName: "keys" } };
const site: Volume = { name: "site", configMap: { name: "site" } };
const memory: Volume = { name: "memory", emptyDir: { medium: "Memory" } };
const encoded = (text: string) => Buffer.from(text).toString("base64");

async function addObjects({ kube }: AgentHarness, secretData: Record<string, string> = { key: encoded("x") }) {
  await kube.user.create(secrets("default"), { metadata: { name: "keys", namespace: "default" }, data: secretData });
  await kube.user.create(configMaps("default"), {
    metadata: { name: "site", namespace: "default" },
    data: { colour: "blue" },
  });
  await settlePromises();
}

const failedMounts = async (harness: AgentHarness, name: string) => {
  const events = (await harness.events(name)).filter((event) => event.includes("FailedMount"));
  return [
    ...new Set(events.map((event) => event.replace(/^\d+x /, "").replaceAll(/pods\/[0-9a-f-]+\//g, "pods/UID/"))),
  ];
};

/** What the disk or the kernel refuses at a path of a volume, while `isBroken`. */
interface Fault {
  readonly volume: Volume;
  readonly call: "mountTmpfs" | "makeFolder" | "makeFile" | "rename";
  readonly code: string;
  readonly message: string;
}
const rows: readonly [sentence: string, fault: Fault, expected: string][] = [
  [
    "a disk that is read-only",
    { volume: site, call: "makeFolder", code: "EROFS", message: "cannot be written: the file system is read-only" },
    'Warning FailedMount: MountVolume.SetUp failed for volume "site" : /root/pods/UID/volumes/kubernetes.io~configmap/site cannot be written: the file system is read-only',
  ],
  [
    "a disk that fails",
    { volume: site, call: "rename", code: "EIO", message: "failed: EIO: i/o error" },
    'Warning FailedMount: MountVolume.SetUp failed for volume "site" : /root/pods/UID/volumes/kubernetes.io~configmap/site/..data_tmp failed: EIO: i/o error',
  ],
  [
    "a tmpfs that cannot be mounted",
    { volume: memory, call: "mountTmpfs", code: "ENOSPC", message: "cannot be mounted: the mount namespace is full" },
    'Warning FailedMount: MountVolume.SetUp failed for volume "memory" : /root/pods/UID/volumes/kubernetes.io~empty-dir/memory cannot be mounted: the mount namespace is full',
  ],
  [
    "a tmpfs that is full",
    { volume: keys, call: "makeFile", code: "ENOSPC", message: "cannot be written: the disk is full" },
    'Warning FailedMount: MountVolume.SetUp failed for volume "keys" : /root/pods/UID/volumes/kubernetes.io~secret/keys/key cannot be written: the disk is full',
  ],
];
for (const [sentence, { volume, call, code, message }, expected] of rows)
  test(`${sentence} holds up its own pod in the kubelet's words, which starts once it is mended`, async () => {
    const harness = await runInCluster(async (on) => {
      await addObjects(on);
      const breakAt = (verb: string, path: string) => {
        if (verb === call && path.includes("/volumes/") && path.includes(`/${volume.name}`))
          throw new FilesError(code, path, `${path} ${message}`);
      };
      on.disk.before = breakAt;
      on.mounts.before = breakAt;
      await on.apply("web", specOf(volume));
      await on.apply("other", specOf(volume === site ? keys : site));
      await on.advance("10s");
    });
    expect(await harness.apiPods()).toEqual([
      "other Running, ready: a running",
      "web Pending: a waiting ContainerCreating",
    ]);
    expect(await failedMounts(harness, "web")).toEqual([expected]);
    harness.disk.before = () => {};
    harness.mounts.before = () => {};
    await harness.advance("130s");
    expect(await harness.apiPods()).toEqual(["other Running, ready: a running", "web Running, ready: a running"]);
  });

test("a key that leads out of the volume is refused, and one of a megabyte is shown whole", async () => {
  const large = "x".repeat((1 << 20) - 1000);
  const harness = await runInCluster(async (on) => {
    await addObjects(on, { "../up": encoded("out") });
    await on.kube.user.create(secrets("default"), {
      metadata: { name: "large", namespace: "default" },
      data: { key: encoded(large) },
    });
    await on.apply("web", specOf(keys));
    await on.apply("other", specOf({ name: "large", secret: { secretName: "large" } }));
    await on.advance("10s");
  });
  expect(await failedMounts(harness, "web")).toEqual([
    "Warning FailedMount: MountVolume.SetUp failed for volume \"keys\" : invalid path: must not contain '..': ../up",
  ]);
  const shown = harness.disk.paths().filter((path) => /volumes\/.*\/(up|key)$/.test(path) && !path.includes("/.."));
  expect(shown).toEqual([expect.stringMatching(/kubernetes\.io~secret\/large\/key$/)]);
  expect(await harness.disk.at("/").read(shown[0] ?? "", 1 << 21)).toBe(large);
});

apiScenario(
  "a mount that is busy holds up the end of its own pod alone, and is removed when it is free",
  async (harness) => {
    await addObjects(harness);
    for (const name of ["web", "other"]) await harness.apply(name, specOf(keys, memory));
    await harness.advance("5s");
    const busy = harness.mounts.mountPoints.filter((path) => path.endsWith("/memory")).map((path) => `${path}/file`);
    for (const path of busy) harness.mounts.openFiles.add(path);
    const first = busy[0] ?? "";
    await harness.deletePod("web", 1);
    await harness.deletePod("other", 1);
    await harness.advance("20s");
    harness.mounts.openFiles.clear();
    harness.mounts.openFiles.add(first);
    await harness.advance("60s");
    harness.mounts.openFiles.clear();
    await harness.advance("60s");
  },
  async (end, harness) => {
    expect(end).toEqual({ node: [], api: [] });
    expect(harness.mounts.mountPoints).toEqual([]);
    expect(harness.log.join("\n")).toMatch(
      /failed to remove volume memory: .*kubernetes\.io~empty-dir\/memory cannot be unmounted: a process uses a file of it/,
    );
  },
  { stride: 5 },
);
