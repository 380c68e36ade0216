import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, mkdtemp, open, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClock } from "../../../host/clock.ts";
import { createExec } from "../../../host/exec.ts";
import { createFiles } from "../../../host/fs/files.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { pollUntil } from "../../../test/bed/poll-until.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import type { ManifestPod } from "../../decide/sources/merge-static.ts";
import { watchStaticPath } from "./static-files.ts";

/* What only a real disk and its events can show; static-files.test.ts tests the rest. */

let folder: string;
let log: FakeLog;
let offered: readonly ManifestPod[] | undefined;
let ending: AbortController;
let followed: Promise<void>;
let duplicates: readonly string[] = [];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-manifests-"));
  log = new FakeLog();
  offered = undefined;
  duplicates = [];
  ending = new AbortController();
  followed = Promise.resolve();
});
afterEach(async () => {
  ending.abort();
  await followed;
  await rm(folder, { recursive: true, force: true });
});

const manifest = (name: string, image = "busybox:1") =>
  `apiVersion: v1\nkind: Pod\nmetadata: {name: ${name}}\nspec: {containers: [{name: a, image: "${image}"}]}\n`;

/** Starts the watch. The periodic check is a minute away, so anything sooner comes from an event. */
function startWatch(path = folder, { known = [] as readonly DesiredPod[], checkEveryMs = 60_000 } = {}): void {
  const desired = {
    all: () => known,
    replaceManifests: async (_: string, pods: readonly ManifestPod[]) => {
      offered = pods;
    },
    setManifestErrors: (_: string, __: readonly unknown[], doubled: readonly Pod[] = []) => {
      duplicates = doubled.map(
        ({ metadata }) => `${metadata.name} ${metadata.annotations?.["kubernetes.io/config.source"]}`,
      );
    },
  };
  const settings = { path, nodeName: "node", checkEveryMs, filesAt: createFiles, clock: createClock(), log, desired };
  followed = watchStaticPath(settings, ending.signal);
}

/** Renames a complete manifest into the directory. */
async function put(name: string, text: string): Promise<void> {
  await writeFile(join(folder, `.${name}`), text);
  await rename(join(folder, `.${name}`), join(folder, name));
}

const shown = () => offered?.map(({ pod }) => `${pod.metadata.name} ${pod.spec.containers[0]?.image}`).join(", ");
const show = (expected: string) => pollUntil(`"${expected}", after ${shown()}`, 4000, () => shown() === expected);
const refusals = () =>
  log.lines.filter(({ level }) => level === "error").map(({ message }) => message.replaceAll(folder, ""));

test("events report manifests that are added, changed, renamed and removed, in order of their names", async () => {
  await put("b.yaml", manifest("b"));
  startWatch();
  await show("b-node busybox:1");
  await put("a.yaml", manifest("a"));
  await show("a-node busybox:1, b-node busybox:1");
  await writeFile(join(folder, "a.yaml"), manifest("a", "busybox:2"));
  await show("a-node busybox:2, b-node busybox:1");
  await rename(join(folder, "a.yaml"), join(folder, "c.yaml"));
  await show("b-node busybox:1, a-node busybox:2");
  await rm(join(folder, "b.yaml"));
  await show("a-node busybox:2");
  expect(refusals()).toEqual([]);
  expect(offered?.[0]?.source).toEqual({ kind: "file", path: join(folder, "c.yaml") });
});

test("hidden files and subdirectories are ignored", async () => {
  await writeFile(join(folder, ".hidden.yaml"), manifest("hidden"));
  await mkdir(join(folder, "folder.yaml"));
  await writeFile(join(folder, "folder.yaml/a.yaml"), manifest("inside"));
  await put("web.yaml", manifest("web"));
  startWatch();
  await show("web-node busybox:1");
  expect(refusals()).toEqual([]);
});

test("a manifest that a shell creates before its text comes is not reported as empty", async () => {
  startWatch();
  await show("");
  const file = await open(join(folder, "web.yaml"), "w");
  // When this later one is read, the 30 ms of the first have passed, too.
  await writeFile(join(folder, "later.yaml"), manifest("later"));
  await show("later-node busybox:1");
  await file.write(manifest("web"));
  await file.close();
  await show("later-node busybox:1, web-node busybox:1");
  expect(refusals()).toEqual([]);
});

test("an invalid manifest is refused with file and reason, and does not block others", async () => {
  await createExec().run(["mkfifo", join(folder, "fifo.yaml")], { timeoutMs: 10_000 });
  await symlink("loop.yaml", join(folder, "loop.yaml"));
  await symlink("nowhere", join(folder, "dangling.yaml"));
  await put("big.yaml", "#".repeat(5 << 20));
  await put("bytes.yaml", "\u0000");
  await put("broken.yaml", "kind: Pod\n  metadata: {");
  await put("empty.yaml", "# nothing but a comment\n");
  await put("list.yaml", "apiVersion: v1\nkind: List\nitems: []\n");
  await put("web.yaml", manifest("web"));
  startWatch();
  await show("web-node busybox:1");
  await pollUntil("all to be refused", 4000, () => refusals().length === 8);
  const found = refusals().toSorted();
  const expected = [
    /^manifest refused: \/big\.yaml is larger than \d+ bytes$/,
    /^manifest refused: \/broken\.yaml:\d+: /,
    /^manifest refused: \/bytes\.yaml:\d+: /,
    /^manifest refused: \/dangling\.yaml is a dangling symlink$/,
    /^manifest refused: \/empty\.yaml: it is empty; a manifest holds one Pod$/,
    /^manifest refused: \/fifo\.yaml is a fifo, not a regular file$/,
    /^manifest refused: \/list\.yaml: it is a List; /,
    /^manifest refused: \/loop\.yaml is a loop of symlinks$/,
  ];
  for (const [index, pattern] of expected.entries()) expect(found[index]).toMatch(pattern);
});

test("a broken manifest is refused and its last good version stays until it is repaired", async () => {
  await put("web.yaml", manifest("web"));
  await put("db.yaml", manifest("db"));
  startWatch();
  await show("db-node busybox:1, web-node busybox:1");
  await put("web.yaml", "kind: Pod\nspec: [");
  await pollUntil("a refusal", 4000, () => refusals().length === 1);
  expect(refusals()[0]).toMatch(/^manifest refused: \/web\.yaml:\d+: .*; default\/web-node stays as it was$/);
  await put("db.yaml", manifest("db", "busybox:2"));
  await show("db-node busybox:2, web-node busybox:1");
  await put("web.yaml", manifest("web", "busybox:3"));
  await show("db-node busybox:2, web-node busybox:3");
  expect(refusals()).toHaveLength(1);
});

test("the last good version of a broken manifest survives a restart of the agent, and that of a removed one does not", async () => {
  await put("web.yaml", manifest("web"));
  await put("gone.yaml", manifest("gone"));
  startWatch();
  await show("gone-node busybox:1, web-node busybox:1");
  const known = offered!.map(
    (offer): DesiredPod => ({ ...offer, uid: offer.pod.metadata.uid as PodUid, acceptedAt: 0, revision: 0 }),
  );
  ending.abort();
  await followed;
  await put("web.yaml", "kind: Pod\nspec: [");
  await rm(join(folder, "gone.yaml"));
  ending = new AbortController();
  startWatch(folder, { known });
  await show("web-node busybox:1");
  await pollUntil("a refusal", 4000, () => refusals().length === 1);
  expect(refusals()[0]).toEndWith("; default/web-node stays as it was");
});

test("of two files with the same pod the first by name owns it, and the second gets it when the first is removed", async () => {
  await put("a.yaml", manifest("web", "busybox:1"));
  await put("b.yaml", manifest("web", "busybox:2"));
  startWatch();
  await show("web-node busybox:1");
  // Errors are reported right after the pods are applied.
  await pollUntil("a refusal", 4000, () => refusals().length > 0);
  expect(refusals()).toEqual([
    "manifest refused: pod default/web-node is already defined by /a.yaml; default/web-node stays as it was",
  ]);
  await pollUntil("the second to be reported", 4000, () => duplicates.join() === "web-node file");
  await rm(join(folder, "a.yaml"));
  await show("web-node busybox:2");
  await pollUntil("nothing to be reported", 4000, () => duplicates.length === 0);
});

test("a manifest may be a symlink, as in ConfigMap volumes", async () => {
  await mkdir(join(folder, ".data"));
  await writeFile(join(folder, ".data/web.yaml"), manifest("web"));
  await symlink(".data/web.yaml", join(folder, "web.yaml"));
  startWatch();
  await show("web-node busybox:1");
});

test("a missing directory has no pods; it may be created, removed and created again", async () => {
  const path = join(folder, "manifests");
  startWatch(path);
  await show("");
  for (const image of ["busybox:1", "busybox:2"]) {
    await mkdir(path);
    await writeFile(join(path, "web.yaml"), manifest("web", image));
    await show(`web-node ${image}`);
    await rm(path, { recursive: true });
    await show("");
  }
});

test("the path may change between a file and a directory", async () => {
  const path = join(folder, "pods");
  startWatch(path);
  await show("");
  await put("pods", manifest("web"));
  await show("web-node busybox:1");
  await writeFile(path, manifest("web", "busybox:2"));
  await show("web-node busybox:2");
  await rm(path);
  await mkdir(path);
  await writeFile(join(path, "a.yaml"), manifest("a"));
  await show("a-node busybox:1");
  await rename(path, join(folder, "away"));
  await put("pods", manifest("web", "busybox:3"));
  await show("web-node busybox:3");
  expect(refusals()).toEqual([]);
});

test("the parent directories may be created and removed, too", async () => {
  const above = join(folder, "etc/kubernetes");
  startWatch(join(above, "manifests"));
  await show("");
  for (const image of ["busybox:1", "busybox:2"]) {
    await mkdir(join(folder, "etc"));
    await mkdir(above);
    await mkdir(join(above, "manifests"));
    await writeFile(join(above, "manifests/web.yaml"), manifest("web", image));
    await show(`web-node ${image}`);
    await rm(join(folder, "etc"), { recursive: true });
    await show("");
  }
});

test("the path may be a symlink to a directory, and its target may change", async () => {
  for (const name of ["one", "two"]) {
    await mkdir(join(folder, name));
    await writeFile(join(folder, name, "web.yaml"), manifest(name));
  }
  const path = join(folder, "manifests");
  await symlink("one", path);
  startWatch(path);
  await show("one-node busybox:1");
  await writeFile(join(folder, "one/web.yaml"), manifest("one", "busybox:2"));
  await show("one-node busybox:2");
  await symlink("two", join(folder, "link"));
  await rename(join(folder, "link"), path);
  await show("two-node busybox:1");
  await writeFile(join(folder, "two/web.yaml"), manifest("two", "busybox:2"));
  await show("two-node busybox:2");
  await rm(join(folder, "two"), { recursive: true });
  await show("");
  await rm(path);
  await symlink("one", path);
  await show("one-node busybox:2");
  expect(refusals()).toEqual([]);
});

test("a single manifest may be a symlink into a volume whose content changes", async () => {
  for (const image of ["busybox:1", "busybox:2"]) {
    await mkdir(join(folder, image));
    await writeFile(join(folder, image, "web.yaml"), manifest("web", image));
  }
  await symlink("busybox:1", join(folder, "..data"));
  await symlink("..data/web.yaml", join(folder, "web.yaml"));
  startWatch(join(folder, "web.yaml"));
  await show("web-node busybox:1");
  await symlink("busybox:2", join(folder, "..next"));
  await rename(join(folder, "..next"), join(folder, "..data"));
  await show("web-node busybox:2");
});

test("the path may be a single manifest, and files beside it are ignored", async () => {
  await put("web.yaml", manifest("web"));
  await put("other.yaml", manifest("other"));
  startWatch(join(folder, "web.yaml"));
  await show("web-node busybox:1");
  await put("web.yaml", manifest("web", "busybox:2"));
  await show("web-node busybox:2");
  await rm(join(folder, "web.yaml"));
  await show("");
});
