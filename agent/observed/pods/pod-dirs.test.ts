import { expect, test } from "bun:test";
import type { PodUid } from "../../../proto/ids.ts";
import { FakeDisk } from "../../../test/fakes/files.ts";
import type { PodResource } from "../../decide/pod/resources.ts";
import { createPodDirReader } from "./pod-dirs.ts";

const pod = { uid: "u" as PodUid, namespace: "shop", name: "web" };

async function look(...files: readonly string[]) {
  const disk = new FakeDisk(() => 0);
  for (const path of files) {
    await disk.at("/").makeFolder(path.slice(0, path.lastIndexOf("/")), 0o755);
    if (!path.endsWith("/")) await disk.at("/").write(path, "", 0o600);
  }
  return createPodDirReader(disk.at("/root"), disk.at("/logs")).read(pod);
}

const rows: readonly [
  sentence: string,
  files: readonly string[],
  present: readonly PodResource["of"][],
  attempts: Record<string, number>,
][] = [
  ["no pod", [], [], {}],
  ["a pod directory without logs", ["/root/pods/u/"], ["podDirs"], {}],
  ["logs without a pod directory", ["/logs/shop_web_u/"], ["logDir"], {}],
  [
    "a volume by the link to its block device",
    ["/root/pods/u/volumeDevices/kubernetes.io~local-volume/pv-1"],
    ["podDirs", "volume"],
    {},
  ],
  ["no pod beside another one", ["/root/pods/v/", "/logs/shop_web_v/a/0.log"], [], {}],
  ["one log", ["/logs/shop_web_u/a/0.log"], ["logDir"], { a: 0 }],
  [
    "the highest number, which is not the last by name",
    ["/logs/shop_web_u/a/9.log", "/logs/shop_web_u/a/10.log"],
    ["logDir"],
    { a: 10 },
  ],
  ["a rotated log", ["/logs/shop_web_u/a/3.log.20260101-000000.gz"], ["logDir"], { a: 3 }],
  [
    "a number that no attempt can have",
    ["/logs/shop_web_u/a/20261122000000.log", "/logs/shop_web_u/a/2.log", "/logs/shop_web_u/b/4294967295.log"],
    ["logDir"],
    { a: 2 },
  ],
  ["one attempt per container", ["/logs/shop_web_u/a/1.log", "/logs/shop_web_u/b/2.log"], ["logDir"], { a: 1, b: 2 }],
  [
    "files that are no logs",
    ["/logs/shop_web_u/a/x.log", "/logs/shop_web_u/a/4.txt", "/logs/shop_web_u/note"],
    ["logDir"],
    {},
  ],
];
for (const [sentence, files, present, attempts] of rows)
  test(`the disk shows ${sentence}`, async () => {
    const found = await look(...files);
    expect(found.resources.map(({ of }) => of)).toEqual([...present]);
    expect(Object.fromEntries(found.loggedAttempts)).toEqual(attempts);
  });

const uids = ["0123456789abcdef0123456789abcdef", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "my.own_uid"] as const;

test("every directory below pods/ with a valid uid is a pod; without pods/ there is none", async () => {
  const disk = new FakeDisk(() => 0);
  const files = createPodDirReader(disk.at("/root"), disk.at("/logs"));
  expect(await files.list()).toEqual([]);
  for (const name of [...uids, "lost+found", "old", ".u-12345678", "a folder"])
    await disk.at("/root").makeFolder(`pods/${name}`, 0o755);
  await disk.at("/root").write("pods/a-file-of-somebody", "", 0o600);
  expect(await files.list()).toEqual(uids.map((uid) => ({ uid: uid as PodUid, namespace: "", name: "" })));
});

test("every valid pod log directory is a pod with a name, listed once", async () => {
  const disk = new FakeDisk(() => 0);
  const files = createPodDirReader(disk.at("/root"), disk.at("/logs"));
  const [hash, uuid, own] = uids;
  for (const name of [
    `shop_web_${hash}`,
    `kube-system_a.b-c_${own}`,
    "shop_web",
    "lost+found",
    `_web_${uuid}`,
    "a_b_c",
  ])
    await disk.at("/logs").makeFolder(name, 0o755);
  await disk.at("/logs").write(`shop_file_${uuid}`, "", 0o600);
  for (const name of [hash, uuid]) await disk.at("/root").makeFolder(`pods/${name}`, 0o755);
  expect(await files.list()).toEqual([
    { uid: own as PodUid, namespace: "kube-system", name: "a.b-c" },
    { uid: hash as PodUid, namespace: "shop", name: "web" },
    { uid: uuid as PodUid, namespace: "", name: "" },
  ]);
});

test("the resources of a pod are its directories, its user ids, each emptyDir and its subPaths", async () => {
  const resourcesOf = async (...paths: readonly string[]) => (await look(...paths)).resources;
  const emptyDirs = "/root/pods/u/volumes/kubernetes.io~empty-dir";
  expect(await resourcesOf(`${emptyDirs}/cache/`, `${emptyDirs}/data/`, "/root/pods/u/userns")).toEqual([
    { of: "podDirs" },
    { of: "userIds" },
    { of: "volume", name: "cache" },
    { of: "volume", name: "data" },
  ]);
  expect(await resourcesOf("/root/pods/u/volume-subpaths/")).toEqual([{ of: "podDirs" }, { of: "subPaths" }]);
  expect(await resourcesOf(`${emptyDirs}/`, "/root/pods/v/volumes/kubernetes.io~empty-dir/cache/")).toEqual([
    { of: "podDirs" },
  ]);
  expect(await resourcesOf("/root/pods/v/userns")).toEqual([]);
});

test("the marks of a container are read, and of its attempts that were removed for a restart the last one counts", async () => {
  const folder = "/root/pods/u/containers";
  const { removedAttempts, pendingPostStartHooks, endedPreStopHooks } = await look(
    `${folder}/a/cleared-00000009`,
    `${folder}/a/cleared-0000000a`,
    `${folder}/b/cleared-00000000`,
    `${folder}/b/cleared-x`,
    `${folder}/b/post-start-00000001`,
    `${folder}/b/pre-stop-0000000b`,
  );
  expect(Object.fromEntries(removedAttempts)).toEqual({ a: 10, b: 0 });
  expect([...pendingPostStartHooks]).toEqual(["b #1"]);
  expect([...endedPreStopHooks]).toEqual(["b #11"]);
});

test("the marks of probes are those of single instances", async () => {
  const folder = "/root/pods/u/containers";
  const { probeMarks } = await look(
    `${folder}/a/started-0000000a`,
    `${folder}/a/ready-0000000a`,
    `${folder}/b/ready-00000000`,
    `${folder}/b/ready-x`,
  );
  expect(probeMarks).toEqual([
    { mark: "ready", name: "a", attempt: 10 },
    { mark: "started", name: "a", attempt: 10 },
    { mark: "ready", name: "b", attempt: 0 },
  ]);
});
