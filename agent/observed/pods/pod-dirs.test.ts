import { expect, test } from "bun:test";
import type { PodUid } from "../../../proto/ids.ts";
import { FakeDisk } from "../../../test/fakes/files.ts";
import { createPodFiles } from "./pod-dirs.ts";

const pod = { uid: "u" as PodUid, namespace: "shop", name: "web" };

async function look(...files: readonly string[]) {
  const disk = new FakeDisk(() => 0);
  for (const path of files) {
    await disk.at("/").makeFolder(path.slice(0, path.lastIndexOf("/")), 0o755);
    if (!path.endsWith("/")) await disk.at("/").write(path, "", 0o600);
  }
  return createPodFiles(disk.at("/root"), disk.at("/logs")).look(pod);
}

const rows: readonly [sentence: string, files: readonly string[], exist: boolean, attempts: Record<string, number>][] =
  [
    ["nothing", [], false, {}],
    ["a folder without logs", ["/root/pods/u/"], true, {}],
    ["logs without a folder", ["/logs/shop_web_u/"], true, {}],
    ["another pod's folder and logs", ["/root/pods/v/", "/logs/shop_web_v/a/0.log"], false, {}],
    ["one log", ["/logs/shop_web_u/a/0.log"], true, { a: 0 }],
    [
      "the highest number, which is not the last by name",
      ["/logs/shop_web_u/a/9.log", "/logs/shop_web_u/a/10.log"],
      true,
      { a: 10 },
    ],
    ["a rotated log", ["/logs/shop_web_u/a/3.log.20260101-000000.gz"], true, { a: 3 }],
    [
      "a number that no attempt can have",
      ["/logs/shop_web_u/a/20261122000000.log", "/logs/shop_web_u/a/2.log", "/logs/shop_web_u/b/4294967295.log"],
      true,
      { a: 2 },
    ],
    ["each container's own", ["/logs/shop_web_u/a/1.log", "/logs/shop_web_u/b/2.log"], true, { a: 1, b: 2 }],
    [
      "files that are no logs",
      ["/logs/shop_web_u/a/x.log", "/logs/shop_web_u/a/4.txt", "/logs/shop_web_u/note"],
      true,
      {},
    ],
  ];
for (const [sentence, files, exist, attempts] of rows)
  test(`the disk shows ${sentence}`, async () => {
    const found = await look(...files);
    expect(found.exist).toBe(exist);
    expect(Object.fromEntries(found.loggedAttempts)).toEqual(attempts);
  });

const uids = ["0123456789abcdef0123456789abcdef", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "my.own_uid"] as const;

test("every folder below pods/ whose name can be a uid is a pod; without pods/ there is none", async () => {
  const disk = new FakeDisk(() => 0);
  const files = createPodFiles(disk.at("/root"), disk.at("/logs"));
  expect(await files.owners()).toEqual([]);
  for (const name of [...uids, "lost+found", "old", ".u-12345678", "a folder"])
    await disk.at("/root").makeFolder(`pods/${name}`, 0o755);
  await disk.at("/root").write("pods/a-file-of-somebody", "", 0o600);
  expect(await files.owners()).toEqual(uids.map((uid) => ({ uid: uid as PodUid, namespace: "", name: "" })));
});

test("every folder of logs whose name can be a pod's is a pod with a name, and told once", async () => {
  const disk = new FakeDisk(() => 0);
  const files = createPodFiles(disk.at("/root"), disk.at("/logs"));
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
  expect(await files.owners()).toEqual([
    { uid: own as PodUid, namespace: "kube-system", name: "a.b-c" },
    { uid: hash as PodUid, namespace: "shop", name: "web" },
    { uid: uuid as PodUid, namespace: "", name: "" },
  ]);
});

test("a pod has volumes of its own as long as there is a folder for its emptyDirs", async () => {
  expect((await look("/root/pods/u/volumes/kubernetes.io~empty-dir/cache/")).hasVolumes).toBe(true);
  expect((await look("/root/pods/u/volumes/", "/root/pods/v/volumes/kubernetes.io~empty-dir/cache/")).hasVolumes).toBe(
    false,
  );
});

test("of the instances that were removed to begin anew the last one counts, of each container", async () => {
  const folder = "/root/pods/u/containers";
  const { clearedAttempts, pendingHooks } = await look(
    `${folder}/a/cleared-00000009`,
    `${folder}/a/cleared-0000000a`,
    `${folder}/b/cleared-00000000`,
    `${folder}/b/cleared-x`,
    `${folder}/b/post-start-00000001`,
  );
  expect(Object.fromEntries(clearedAttempts)).toEqual({ a: 10, b: 0 });
  expect([...pendingHooks]).toEqual(["b #1"]);
});
