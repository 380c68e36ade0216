import { afterEach, expect, test } from "bun:test";
import { type FileChanged, type Files, FilesError } from "../../../host/fs/files.ts";
// Loaded when the first manifest is read; here at once, so that it costs no turn of the event loop.
import "../../../proto/yaml/parse.ts";
import type { PodUid } from "../../../proto/ids.ts";
import { FakeClock, rest } from "../../../test/fakes/clock.ts";
import { FakeDisk } from "../../../test/fakes/files.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import type { Refusal } from "../../decide/node/local-node-report.ts";
import { type DesiredPod, fullNameOf } from "../../decide/pod/desired.ts";
import type { OfferedPod } from "../../decide/sources/merge-static.ts";
import { readPodManifest } from "./manifest.ts";
import { followStaticPath } from "./static-files.ts";

const manifest = (name: string, image = "busybox:1", uid?: string) =>
  JSON.stringify({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, uid },
    spec: { containers: [{ name: "a", image }] },
  });

let ending = new AbortController();
afterEach(() => ending.abort());

/** A folder of manifests that is followed; `files` puts something between the follower and the disk. */
async function follow(
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
  const offers: string[] = [];
  const refused: string[] = [];
  const desired = {
    all: () => known,
    offer: async (_: string, pods: readonly OfferedPod[]) => {
      desired.beforeOffer();
      offers.push(pods.map(({ pod }) => `${fullNameOf(pod)} ${pod.spec.containers[0]?.image}`).join(", "));
    },
    beforeOffer: () => {},
    refuse: (_: string, all: readonly Refusal[]) => {
      refused.splice(0, refused.length, ...all.map(({ file, problem }) => `${file}: ${problem}`));
    },
  };
  ending = new AbortController();
  const settings = { path: "/m", nodeName: "node", checkEveryMs: 20_000, clock, log, desired };
  const start = async () => {
    void followStaticPath({ ...settings, filesAt: (root) => files(disk.at(root)) }, ending.signal);
    await rest();
  };
  return { clock, disk, folder, log, offers, refused, desired, start };
}

const fail = (message: string) => () => {
  throw new Error(message);
};

test("a folder that cannot be read is said once, and once when it can be again; its pods stay wanted meanwhile", async () => {
  const { clock, disk, log, offers, refused, start } = await follow({ "web.yaml": manifest("web") });
  await start();
  disk.before = (verb, path) => {
    if (verb === "list") throw new FilesError("EIO", path, `${path} failed: input/output error`);
  };
  await clock.advance(60_000);
  expect(log.told()).toEqual([
    "error: the folder of manifests cannot be read: /m failed: input/output error; its pods stay as they are",
  ]);
  expect(refused).toEqual([
    "/m: the folder of manifests cannot be read: /m failed: input/output error; its pods stay as they are",
  ]);
  disk.before = () => {};
  await clock.advance(1000);
  expect(log.told()).toEqual(["info: the folder of manifests is read again"]);
  expect(refused).toEqual([]);
  expect(offers).toEqual(["default/web-node busybox:1"]);
});

test("another reason is another sentence", async () => {
  const { clock, disk, log, start } = await follow({});
  disk.before = fail("the first");
  await start();
  await clock.advance(5000);
  disk.before = fail("the second");
  await clock.advance(5000);
  expect(log.told().map((line) => /the (first|second)/.exec(line)?.[0])).toEqual(["the first", "the second"]);
});

test("pods that cannot be taken are said once, not blamed on the folder, and offered until they are taken", async () => {
  const { clock, log, offers, desired, start } = await follow({ "web.yaml": manifest("web") });
  desired.beforeOffer = fail("no room");
  await start();
  await clock.advance(30_000);
  expect(log.told()).toEqual([
    "error: the pods of the manifests cannot be taken: no room; those known stay as they are",
  ]);
  desired.beforeOffer = () => {};
  await clock.advance(1000);
  expect(log.told()).toEqual(["info: the pods of the manifests are taken again"]);
  expect(offers).toEqual(["default/web-node busybox:1"]);
});

test("a folder that cannot be looked at when the agent starts is followed as soon as it can be", async () => {
  const { clock, disk, log, offers, start } = await follow({ "web.yaml": manifest("web") });
  disk.before = fail("not yet");
  await start();
  disk.before = () => {};
  await clock.advance(1000);
  expect(log.told()).toHaveLength(2);
  expect(offers).toEqual(["default/web-node busybox:1"]);
});

/** The folder still shows `ghost.yaml`, which is gone by the time that somebody looks at it. */
const withGhost =
  (kind: "file" | "symlink") =>
  (files: Files): Files => ({
    ...files,
    list: async (path) => [...((await files.list(path)) ?? []), { name: "ghost.yaml", kind }],
  });

const ghosts: readonly (readonly [sentence: string, files: (files: Files) => Files, told: readonly string[]])[] = [
  ["a file that is removed while the folder is read is no mistake", withGhost("file"), []],
  [
    "a file that is removed before it is read is no mistake",
    (files) => {
      const { list, read } = withGhost("file")(files);
      return { ...files, list, read, stat: (path) => files.stat(path.replace("ghost", "web")) };
    },
    [],
  ],
  [
    "a link that leads nowhere is one",
    withGhost("symlink"),
    ["error: manifest refused: /m/ghost.yaml is a link that leads nowhere"],
  ],
];
for (const [sentence, files, told] of ghosts)
  test(sentence, async () => {
    const { clock, log, offers, start } = await follow({ "web.yaml": manifest("web") }, files);
    await start();
    await clock.advance(60_000);
    expect(log.told()).toEqual([...told]);
    expect(offers).toEqual(["default/web-node busybox:1"]);
  });

test("two files for one pod are told each time that it happens, not as long as it lasts", async () => {
  const { clock, folder, log, offers, start } = await follow({ "a.yaml": manifest("web") });
  const refusal =
    "error: manifest refused: pod default/web-node is already defined by /m/a.yaml; default/web-node stays as it was";
  await start();
  for (let time = 0; time < 2; time++) {
    await folder.write("b.yaml", manifest("web", "busybox:2"), 0o644);
    await clock.advance(60_000);
    expect(log.told()).toEqual([refusal]);
    await folder.write("b.yaml", manifest("other"), 0o644);
    await clock.advance(1000);
  }
  expect(log.told()).toEqual([]);
  expect(offers.at(-1)).toBe("default/web-node busybox:1, default/other-node busybox:1");
});

test("of two files for one uid the first has it, and the second gets it when the first is gone", async () => {
  const { clock, folder, log, offers, start } = await follow({
    "a.yaml": manifest("web", "busybox:1", "u-1"),
    "b.yaml": manifest("db", "busybox:1", "u-1"),
    "c.yaml": manifest("other", "busybox:1", "u-2"),
  });
  await start();
  await clock.advance(60_000);
  expect(log.lines.map(({ message, fields }) => [message, fields["file"]])).toEqual([
    ["manifest refused: pod uid u-1 is already defined by /m/a.yaml; default/web-node stays as it was", "/m/b.yaml"],
  ]);
  expect(offers).toEqual(["default/web-node busybox:1, default/other-node busybox:1"]);
  await folder.remove("a.yaml");
  await clock.advance(1000);
  expect(offers.at(-1)).toBe("default/db-node busybox:1, default/other-node busybox:1");
});

test("a copy that comes before its manifest in the order of names does not take the pod from it", async () => {
  const { clock, folder, log, offers, refused, start } = await follow({ "web.yaml": manifest("web") });
  await start();
  await folder.write("web-copy.yaml", manifest("web", "busybox:2"), 0o644);
  await clock.advance(60_000);
  const problem = "pod default/web-node is already defined by /m/web.yaml; default/web-node stays as it was";
  expect(log.told()).toEqual([`error: manifest refused: ${problem}`]);
  expect(refused).toEqual([`/m/web-copy.yaml: ${problem}`]);
  await folder.write("web.yaml", manifest("web", "busybox:3"), 0o644);
  await clock.advance(1000);
  await folder.remove("web.yaml");
  await clock.advance(1000);
  expect(offers).toEqual([1, 3, 2].map((version) => `default/web-node busybox:${version}`));
  expect([log.told(), refused]).toEqual([[], []]);
});

test("a copy that came while no agent ran does not take the pod from its manifest either", async () => {
  const { pod } = await readPodManifest(manifest("web"), { path: "/m/web.yaml", nodeName: "node" });
  if (pod === undefined) throw new Error("the manifest is good");
  const { uid = "" } = pod.metadata;
  const source = { kind: "file", path: "/m/web.yaml" } as const;
  const known: DesiredPod = { pod, uid: uid as PodUid, source, acceptedAt: 0, revision: 0 };
  const files = { "web-copy.yaml": manifest("web", "busybox:2"), "web.yaml": manifest("web") };
  const { offers, refused, start } = await follow(files, undefined, [known]);
  await start();
  expect(offers).toEqual(["default/web-node busybox:1"]);
  expect(refused).toHaveLength(1);
});

test("what is refused is told to whoever asks, each manifest once, until it is repaired or gone", async () => {
  const { clock, folder, refused, start } = await follow({ "web.yaml": manifest("web"), "empty.yaml": "# nothing\n" });
  await start();
  await folder.write("web.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containrs: []\n", 0o644);
  await clock.advance(1000);
  expect(refused).toMatchInlineSnapshot(`
    [
      "/m/empty.yaml: it is empty; a manifest holds one Pod",
      "/m/web.yaml: line 5: spec.containrs: Unknown field: did you mean "containers"?; default/web-node stays as it was",
    ]
  `);
  await folder.write("web.yaml", manifest("web"), 0o644);
  await folder.remove("empty.yaml");
  await clock.advance(1000);
  expect(refused).toEqual([]);
});

test("that the path does not exist is said once, and again each time that it is gone", async () => {
  const { clock, disk, folder, log, offers, start } = await follow({});
  await disk.at("/").remove("m");
  await start();
  await clock.advance(60_000);
  expect(log.told()).toEqual(["warn: staticPodPath /m does not exist: no pods from it until it appears"]);
  await disk.at("/").makeFolder("m", 0o755);
  await folder.write("web.yaml", manifest("web"), 0o644);
  await clock.advance(20_000);
  expect(log.told()).toEqual([]);
  await folder.remove("web.yaml");
  await disk.at("/").remove("m");
  await clock.advance(60_000);
  expect(log.told()).toEqual([
    "warn: staticPodPath /m does not exist any more: its pods end, and none come from it until it appears",
  ]);
  expect(offers).toEqual(["", "default/web-node busybox:1", ""]);
});

/** Tells one event every two milliseconds and forgets the others, as Bun does. */
const withDeafness =
  (now: () => number) =>
  (files: Files): Files => {
    let toldAt = Number.NEGATIVE_INFINITY;
    return {
      ...files,
      watch: (path, changed, gone, signal) => {
        const tell: FileChanged = (name, isInPlace) => {
          if (now() - toldAt < 2) return;
          toldAt = now();
          changed(name, isInPlace);
        };
        files.watch(path, tell, gone, signal);
      },
    };
  };

test("of a file that changes twice in a moment the second version is not left to the audit", async () => {
  const now = () => scene.clock.now();
  const scene = await follow({ "web.yaml": manifest("web") }, (files) => withDeafness(now)(files));
  const { clock, folder, offers, start } = scene;
  await start();
  await clock.advance(100);
  await folder.write("web.yaml", manifest("web", "busybox:2"), 0o644);
  await rest();
  await folder.write("web.yaml", manifest("web", "busybox:3"), 0o644);
  await clock.advance(100);
  expect(offers).toEqual([1, 2, 3].map((n) => `default/web-node busybox:${n}`));
});

test("what is renamed into its place is read at once, and what is written there when nobody has written for 30 ms", async () => {
  let write = (_name: string) => {};
  const { clock, folder, offers, start } = await follow({}, (files) => ({
    ...files,
    watch: (path, changed, gone, signal) => {
      if (path === "/m") write = (name) => changed(name, true);
      files.watch(path, changed, gone, signal);
    },
  }));
  await start();
  await clock.advance(1000);
  await folder.write("a.yaml", manifest("a"), 0o644);
  await rest();
  expect(offers.splice(0)).toEqual(["", "default/a-node busybox:1"]);
  for (const image of ["busybox:2", "busybox:3"]) {
    await folder.write("a.yaml", manifest("a", image), 0o644);
    write("a.yaml");
    await clock.advance(29);
  }
  expect(offers).toEqual([]);
  await clock.advance(1);
  expect(offers).toEqual(["default/a-node busybox:3"]);
});

test("the news of a write that comes while the file is read is heeded", async () => {
  let write = (_name: string) => {};
  const { clock, disk, folder, offers, start } = await follow({}, (files) => ({
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
  expect(offers).toEqual([""]);
  disk.after = () => {};
  await folder.write("a.yaml", manifest("a", "busybox:2"), 0o644);
  await clock.advance(0);
  expect(offers).toEqual(["", "default/a-node busybox:2"]);
});
