import { afterEach, beforeEach, expect, test } from "bun:test";
import { lstat, mkdir, mkdtemp, readdir, readFile, readlink, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { CacheEntry } from "../../cni/cache-entry.ts";
import { formatDelegateList } from "../../cni/delegate/delegate-conf.ts";
import { createFiles } from "../../host/fs/files.ts";
import { installDelegate, STATIC_FORM_WORDS, uninstallDelegate } from "./installation.ts";

let folder: string;
/** The containers whose cache entries were removed. */
let removed: string[];
beforeEach(async () => {
  removed = [];
  folder = await mkdtemp(join(tmpdir(), "berth-install-"));
  for (const name of ["bin", "net.d"]) await mkdir(join(folder, name));
});
afterEach(() => rm(folder, { recursive: true }));

const paths = () => ({
  confDir: join(folder, "runtime.d"),
  chainDir: join(folder, "net.d"),
  binDirs: [join(folder, "bin"), "/usr/lib/cni"],
  cacheDir: "/var/lib/cni",
  socket: "/var/lib/kubelet/cni.sock",
});

const deps = (
  entries: readonly CacheEntry[] = [],
  program: string | undefined = "/usr/bin/berth",
  staticDelegate?: Uint8Array,
) => ({
  files: createFiles("/"),
  recordedAttachments: () => [],
  cache: {
    list: async () => ({ entries, unreadable: [] }),
    remove: async ({ containerId }: CacheEntry) => void removed.push(containerId),
  },
  program,
  staticDelegate,
});

const entryOf = (type: string, containerId: string, pod?: string): CacheEntry => ({
  ...{ network: "pods", containerId, ifName: "eth0", netns: "", capabilityArgs: {}, result: {} },
  args: new Map(
    pod === undefined
      ? []
      : [
          ["K8S_POD_NAMESPACE", "shop"],
          ["K8S_POD_NAME", pod],
        ],
  ),
  config: JSON.stringify({ cniVersion: "1.0.0", name: "pods", plugins: [{ type }] }),
});

const staticForm = (release: string) => `\0 ${release} \xff ${STATIC_FORM_WORDS} \0`;

const loop = JSON.stringify({ cniVersion: "1.0.0", name: "loop", plugins: [{ type: "berth-cni" }] });

test("install writes the list and the link, again over what is there, and uninstall removes both", async () => {
  for (const program of ["/usr/bin/berth", "/opt/berth"]) {
    await installDelegate(paths(), deps([], program));
    expect(await readlink(join(folder, "bin/berth-cni"))).toBe(program);
  }
  const list = join(folder, "runtime.d/10-berth.conflist");
  expect((await stat(list)).mode & 0o777).toBe(0o644);
  expect(JSON.parse(await readFile(list, "utf8"))).toMatchObject({
    name: "berth-delegate",
    plugins: [{ socket: "/var/lib/kubelet/cni.sock", confDir: join(folder, "net.d"), timeoutMs: 120_000 }],
  });
  for (const wasInstalled of [true, false]) {
    expect(await uninstallDelegate(paths(), deps([entryOf("bridge", "3f2a", "web")]))).toMatchObject({ wasInstalled });
    expect([await readdir(join(folder, "runtime.d")), await readdir(join(folder, "bin"))]).toEqual([[], []]);
  }
});

test("install writes the static form with a link to the program beside it, and uninstall removes both", async () => {
  const [plugin, link] = [join(folder, "bin/berth-cni"), join(folder, "bin/berth-cni.program")];
  // It replaces the link of an earlier build and itself, and a link replaces it.
  await installDelegate(paths(), deps());
  for (const content of [staticForm("first"), staticForm("second")]) {
    await installDelegate(paths(), deps([], "/opt/berth", Buffer.from(content)));
    expect([await readFile(plugin, "utf8"), await readlink(link)]).toEqual([content, "/opt/berth"]);
    expect((await lstat(plugin)).mode).toBe(0o100755);
  }
  await installDelegate(paths(), deps());
  expect([await readlink(plugin), await readdir(join(folder, "bin"))]).toEqual(["/usr/bin/berth", ["berth-cni"]]);
  await installDelegate(paths(), deps([], "/opt/berth", Buffer.from(staticForm("third"))));
  expect(await uninstallDelegate(paths(), deps())).toMatchObject({ wasInstalled: true });
  expect(await readdir(join(folder, "bin"))).toEqual([]);
});

test("install over a program of another maker is refused, in both forms, also if the link of an earlier install is left", async () => {
  const binary = join(folder, "bin/berth-cni");
  for (const left of [[], ["berth-cni.program"]]) {
    for (const name of left) await symlink("/usr/bin/berth", join(folder, "bin", name));
    await writeFile(binary, "another program");
    for (const form of [undefined, Buffer.from("static")])
      await expect(installDelegate(paths(), deps([], "/usr/bin/berth", form))).rejects.toMatchObject({
        code: 4,
        message: `--bin-dir: ${binary} is a file that berth cni install has not made; remove it`,
      });
    expect(await readdir(join(folder, "bin"))).toEqual(["berth-cni", ...left]);
  }
});

test("the words by which the static form is known are in it", async () => {
  const source = join(import.meta.dirname, "../../cni/delegate/berth-cni.c");
  expect(await readFile(source, "utf8")).toContain(STATIC_FORM_WORDS);
});

test("install makes the folders that are missing, and says whether there is a network to execute", async () => {
  await rm(join(folder, "bin"), { recursive: true });
  await rm(join(folder, "net.d"), { recursive: true });
  expect(await installDelegate(paths(), deps())).toMatchObject({ hasChain: false });
  expect(await readdir(join(folder, "bin"))).toEqual(["berth-cni"]);
  await mkdir(join(folder, "net.d"));
  await writeFile(join(folder, "net.d/10-pods.conflist"), "{}");
  expect(await installDelegate(paths(), deps())).toMatchObject({ hasChain: true });
});

test("uninstall removes what the runtime has cached of this delegate, and nothing else", async () => {
  await installDelegate(paths(), deps());
  const cachedOf = (containerId: string, socket: string): CacheEntry => ({
    ...entryOf("bridge", containerId),
    network: "berth-delegate",
    config: formatDelegateList({ ...paths(), confDir: "/c", timeoutMs: 1, socket }),
  });
  const entries = [entryOf("bridge", "3f2a"), cachedOf("77aa", paths().socket), cachedOf("9c01", "/other/cni.sock")];
  await uninstallDelegate(paths(), deps(entries));
  expect(removed).toEqual(["77aa"]);
});

test("uninstall is refused, with names, while the built-in network has attachments", async () => {
  await installDelegate(paths(), deps());
  const entries = [entryOf("berth", "3f2a", "web"), entryOf("bridge", "77aa", "db"), entryOf("berth", "9c01")];
  await expect(uninstallDelegate(paths(), deps(entries))).rejects.toMatchObject({
    code: 4,
    message: "the built-in network has attachments, which only Berth can remove: shop/web, 9c01",
  });
  expect(await readdir(join(folder, "bin"))).toEqual(["berth-cni"]);
});

test("uninstall is refused while the built-in network has an attachment whose file in the cache is torn", async () => {
  await installDelegate(paths(), deps());
  const recordOf = (containerId: string) => ({ network: "pods", containerId, ifName: "eth0", writtenAt: 0 });
  const torn = [
    { fileName: "pods-3f2a-eth0", asideName: "pods-3f2a-eth0.unreadable", reason: "it is not a JSON object" },
  ];
  const recorded = {
    ...deps(),
    // An ADD that was killed has left the second one, which no pod has.
    recordedAttachments: () => [recordOf("3f2a"), recordOf("77aa")],
    cache: { ...deps().cache, list: async () => ({ entries: [], unreadable: torn }) },
  };
  await expect(uninstallDelegate(paths(), recorded)).rejects.toMatchObject({
    message: "the built-in network has attachments, which only Berth can remove: 3f2a",
  });
});

test("uninstall takes the folders of the installed list", async () => {
  await installDelegate(paths(), deps());
  const message = `--bin-dir: found /other, must be ${folder}/bin:/usr/lib/cni as in ${folder}/runtime.d/10-berth.conflist`;
  await expect(uninstallDelegate({ ...paths(), binDirs: ["/other"] }, deps())).rejects.toMatchObject({ message });
  await expect(uninstallDelegate({ ...paths(), cacheDir: "/other" }, deps())).rejects.toMatchObject({
    message: `--cache-dir: found /other, must be /var/lib/cni as in ${folder}/runtime.d/10-berth.conflist`,
  });
});

test("uninstall leaves a program of another maker, and removes what is left of its own", async () => {
  await writeFile(join(folder, "bin/berth-cni"), "another program");
  await symlink("/usr/bin/berth", join(folder, "bin/berth-cni.program"));
  expect(await uninstallDelegate(paths(), deps())).toMatchObject({ wasInstalled: false });
  expect(await readdir(join(folder, "bin"))).toEqual(["berth-cni"]);
});

test("uninstall removes the static form whose link is gone", async () => {
  await installDelegate(paths(), deps([], "/opt/berth", Buffer.from(staticForm("first"))));
  await rm(join(folder, "bin/berth-cni.program"));
  expect(await uninstallDelegate(paths(), deps())).toMatchObject({ wasInstalled: true });
  expect(await readdir(join(folder, "bin"))).toEqual([]);
});

const rows: readonly (readonly [string, () => Promise<unknown>, string])[] = [
  [
    "from source",
    () => installDelegate(paths(), { ...deps(), program: undefined }),
    "only the compiled program can be a plugin",
  ],
  [
    "into the folder of the chain",
    () => installDelegate({ ...paths(), confDir: paths().chainDir }, deps()),
    "must be another folder than --chain-dir",
  ],
  [
    "with a socket that is too long",
    () => installDelegate({ ...paths(), socket: `/${"x".repeat(120)}` }, deps()),
    "is longer than the 107 bytes of a socket's path",
  ],
  [
    "over a chain that contains the delegate",
    async () => {
      await writeFile(join(folder, "net.d/10-loop.conflist"), loop);
      await installDelegate(paths(), deps());
    },
    "net.d/10-loop.conflist contains berth-cni, which would call itself without end",
  ],
  [
    "beside another network",
    async () => {
      await mkdir(join(folder, "runtime.d"));
      await writeFile(join(folder, "runtime.d/05-pods.conflist"), "{");
      await installDelegate(paths(), deps());
    },
    "runtime.d/05-pods.conflist; must be a folder for the delegate's list alone",
  ],
];
for (const [name, install, message] of rows)
  test(`install ${name} is refused, and nothing is written`, async () => {
    await expect(install()).rejects.toMatchObject({ code: 4, message: expect.stringContaining(message) });
    expect(await readdir(join(folder, "bin"))).toEqual([]);
  });
