import { expect, test } from "bun:test";
import { lstat, mkdtemp, readdir, readFile, readlink, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFiles, FilesError } from "../../../host/fs/files.ts";
import { FakeDisk } from "../../../test/fakes/files.ts";
import type { FilesVerb } from "../../../test/fakes/files-verbs.ts";
import { TranslateError } from "../../translate/translate-error.ts";
import type { VolumeFile } from "../../translate/volumes/volume-file.ts";
import { writeContent } from "./atomic-writer.ts";

const now = Date.UTC(2026, 0, 31, 13, 4, 59, 250);
const file = (path: string, content: string | Uint8Array = path, other: Partial<VolumeFile> = {}): VolumeFile => ({
  path,
  mode: 0o644,
  content,
  ...other,
});

/** A volume on a disk in memory. `calls` counts the calls of `Files` that change something. */
async function createVolume() {
  const disk = new FakeDisk(() => 0);
  await disk.at("/").makeFolder("v", 0o777);
  const mutations: readonly FilesVerb[] = ["makeFile", "makeFolder", "rename", "link", "remove", "write"];
  const calls: string[] = [];
  disk.before = (verb, path) => {
    if (mutations.includes(verb)) calls.push(`${verb} ${path}`);
  };
  const files = disk.at("/");
  return {
    disk,
    files,
    calls,
    write: (content: readonly VolumeFile[], at = now, group?: number) => writeContent(files, "v", content, at, group),
    state: () => stateOf(disk),
  };
}

/** All paths with what they contain, as a program in a container sees them. */
function stateOf(disk: FakeDisk): Readonly<Record<string, string>> {
  const entries = [...disk.nodes].map(([path, node]) => {
    if (node.kind === "directory") return [path, `folder ${node.mode.toString(8)}`];
    if (node.kind === "symlink") return [path, `-> ${node.target}`];
    if (node.kind === "block device") return [path, node.kind];
    return [path, `${node.mode.toString(8)} ${node.user ?? "-"}:${node.group ?? "-"} ${node.content}`];
  });
  return Object.fromEntries(entries.filter(([path = ""]) => path.startsWith("/v/")));
}

test("the content of a volume becomes a timestamped folder, the link ..data, and a link for each first name", async () => {
  const volume = await createVolume();
  const content = [
    file("tls.key", "secret", { mode: 0o400, user: 1000 }),
    file("a/b/c"),
    file("a/d", "d", { group: 7 }),
  ];
  expect(await volume.write(content)).toBe("written");
  expect(volume.state()).toMatchInlineSnapshot(`
    {
      "/v/..2026_01_31_13_04_59.3133057861": "folder 755",
      "/v/..2026_01_31_13_04_59.3133057861/a": "folder 755",
      "/v/..2026_01_31_13_04_59.3133057861/a/b": "folder 755",
      "/v/..2026_01_31_13_04_59.3133057861/a/b/c": "644 -:- a/b/c",
      "/v/..2026_01_31_13_04_59.3133057861/a/d": "644 -:7 d",
      "/v/..2026_01_31_13_04_59.3133057861/tls.key": "400 1000:- secret",
      "/v/..data": "-> ..2026_01_31_13_04_59.3133057861",
      "/v/a": "-> ..data/a",
      "/v/tls.key": "-> ..data/tls.key",
    }
  `);
});

test("folders belong to the pod's fsGroup", async () => {
  const volume = await createVolume();
  await volume.write([file("a/b", "x", { group: 2000, mode: 0o664 })], now, 2000);
  for (const path of ["v/..data", "v/a"])
    expect(await volume.files.stat(path)).toMatchObject({ kind: "directory", mode: 0o2755, group: 2000 });
  const made = volume.calls.length;
  expect(await volume.write([file("a/b", "x", { group: 2000, mode: 0o664 })], now + 1, 2000)).toBe("unchanged");
  expect(volume.calls).toHaveLength(made);
});

const bytes = Uint8Array.of(0, 0xff, 0xfe, 10);
const before = [file("a", "one"), file("dir/b", "two"), file("c", bytes)];
const changes: readonly [sentence: string, after: readonly VolumeFile[]][] = [
  ["another content of the same length", [file("a", "eno"), file("dir/b", "two"), file("c", bytes)]],
  [
    "another byte that is no UTF-8",
    [file("a", "one"), file("dir/b", "two"), file("c", Uint8Array.of(0, 0xff, 0xff, 10))],
  ],
  ["another mode", [file("a", "one", { mode: 0o600 }), file("dir/b", "two"), file("c", bytes)]],
  ["another user", [file("a", "one", { user: 1234 }), file("dir/b", "two"), file("c", bytes)]],
  ["another group", [file("a", "one", { group: 1234 }), file("dir/b", "two"), file("c", bytes)]],
  ["a file more", [...before, file("new", "new")]],
  ["a file more in a folder", [...before, file("dir/new", "new")]],
  ["a file less", [file("a", "one"), file("c", bytes)]],
  ["a file less in a folder that stays", [...before, file("dir/x", "x")].filter(({ path }) => path !== "dir/b")],
  ["a file in place of a folder", [file("a", "one"), file("dir", "two"), file("c", bytes)]],
  ["a folder in place of a file", [file("a/b", "one"), file("dir/b", "two"), file("c", bytes)]],
  ["no file at all", []],
];

for (const [sentence, after] of changes)
  test(`content with ${sentence} replaces the old one; then it is unchanged`, async () => {
    const volume = await createVolume();
    await volume.write(before);
    expect(await volume.write(after, now + 1)).toBe("written");
    const expected = await createVolume();
    await expected.write(after);
    expect(withoutDigits(volume.state())).toEqual(withoutDigits(expected.state()));
    const made = volume.calls.length;
    expect(await volume.write([...after].reverse(), now + 2)).toBe("unchanged");
    expect(volume.calls).toHaveLength(made);
  });

const withoutDigits = (state: object) => JSON.parse(JSON.stringify(state).replaceAll(/(\.\.\d{4}[_\d]+)\.\d+/g, "$1"));

test("the same content in the same millisecond gets a folder with another name", async () => {
  const volume = await createVolume();
  await volume.write([file("a", "one")]);
  const first = await volume.files.readLink("v/..data");
  await volume.write([file("a", "two")]);
  await volume.write([file("a", "one")]);
  expect(await volume.files.readLink("v/..data")).not.toBe(first);
});

const refused: readonly [path: string, why: string][] = [
  ["", 'must not be empty: ""'],
  ["/etc/passwd", "must be relative path: /etc/passwd"],
  ["..", "must not contain '..': .."],
  ["a/../../b", "must not contain '..': a/../../b"],
  ["..data", "must not start with '..': ..data"],
  ["..hidden/a", "must not start with '..': ..hidden/a"],
  ["./..data", "must not start with '..': ./..data"],
  [".//..data_tmp/x", "must not start with '..': .//..data_tmp/x"],
  [".", "must name a file: ."],
  ["x".repeat(256), "filenames must be less than or equal to 255 characters"],
  ["ä".repeat(128), "filenames must be less than or equal to 255 characters"],
  ["x/".repeat(2049), "must be less than or equal to 4096 characters"],
  ["a\0b", 'must not contain a null byte: "a\\u0000b"'],
];
for (const [path, why] of refused)
  test(`the path ${JSON.stringify(path.slice(0, 20))} is refused, and nothing is written`, async () => {
    const volume = await createVolume();
    await volume.write(before);
    const [state, made] = [volume.state(), volume.calls.length];
    const written = volume.write([file("fine"), file(path, "x")]);
    await expect(written).rejects.toBeInstanceOf(TranslateError);
    await expect(written).rejects.toMatchObject({ reason: "FailedMount", message: `invalid path: ${why}` });
    expect(volume.state()).toEqual(state);
    expect(volume.calls).toHaveLength(made);
  });

test("a path that is a file and a folder at once is refused", async () => {
  const volume = await createVolume();
  await expect(volume.write([file("a/b/c"), file("a/b")])).rejects.toMatchObject({
    name: "TranslateError",
    message: "invalid path: a/b is the path of a file and of a folder with files",
  });
});

test("names with dots that are no reserved names are accepted, and paths are cleaned", async () => {
  const volume = await createVolume();
  await volume.write([
    file(".hidden"),
    file("a..b"),
    file("x/..y"),
    file("./c//d"),
    file("twice", "1"),
    file("twice", "2"),
  ]);
  for (const path of [".hidden", "a..b", "x/..y"]) expect(await volume.files.read(`v/${path}`, 100)).toBe(path);
  expect(await volume.files.read("v/c/d", 100)).toBe("./c//d");
  expect(await volume.files.read("v/twice", 100)).toBe("2");
});

test("what others have put into the volume stays, and a name that is taken is reported", async () => {
  const volume = await createVolume();
  await volume.files.makeFolder("v/mount-point", 0o755);
  await volume.files.link("v/foreign", "elsewhere");
  await volume.files.write("v/taken", "mine", 0o600);
  await volume.write([file("a")]);
  await expect(volume.write([file("taken")], now + 1)).rejects.toMatchObject({ name: "FilesError", code: "EEXIST" });
  expect(await volume.files.read("v/taken", 10)).toBe("mine");
  expect(await volume.files.readLink("v/foreign")).toBe("elsewhere");
  expect(await volume.files.stat("v/mount-point")).toBeDefined();
});

test("a link ..data that leads out of the volume is replaced, and its target is neither read nor removed", async () => {
  const volume = await createVolume();
  await volume.files.makeFolder("precious", 0o755);
  await volume.files.write("precious/a", "one", 0o644);
  await volume.files.link("v/..data", "../precious");
  expect(await volume.write([file("a", "one")])).toBe("written");
  expect(await volume.files.readLink("v/..data")).toStartWith("..2026_01_31_13_04_59.");
  expect(await volume.files.read("precious/a", 10)).toBe("one");
});

const after = [file("a", "new one"), file("dir/d", "new two"), file("e", "new")];
const textsOf = (content: readonly VolumeFile[]) =>
  Object.fromEntries(content.map(({ path, content }) => [path, Buffer.from(content as string).toString()]));

/** The files as a reader finds them: all below ..data, and what the links lead to. */
function readersView({ disk }: Awaited<ReturnType<typeof createVolume>>) {
  const { path: data } = disk.locate("/v/..data", true);
  const inData: Record<string, string> = {};
  for (const [path, node] of disk.nodes)
    if (path.startsWith(`${data}/`) && node.kind === "file") inData[path.slice(data.length + 1)] = node.content;
  return inData;
}

/** Whether every file of both contents that a link leads to has the content below ..data. */
function expectLinksToAgree(volume: Awaited<ReturnType<typeof createVolume>>, inData: Record<string, string>) {
  for (const { path } of [...before, ...after]) {
    const node = volume.disk.nodes.get(volume.disk.locate(`/v/${path}`, true).path);
    if (node?.kind === "file") expect(node.content).toBe(inData[path] as string);
  }
}

async function callsOfUpdate(): Promise<{ readonly count: number; readonly end: object }> {
  const volume = await createVolume();
  await volume.write(before);
  const made = volume.calls.length;
  await volume.write(after, now + 5000);
  return { count: volume.calls.length - made, end: volume.state() };
}

test("whatever call the agent dies after, readers see the old or the new files, and the next write ends the same", async () => {
  const { count, end } = await callsOfUpdate();
  expect(count).toBe(10);
  const seen = new Set<string>();
  for (let last = 1; last <= count; last++) {
    const volume = await createVolume();
    await volume.write(before);
    const made = volume.calls.length;
    const death = Promise.withResolvers<void>();
    volume.disk.after = () => {
      if (volume.calls.length < made + last) return;
      death.resolve();
      return new Promise<void>(() => {});
    };
    await Promise.race([volume.write(after, now + 5000), death.promise]);
    volume.disk.after = () => {};
    const view = readersView(volume);
    expectLinksToAgree(volume, view);
    const isOld = Bun.deepEquals(view, textsOf(before));
    seen.add(isOld ? "old" : "new");
    if (!isOld) expect(view).toEqual(textsOf(after));
    expect(await volume.write(after, now + 5000)).toBe(isOld ? "written" : "unchanged");
    expect(volume.state()).toEqual(end as ReturnType<typeof stateOf>);
  }
  expect([...seen]).toEqual(["old", "new"]);
});

for (const [sentence, isOver] of [
  ["one call", (failed: number) => failed > 0],
  ["that call and all later ones", () => false],
] as const)
  test(`a disk that is full at any call (${sentence}) leaves the old or the new files whole, and the next write succeeds`, async () => {
    const { count, end } = await callsOfUpdate();
    for (let first = 1; first <= count; first++) {
      const volume = await createVolume();
      await volume.write(before);
      const made = volume.calls.length;
      const countCalls = volume.disk.before;
      let failed = 0;
      volume.disk.before = (verb, path) => {
        countCalls(verb, path);
        if (volume.calls.length < made + first || isOver(failed)) return;
        failed += 1;
        throw new FilesError("ENOSPC", path, `${path} cannot be written: the disk is full`);
      };
      await expect(volume.write(after, now + 5000)).rejects.toMatchObject({ code: "ENOSPC" });
      volume.disk.before = countCalls;
      const view = readersView(volume);
      expectLinksToAgree(volume, view);
      if (!Bun.deepEquals(view, textsOf(after))) {
        expect(view).toEqual(textsOf(before));
        if (failed === 1)
          expect(Object.keys(volume.state()).filter((path) => /\/\.\.\d{4}/.test(path))).toHaveLength(5);
      }
      await volume.write(after, now + 5000);
      expect(volume.state()).toEqual(end as ReturnType<typeof stateOf>);
    }
  });

test("on a real file system readers follow the links to the current files", async () => {
  const root = await mkdtemp(join(tmpdir(), "berth-atomic-"));
  try {
    const files = createFiles(root);
    const write = (content: readonly VolumeFile[], at: number) => writeContent(files, "", content, at);
    expect(await write(before, now)).toBe("written");
    expect(await write(before, now + 1)).toBe("unchanged");
    const old = await readlink(join(root, "..data"));
    expect(await write([file("a", "ONE", { mode: 0o440 }), file("dir/b", "two"), file("c", bytes)], now + 2000)).toBe(
      "written",
    );
    const current = await readlink(join(root, "..data"));
    expect(current).toMatch(/^\.\.2026_01_31_13_05_01\.\d+$/);
    expect(current).not.toBe(old);
    expect((await readdir(root)).toSorted()).toEqual(["..data", current, "a", "c", "dir"].toSorted());
    expect(await readlink(join(root, "dir"))).toBe("..data/dir");
    expect(await readFile(join(root, "a"), "utf8")).toBe("ONE");
    expect([...(await readFile(join(root, "c")))]).toEqual([...bytes]);
    expect((await stat(join(root, "a"))).mode & 0o7777).toBe(0o440);
    expect((await lstat(join(root, "..data/dir"))).mode & 0o7777).toBe(0o755);
  } finally {
    await rm(root, { recursive: true });
  }
});
