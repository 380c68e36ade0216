import { expect, test } from "bun:test";
import { type Files, FilesError } from "../../../host/fs/files.ts";
import { claimKey } from "../../../proto/kubernetes/claims.ts";
import type { PersistentVolume, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock } from "../../../test/fakes/clock.ts";
import { FakeDisk } from "../../../test/fakes/files.ts";
import { FakeMounts } from "../../../test/fakes/mounts.ts";
import { nodeFacts } from "../../../test/fakes/node-facts.ts";
import { createVolumeDeps } from "../../../test/fakes/volume-deps.ts";
import { setUpVolume } from "./volume-plugins.ts";

const { signal } = new AbortController();
const shared: PersistentVolume = { metadata: { name: "pv-1" }, spec: { local: { path: "/srv/data" } } };

function podOf(uid: string, fsGroup?: number): Pod {
  const volumes = [{ name: "data", persistentVolumeClaim: { claimName: "data" } }];
  const securityContext = fsGroup === undefined ? {} : { fsGroup };
  return { metadata: { name: uid, namespace: "shop", uid }, spec: { containers: [], volumes, securityContext } };
}

/** A local volume with a file of root that only root may read; `machineFiles` may change what the agent does to it. */
async function createBed(machineFiles: (machine: Files) => Partial<Files> = () => ({}), second = shared) {
  const disk = new FakeDisk(() => 0);
  const machine = disk.at("/");
  await machine.makeFolder("srv/data", 0o755, 0);
  await machine.link("srv/link", "data");
  await machine.makeFile("srv/data/file", 0o600, "precious", { group: 0 });
  const clock = new FakeClock();
  const claims = new Map(
    ["one", "two"].map((podUid) => [
      claimKey({ namespace: "shop", name: "data", podUid }),
      { claim: { metadata: { name: "data" }, spec: {} }, persistentVolume: podUid === "two" ? second : shared },
    ]),
  );
  const cluster = { services: [], runtimeHandlers: undefined, referencedObjects: new Map(), tokens: new Map(), claims };
  const bed = createVolumeDeps({
    disk: { root: disk.at("/root"), logs: disk.at("/logs"), machine: { ...machine, ...machineFiles(machine) } },
    mounts: new FakeMounts(disk),
    facts: () => ({ ...nodeFacts, cluster: { ...cluster, nodeLabels: {} } }),
    clock,
  });
  const fileOwner = async () => {
    const found = await machine.stat("srv/data/file");
    return `${found?.mode.toString(8)} ${found?.group}`;
  };
  return { ...bed, clock, fileOwner, setUp: (pod: Pod) => setUpVolume(bed.deps, pod, "data", signal) };
}

const foreign =
  "two: Warning AlreadyMountedVolume: The requested fsGroup is 3000, but the volume pv-1 has GID 2000. The volume may not be shareable.";
const rows: readonly [sentence: string, groups: readonly (number | undefined)[], owner: string, events: string[]][] = [
  ["the first pod of a local volume gives it to its group", [2000], "660 2000", []],
  ["a pod without a group leaves it alone", [undefined], "600 0", []],
  ["a second pod of the same group shares it", [2000, 2000], "660 2000", []],
  ["a second pod of another group is reported, and the files stay as they are", [2000, 3000], "660 2000", [foreign]],
  ["a second pod without a group is not reported", [2000, undefined], "660 2000", []],
];
for (const [sentence, groups, owner, events] of rows)
  test(sentence, async () => {
    const bed = await createBed();
    for (const [index, group] of groups.entries()) await bed.setUp(podOf(index === 0 ? "one" : "two", group));
    expect([await bed.fileOwner(), bed.events]).toEqual([owner, events]);
  });

const sameDirectory: readonly [sentence: string, path: string, owner: string, events: readonly string[]][] = [
  ["of the same path", "/srv/data", "660 2000", [foreign.replace("pv-1", "pv-2")]],
  ["whose path is a symlink to it", "/srv/link", "660 2000", [foreign.replace("pv-1", "pv-2")]],
  ["of the directory above it", "/srv", "660 3000", []],
];
for (const [sentence, path, owner, events] of sameDirectory)
  test(`a second pod with another group uses a volume ${sentence}: it ${events.length > 0 ? "is reported" : "owns it"}`, async () => {
    const second = { metadata: { name: "pv-2" }, spec: { local: { path } } };
    const bed = await createBed(undefined, second);
    await bed.setUp(podOf("one", 2000));
    await bed.setUp(podOf("two", 3000));
    expect([await bed.fileOwner(), bed.events]).toEqual([owner, events]);
  });

test("an agent that sets the volume of a started pod up again leaves alone what its programs have restricted", async () => {
  const bed = await createBed();
  const { machine, root } = bed.deps.disk;
  const restrict = () => machine.makeFile("srv/data/file", 0o600, "precious", { group: 0 });
  await bed.setUp(podOf("one", 2000));
  await restrict();
  await bed.setUp(podOf("one", 2000));
  // No container has used the volume: the agent may have died before it had changed all files.
  expect(await bed.fileOwner()).toBe("660 2000");
  await root.makeFolder("pods/one/containers/main", 0o755);
  await restrict();
  await bed.setUp(podOf("one", 2000));
  expect(await bed.fileOwner()).toBe("600 0");
});

test("the directory that a mount of another pod has left, which failed, is no use of the volume", async () => {
  const bed = await createBed();
  await bed.deps.disk.root.makeFolder("pods/one/volumes/kubernetes.io~local-volume/pv-1", 0o750);
  await bed.setUp(podOf("two", 2000));
  await bed.setUp(podOf("one", 2000));
  expect([await bed.fileOwner(), bed.events]).toEqual(["660 2000", []]);
});

test("a second pod waits until the first one owns all files, which is reported when it lasts", async () => {
  const walk = Promise.withResolvers<void>();
  const bed = await createBed((machine) => ({
    async changeGroup(path, change) {
      change.onProgress?.(100_000);
      await walk.promise;
      return await machine.changeGroup(path, change);
    },
  }));
  const first = bed.setUp(podOf("one", 2000));
  let hasSecond = false;
  const second = bed.setUp(podOf("two", 2000)).then(() => {
    hasSecond = true;
  });
  await bed.clock.advance(100_000);
  expect(hasSecond).toBe(false);
  const subject = "Setting volume ownership for one/volumes/kubernetes.io~local-volume/pv-1";
  expect(bed.events).toEqual([
    expect.stringContaining(`one: Warning VolumePermissionChangeInProgress: ${subject} is taking longer than expected`),
    `one: Warning VolumePermissionChangeInProgress: ${subject}, processed 100000 files.`,
  ]);
  walk.resolve();
  await Promise.all([first, second]);
  await bed.clock.advance(600_000);
  expect([await bed.fileOwner(), bed.events.length]).toEqual(["660 2000", 2]);
});

for (const isNewAgent of [false, true])
  test(`an attempt that ends in its midst does not make the volume one that is used${isNewAgent ? ", after a death of the agent, too" : ""}`, async () => {
    const interrupted = new Error("the pod is deleted");
    let isInterrupted = true;
    const bed = await createBed((machine) => ({
      changeGroup: (path, change) => (isInterrupted ? Promise.reject(interrupted) : machine.changeGroup(path, change)),
    }));
    await expect(bed.setUp(podOf("one", 2000))).rejects.toBe(interrupted);
    isInterrupted = false;
    if (isNewAgent) bed.deps.readyMounts.clear();
    await bed.setUp(podOf("two", 3000));
    expect([await bed.fileOwner(), bed.events]).toEqual(["660 3000", []]);
    // The first one is tried again, now as the second one.
    await bed.setUp(podOf("one", 2000));
    expect(await bed.fileOwner()).toBe("660 3000");
    expect(bed.events).toEqual([expect.stringContaining("one: Warning AlreadyMountedVolume")]);
  });

test("a volume that another agent has set up for a pod with a container is used", async () => {
  const bed = await createBed();
  await bed.setUp(podOf("one", 2000));
  await bed.deps.disk.root.makeFolder("pods/one/containers/main", 0o755);
  bed.deps.readyMounts.clear();
  await bed.setUp(podOf("two", 3000));
  expect([await bed.fileOwner(), bed.events]).toEqual(["660 2000", [foreign]]);
});

test("a file that cannot be given away is logged, and the volume is set up", async () => {
  const failure = new FilesError("EPERM", "/srv/data/file", "/srv/data/file cannot be changed: permission denied");
  const bed = await createBed(() => ({ changeGroup: async () => ({ count: 2, failure }) }));
  await bed.setUp(podOf("one", 2000));
  expect(bed.log.takeLines()).toEqual([
    `warn: a file of a volume cannot be given to the pod's fsGroup 2000: ${failure.message}`,
  ]);
});
