import { afterEach, expect, test } from "bun:test";
import { type Files, FilesError, type OnFileChanged } from "../../../host/fs/files.ts";
// Loaded lazily by the product; loaded here so that it takes no turn of the event loop during a test.
import "../../../proto/yaml/parse.ts";
import type { PodUid } from "../../../proto/ids.ts";
import { FakeClock, settlePromises } from "../../../test/fakes/clock.ts";
import { FakeDisk } from "../../../test/fakes/files.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import type { RejectedManifest } from "../../decide/node/local-node-report.ts";
import { type DesiredPod, fullNameOf } from "../../decide/pod/desired.ts";
import type { ManifestPod } from "../../decide/sources/merge-static.ts";
import { readPodManifest } from "./manifest.ts";
import { readableAt, watchStaticPath } from "./static-files.ts";

const manifest = (name: string, image = "busybox:1", uid?: string) =>
  JSON.stringify({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, uid },
    spec: { containers: [{ name: "a", image }] },
  });

let ending = new AbortController();
afterEach(() => ending.abort());

/** Watches a directory of manifests; `files` may wrap the disk. */
async function startWatch(
  contents: Readonly<Record<string, string>>,
  files: (files: Files) => Files = (same) => same,
  known: readonly DesiredPod[] = [],
) {
  const clock = new FakeClock();
  const disk = new FakeDisk(clock.now);
  const folder = disk.at("/m");
  await disk.at("/").makeFolder("m", 0o755);
  for (const [name, text] of Object.entries(contents)) await folder.write(name, text, 0o644);
  await clock.advance(1000);
  const log = new FakeLog();
  const appliedPods: string[] = [];
  const appliedUids: string[] = [];
  const errors: string[] = [];
  const desired = {
    all: () => known,
    replaceManifests: async (_: string, pods: readonly ManifestPod[]) => {
      desired.beforeReplace();
      appliedPods.push(pods.map(({ pod }) => `${fullNameOf(pod)} ${pod.spec.containers[0]?.image}`).join(", "));
      appliedUids.push(...pods.map(({ pod }) => pod.metadata.uid ?? ""));
    },
    beforeReplace: () => {},
    setManifestErrors: (_: string, all: readonly RejectedManifest[]) => {
      errors.splice(0, errors.length, ...all.map(({ file, problem }) => `${file}: ${problem}`));
    },
  };
  ending = new AbortController();
  const settings = { path: "/m", nodeName: "node", checkEveryMs: 20_000, clock, log, desired };
  const start = async () => {
    void watchStaticPath({ ...settings, filesAt: (root) => files(disk.at(root)) }, ending.signal);
    await settlePromises();
  };
  return { clock, disk, folder, log, appliedPods, appliedUids, errors, desired, start };
}

const fail = (message: string) => () => {
  throw new Error(message);
};

test("an unreadable directory is logged once, and so is its recovery; its pods stay desired", async () => {
  const { clock, disk, log, appliedPods, errors, start } = await startWatch({ "web.yaml": manifest("web") });
  await start();
  disk.before = (verb, path) => {
    if (verb === "list") throw new FilesError("EIO", path, `${path} failed: input/output error`);
  };
  await clock.advance(60_000);
  expect(log.takeLines()).toEqual([
    "error: cannot read the directory of manifests: /m failed: input/output error; its pods stay as they are",
  ]);
  expect(errors).toEqual([
    "/m: cannot read the directory of manifests: /m failed: input/output error; its pods stay as they are",
  ]);
  disk.before = () => {};
  await clock.advance(1000);
  expect(log.takeLines()).toEqual(["info: the directory of manifests can be read again"]);
  expect(errors).toEqual([]);
  expect(appliedPods).toEqual(["default/web-node busybox:1"]);
});

test("a directory that cannot be watched is logged once, and its changes are found by the check", async () => {
  let isExhausted = true;
  const { clock, folder, log, appliedPods, start } = await startWatch({ "web.yaml": manifest("web") }, (files) => ({
    ...files,
    watch(path, ...rest) {
      if (isExhausted) throw new FilesError("EWATCH", path, `${path} cannot be watched: no inotify watch is left`);
      files.watch(path, ...rest);
    },
  }));
  await start();
  await folder.write("web.yaml", manifest("web", "busybox:2"), 0o644);
  await clock.advance(60_000);
  expect(log.takeLines()).toEqual([
    "error: / cannot be watched: no inotify watch is left; changes are found every 20 s only",
  ]);
  expect(appliedPods).toEqual(["default/web-node busybox:1", "default/web-node busybox:2"]);
  isExhausted = false;
  await clock.advance(20_000);
  expect(log.takeLines()).toEqual(["info: the manifests are watched again"]);
});

test("a different reason is logged again", async () => {
  const { clock, disk, log, start } = await startWatch({});
  disk.before = fail("the first");
  await start();
  await clock.advance(5000);
  disk.before = fail("the second");
  await clock.advance(5000);
  expect(log.takeLines().map((line) => /the (first|second)/.exec(line)?.[0])).toEqual(["the first", "the second"]);
});

test("pods that cannot be applied are logged once and retried until they are applied", async () => {
  const { clock, log, appliedPods, desired, start } = await startWatch({ "web.yaml": manifest("web") });
  desired.beforeReplace = fail("no room");
  await start();
  await clock.advance(30_000);
  expect(log.takeLines()).toEqual([
    "error: cannot apply the pods of the manifests: no room; the known pods stay as they are",
  ]);
  desired.beforeReplace = () => {};
  await clock.advance(1000);
  expect(log.takeLines()).toEqual(["info: the pods of the manifests can be applied again"]);
  expect(appliedPods).toEqual(["default/web-node busybox:1"]);
});

test("a directory that is unreadable when the agent starts is watched as soon as it is readable", async () => {
  const { clock, disk, log, appliedPods, start } = await startWatch({ "web.yaml": manifest("web") });
  disk.before = fail("not yet");
  await start();
  disk.before = () => {};
  await clock.advance(1000);
  expect(log.takeLines()).toHaveLength(2);
  expect(appliedPods).toEqual(["default/web-node busybox:1"]);
});

/** The directory still lists `ghost.yaml`, which is removed before it is read. */
const withGhost =
  (kind: "file" | "symlink") =>
  (files: Files): Files => ({
    ...files,
    list: async (path) => [...((await files.list(path)) ?? []), { name: "ghost.yaml", kind }],
  });

const ghosts: readonly (readonly [sentence: string, files: (files: Files) => Files, reported: readonly string[]])[] = [
  ["a file that is removed while the directory is read is no error", withGhost("file"), []],
  [
    "a file that is removed before it is read is no error",
    (files) => {
      const { list, read } = withGhost("file")(files);
      return { ...files, list, read, stat: (path) => files.stat(path.replace("ghost", "web")) };
    },
    [],
  ],
  [
    "a dangling symlink is an error",
    withGhost("symlink"),
    ["error: manifest refused: /m/ghost.yaml is a dangling symlink"],
  ],
];
for (const [sentence, files, reported] of ghosts)
  test(sentence, async () => {
    const { clock, log, appliedPods, start } = await startWatch({ "web.yaml": manifest("web") }, files);
    await start();
    await clock.advance(60_000);
    expect(log.takeLines()).toEqual([...reported]);
    expect(appliedPods).toEqual(["default/web-node busybox:1"]);
  });

for (const code of ["EMFILE", "EIO", "ENOMEM", "EACCES"])
  test(`a manifest whose read failed by ${code} is read again at the next check`, async () => {
    const { clock, disk, log, appliedPods, errors, start } = await startWatch({ "web.yaml": manifest("web") });
    disk.before = (verb, path) => {
      if (verb === "read") throw new FilesError(code, path, `${path} failed: ${code}`);
    };
    await start();
    await clock.advance(30_000);
    expect(appliedPods).toEqual([""]);
    const problem = `failed: ${code}; it is read again at the next check`;
    expect(errors).toEqual([`/m/web.yaml: it ${problem}`]);
    expect(log.takeLines()).toEqual([`error: manifest refused: /m/web.yaml ${problem}`]);
    disk.before = () => {};
    await clock.advance(20_000);
    expect(appliedPods).toEqual(["", "default/web-node busybox:1"]);
    expect([log.takeLines(), errors]).toEqual([[], []]);
  });

test("a manifest that is no usable file is not read again until it changes", async () => {
  const { clock, disk, folder, appliedPods, errors, start } = await startWatch({ "web.yaml": " ".repeat(1 << 21) });
  await start();
  let reads = 0;
  disk.before = (verb) => {
    if (verb === "read") reads += 1;
  };
  await clock.advance(60_000);
  expect([reads, errors]).toEqual([0, ["/m/web.yaml: it is larger than 1048576 bytes"]]);
  await folder.write("web.yaml", manifest("web"), 0o644);
  await clock.advance(1000);
  expect(appliedPods.at(-1)).toBe("default/web-node busybox:1");
});

test("a thousand manifests are read a few at a time", async () => {
  const names = Array.from({ length: 1000 }, (_, index) => `junk-${index}.yaml`);
  let open = 0;
  let mostOpen = 0;
  const { errors, clock, start } = await startWatch(
    Object.fromEntries(names.map((name) => [name, "junk"])),
    (files) => ({
      ...files,
      read: async (path, maxBytes) => {
        mostOpen = Math.max(mostOpen, ++open);
        const text = await files.read(path, maxBytes);
        open -= 1;
        return text;
      },
    }),
  );
  await start();
  await clock.advance(1000);
  expect(errors).toHaveLength(1000);
  expect(mostOpen).toBeLessThanOrEqual(16);
});

test("two files with the same pod are logged once per occurrence", async () => {
  const { clock, folder, log, appliedPods, start } = await startWatch({ "a.yaml": manifest("web") });
  const refusal =
    "error: manifest refused: pod default/web-node is already defined by /m/a.yaml; default/web-node stays as it was";
  await start();
  for (let time = 0; time < 2; time++) {
    await folder.write("b.yaml", manifest("web", "busybox:2"), 0o644);
    await clock.advance(60_000);
    expect(log.takeLines()).toEqual([refusal]);
    await folder.write("b.yaml", manifest("other"), 0o644);
    await clock.advance(1000);
  }
  expect(log.takeLines()).toEqual([]);
  expect(appliedPods.at(-1)).toBe("default/web-node busybox:1, default/other-node busybox:1");
});

test("of two files with the same uid the first owns it, and the second gets it when the first is removed", async () => {
  const { clock, folder, log, appliedPods, start } = await startWatch({
    "a.yaml": manifest("web", "busybox:1", "u-1"),
    "b.yaml": manifest("db", "busybox:1", "u-1"),
    "c.yaml": manifest("other", "busybox:1", "u-2"),
  });
  await start();
  await clock.advance(60_000);
  expect(log.lines.map(({ message, fields }) => [message, fields["file"]])).toEqual([
    ["manifest refused: pod uid u-1 is already defined by /m/a.yaml; default/web-node stays as it was", "/m/b.yaml"],
  ]);
  expect(appliedPods).toEqual(["default/web-node busybox:1, default/other-node busybox:1"]);
  await folder.remove("a.yaml");
  await clock.advance(1000);
  expect(appliedPods.at(-1)).toBe("default/db-node busybox:1, default/other-node busybox:1");
});

test("a copy whose name sorts first does not take the pod from its manifest", async () => {
  const { clock, folder, log, appliedPods, errors, start } = await startWatch({ "web.yaml": manifest("web") });
  await start();
  await folder.write("web-copy.yaml", manifest("web", "busybox:2"), 0o644);
  await clock.advance(60_000);
  const problem = "pod default/web-node is already defined by /m/web.yaml; default/web-node stays as it was";
  expect(log.takeLines()).toEqual([`error: manifest refused: ${problem}`]);
  expect(errors).toEqual([`/m/web-copy.yaml: ${problem}`]);
  await folder.write("web.yaml", manifest("web", "busybox:3"), 0o644);
  await clock.advance(1000);
  await folder.remove("web.yaml");
  await clock.advance(1000);
  expect(appliedPods).toEqual([1, 3, 2].map((version) => `default/web-node busybox:${version}`));
  expect([log.takeLines(), errors]).toEqual([[], []]);
});

test("a copy that was added while no agent ran does not take the pod from its manifest", async () => {
  const { pod } = await readPodManifest(manifest("web"), { path: "/m/web.yaml", nodeName: "node" });
  if (pod === undefined) throw new Error("the manifest is good");
  const { uid = "" } = pod.metadata;
  const source = { kind: "file", path: "/m/web.yaml" } as const;
  const known: DesiredPod = { pod, uid: uid as PodUid, source, acceptedAt: 0, revision: 0 };
  const files = { "web-copy.yaml": manifest("web", "busybox:2"), "web.yaml": manifest("web") };
  const { appliedPods, errors, start } = await startWatch(files, undefined, [known]);
  await start();
  expect(appliedPods).toEqual(["default/web-node busybox:1"]);
  expect(errors).toHaveLength(1);
});

test("a pod that an earlier release started keeps its uid until its manifest changes", async () => {
  const podOf = async (text: string, isUidInUse: (uid: string) => boolean) => {
    const { pod } = await readPodManifest(text, { path: "/m/web.yaml", nodeName: "node", isUidInUse });
    if (pod === undefined) throw new Error("the manifest is good");
    return { pod, uid: pod.metadata.uid as PodUid };
  };
  const [text, changedText] = [manifest("web"), manifest("web", "busybox:2")];
  const [former, present, changed] = await Promise.all([
    podOf(text, () => true),
    podOf(text, () => false),
    podOf(changedText, () => false),
  ]);
  expect(former.uid).not.toBe(present.uid);
  const known: DesiredPod = { ...former, source: { kind: "file", path: "/m/web.yaml" }, acceptedAt: 0, revision: 0 };
  const { clock, folder, appliedUids, start } = await startWatch({ "web.yaml": text }, undefined, [known]);
  await start();
  await folder.write("web.yaml", changedText, 0o644);
  await clock.advance(1000);
  expect(appliedUids).toEqual([former.uid, changed.uid]);
  const terminating = { ...known, termination: { requestedAt: 0, gracePeriodSeconds: 30, why: "it was removed" } };
  const second = await startWatch({ "web.yaml": text }, undefined, [terminating]);
  await second.start();
  expect(second.appliedUids).toEqual([present.uid]);
});

test("each refused manifest is reported once, until it is repaired or removed", async () => {
  const { clock, folder, errors, start } = await startWatch({
    "web.yaml": manifest("web"),
    "empty.yaml": "# nothing\n",
  });
  await start();
  await folder.write("web.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containrs: []\n", 0o644);
  await clock.advance(1000);
  expect(errors).toMatchInlineSnapshot(`
    [
      "/m/empty.yaml: it is empty; a manifest holds one Pod",
      "/m/web.yaml: line 5: spec.containrs: Unknown field: did you mean "containers"?; default/web-node stays as it was",
    ]
  `);
  await folder.write("web.yaml", manifest("web"), 0o644);
  await folder.remove("empty.yaml");
  await clock.advance(1000);
  expect(errors).toEqual([]);
});

test("a missing path is logged once, and again each time it disappears", async () => {
  const { clock, disk, folder, log, appliedPods, start } = await startWatch({});
  await disk.at("/").remove("m");
  await start();
  await clock.advance(60_000);
  expect(log.takeLines()).toEqual(["warn: staticPodPath /m does not exist: no pods from it until it appears"]);
  await disk.at("/").makeFolder("m", 0o755);
  await folder.write("web.yaml", manifest("web"), 0o644);
  await clock.advance(20_000);
  expect(log.takeLines()).toEqual([]);
  await folder.remove("web.yaml");
  await disk.at("/").remove("m");
  await clock.advance(60_000);
  expect(log.takeLines()).toEqual([
    "warn: staticPodPath /m no longer exists: its static pods are terminated, and none are started until it exists again",
  ]);
  expect(appliedPods).toEqual(["", "default/web-node busybox:1", ""]);
});

/** Delivers at most one event every two milliseconds and drops the others, like Bun. */
const withDeafness =
  (now: () => number) =>
  (files: Files): Files => {
    let reportedAt = Number.NEGATIVE_INFINITY;
    return {
      ...files,
      watch: (path, changed, gone, signal) => {
        const notify: OnFileChanged = (name, isInPlace) => {
          if (now() - reportedAt < 2) return;
          reportedAt = now();
          changed(name, isInPlace);
        };
        files.watch(path, notify, gone, signal);
      },
    };
  };

test("the second of two quick changes of a file is read before the periodic check", async () => {
  const now = () => fixture.clock.now();
  const fixture = await startWatch({ "web.yaml": manifest("web") }, (files) => withDeafness(now)(files));
  const { clock, folder, appliedPods, start } = fixture;
  await start();
  await clock.advance(100);
  await folder.write("web.yaml", manifest("web", "busybox:2"), 0o644);
  await settlePromises();
  await folder.write("web.yaml", manifest("web", "busybox:3"), 0o644);
  await clock.advance(100);
  expect(appliedPods).toEqual([1, 2, 3].map((n) => `default/web-node busybox:${n}`));
});

test("a file that is renamed into place is read at once, and one that is written in place 30 ms after its last write", async () => {
  let write = (_name: string) => {};
  const { clock, folder, appliedPods, start } = await startWatch({}, (files) => ({
    ...files,
    watch: (path, changed, gone, signal) => {
      if (path === "/m") write = (name) => changed(name, true);
      files.watch(path, changed, gone, signal);
    },
  }));
  await start();
  await clock.advance(1000);
  await folder.write("a.yaml", manifest("a"), 0o644);
  await settlePromises();
  expect(appliedPods.splice(0)).toEqual(["", "default/a-node busybox:1"]);
  for (const image of ["busybox:2", "busybox:3"]) {
    await folder.write("a.yaml", manifest("a", image), 0o644);
    write("a.yaml");
    await clock.advance(29);
  }
  expect(appliedPods).toEqual([]);
  await clock.advance(1);
  expect(appliedPods).toEqual(["default/a-node busybox:3"]);
});

test("a manifest that is empty when it appears is read when it is filled, and reported only if it stays empty", async () => {
  const { clock, folder, log, appliedPods, errors, start } = await startWatch({});
  await start();
  await folder.write("web.yaml", "", 0o644);
  await clock.advance(1500);
  expect([log.takeLines(), errors]).toEqual([[], []]);
  await folder.write("web.yaml", manifest("web"), 0o644);
  await clock.advance(30);
  expect(appliedPods).toEqual(["", "default/web-node busybox:1"]);
  await folder.write("empty.yaml", "", 0o644);
  await clock.advance(1999);
  expect(log.takeLines()).toEqual([]);
  await clock.advance(1);
  const problem = "it is empty; a manifest holds one Pod";
  expect(log.takeLines()).toEqual([`error: manifest refused: /m/empty.yaml: ${problem}`]);
  expect(errors).toEqual([`/m/empty.yaml: ${problem}`]);
});

test("a manifest that is emptied keeps its pod, and is reported only if it stays empty", async () => {
  const { clock, folder, log, appliedPods, start } = await startWatch({ "web.yaml": manifest("web") });
  await start();
  await folder.write("web.yaml", "", 0o644);
  await clock.advance(1999);
  expect(log.takeLines()).toEqual([]);
  await clock.advance(1);
  expect(log.takeLines()).toEqual([
    "error: manifest refused: /m/web.yaml: it is empty; a manifest holds one Pod; default/web-node stays as it was",
  ]);
  expect(appliedPods).toEqual(["default/web-node busybox:1"]);
});

test("the event of a write that arrives during the read is respected", async () => {
  let write = (_name: string) => {};
  const { clock, disk, folder, appliedPods, start } = await startWatch({}, (files) => ({
    ...files,
    watch: (path, changed, gone, signal) => {
      if (path === "/m") write = (name) => changed(name, true);
      files.watch(path, changed, gone, signal);
    },
  }));
  await start();
  await clock.advance(1000);
  disk.after = (verb) => (verb === "read" ? write("a.yaml") : undefined);
  await folder.write("a.yaml", manifest("a"), 0o644);
  await clock.advance(20);
  expect(appliedPods).toEqual([""]);
  disk.after = () => {};
  await folder.write("a.yaml", manifest("a", "busybox:2"), 0o644);
  await clock.advance(0);
  expect(appliedPods).toEqual(["", "default/a-node busybox:2"]);
});

const settleRows: readonly [
  sentence: string,
  sizeBytes: number,
  ageMs: number,
  leftMs: number | undefined,
  hasArrived?: boolean,
][] = [
  ["a small file that was renamed into place is complete at once", 1, 0, undefined],
  ["a small file that was written in place may be half written", 1, 0, 30, false],
  ["a small file that was written in place is complete after 30 ms", 1, 30, undefined, false],
  ["a renamed file of at most one write is complete", 4096, 0, undefined],
  ["a larger file may be half written", 4097, 0, 30],
  ["an empty file may be about to be written", 0, 0, 2000],
  ["an empty file gets the rest of two seconds", 0, 1999, 1, false],
  ["a larger file that was changed recently gets the rest of 30 ms", 10_000, 29, 1],
  ["a larger file is complete after 30 ms", 10_000, 30, undefined],
  ["a file that stays empty is complete", 0, 2000, undefined],
  ["a modification time in the near future is waited for", 10_000, -10, 40],
  ["a modification time in the far future is not waited for", 10_000, -31, undefined],
  ["a modification time of next year is not waited for", 0, -31_536_000_000, undefined],
];
for (const [sentence, sizeBytes, ageMs, leftMs, hasArrived = true] of settleRows)
  test(sentence, () => {
    const stat = {
      kind: "file",
      sizeBytes,
      modifiedMs: 1_000_000 - ageMs,
      inode: 1,
      mode: 0o644,
      user: 0,
      group: 0,
    } as const;
    expect(readableAt(stat, hasArrived, 1_000_000)).toBe(leftMs === undefined ? undefined : 1_000_000 + leftMs);
  });
