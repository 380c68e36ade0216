import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClock } from "../../../host/clock.ts";
import { createExec } from "../../../host/exec.ts";
import { createFiles } from "../../../host/fs/files.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { until } from "../../../test/bed/poll-until.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import type { OfferedPod } from "../../decide/sources/merge-static.ts";
import { followStaticPath } from "./static-files.ts";

/* How often things are told is in static-files.test.ts; this is what only a real disk and its events can show. */

let folder: string;
let log: FakeLog;
let offered: readonly OfferedPod[] | undefined;
let ending: AbortController;
let followed: Promise<void>;
let namesakes: readonly string[] = [];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-manifests-"));
  log = new FakeLog();
  offered = undefined;
  namesakes = [];
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

/** Follows; an audit is a minute away, so that what comes sooner came by an event. */
function follow(path = folder, { known = [] as readonly DesiredPod[], checkEveryMs = 60_000 } = {}): void {
  const desired = {
    all: () => known,
    offer: async (_: string, pods: readonly OfferedPod[]) => {
      offered = pods;
    },
    refuse: (_: string, __: readonly unknown[], doubled: readonly Pod[] = []) => {
      namesakes = doubled.map(
        ({ metadata }) => `${metadata.name} ${metadata.annotations?.["kubernetes.io/config.source"]}`,
      );
    },
  };
  const settings = { path, nodeName: "node", checkEveryMs, filesAt: createFiles, clock: createClock(), log, desired };
  followed = followStaticPath(settings, ending.signal);
}

/** Puts a manifest into the folder as careful programs do. */
async function put(name: string, text: string): Promise<void> {
  await writeFile(join(folder, `.${name}`), text);
  await rename(join(folder, `.${name}`), join(folder, name));
}

const shown = () => offered?.map(({ pod }) => `${pod.metadata.name} ${pod.spec.containers[0]?.image}`).join(", ");
const show = (expected: string) => until(`"${expected}", after ${shown()}`, 4000, () => shown() === expected);
const refusals = () =>
  log.lines.filter(({ level }) => level === "error").map(({ message }) => message.replaceAll(folder, ""));

test("manifests that come, change, move and go are seen by events, in the order of their names", async () => {
  await put("b.yaml", manifest("b"));
  follow();
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

test("files that hide, folders, and what is in them are no manifests", async () => {
  await writeFile(join(folder, ".hidden.yaml"), manifest("hidden"));
  await mkdir(join(folder, "folder.yaml"));
  await writeFile(join(folder, "folder.yaml/a.yaml"), manifest("inside"));
  await put("web.yaml", manifest("web"));
  follow();
  await show("web-node busybox:1");
  expect(refusals()).toEqual([]);
});

test("what is no manifest is refused with its file and why, and holds up no other", async () => {
  await createExec().run(["mkfifo", join(folder, "fifo.yaml")], { timeoutMs: 10_000 });
  await symlink("loop.yaml", join(folder, "loop.yaml"));
  await symlink("nowhere", join(folder, "dangling.yaml"));
  await put("big.yaml", "#".repeat(5 << 20));
  await put("bytes.yaml", "\u0000");
  await put("broken.yaml", "kind: Pod\n  metadata: {");
  await put("empty.yaml", "# nothing but a comment\n");
  await put("list.yaml", "apiVersion: v1\nkind: List\nitems: []\n");
  await put("web.yaml", manifest("web"));
  follow();
  await show("web-node busybox:1");
  await until("all to be refused", 4000, () => refusals().length === 8);
  const found = refusals().toSorted();
  const expected = [
    /^manifest refused: \/big\.yaml is larger than \d+ bytes$/,
    /^manifest refused: \/broken\.yaml:\d+: /,
    /^manifest refused: \/bytes\.yaml:\d+: /,
    /^manifest refused: \/dangling\.yaml is a link that leads nowhere$/,
    /^manifest refused: \/empty\.yaml: it is empty; a manifest holds one Pod$/,
    /^manifest refused: \/fifo\.yaml is a fifo, not a regular file$/,
    /^manifest refused: \/list\.yaml: it is a List; /,
    /^manifest refused: \/loop\.yaml is a loop of symlinks$/,
  ];
  for (const [index, pattern] of expected.entries()) expect(found[index]).toMatch(pattern);
});

test("a manifest that breaks is refused, its last good version stays, and once repaired it counts again", async () => {
  await put("web.yaml", manifest("web"));
  await put("db.yaml", manifest("db"));
  follow();
  await show("db-node busybox:1, web-node busybox:1");
  await put("web.yaml", "kind: Pod\nspec: [");
  await until("a refusal", 4000, () => refusals().length === 1);
  expect(refusals()[0]).toMatch(/^manifest refused: \/web\.yaml:\d+: .*; default\/web-node stays as it was$/);
  await put("db.yaml", manifest("db", "busybox:2"));
  await show("db-node busybox:2, web-node busybox:1");
  await put("web.yaml", manifest("web", "busybox:3"));
  await show("db-node busybox:2, web-node busybox:3");
  expect(refusals()).toHaveLength(1);
});

test("the last good version of a broken manifest stays across agents, and that of one that is gone does not", async () => {
  await put("web.yaml", manifest("web"));
  await put("gone.yaml", manifest("gone"));
  follow();
  await show("gone-node busybox:1, web-node busybox:1");
  const known = offered!.map(
    (offer): DesiredPod => ({ ...offer, uid: offer.pod.metadata.uid as PodUid, acceptedAt: 0, revision: 0 }),
  );
  ending.abort();
  await followed;
  await put("web.yaml", "kind: Pod\nspec: [");
  await rm(join(folder, "gone.yaml"));
  ending = new AbortController();
  follow(folder, { known });
  await show("web-node busybox:1");
  await until("a refusal", 4000, () => refusals().length === 1);
  expect(refusals()[0]).toEndWith("; default/web-node stays as it was");
});

test("of two files for one pod the first in the order of names has it, and the second gets it when the first is gone", async () => {
  await put("a.yaml", manifest("web", "busybox:1"));
  await put("b.yaml", manifest("web", "busybox:2"));
  follow();
  await show("web-node busybox:1");
  // What is refused is told right after what is offered.
  await until("a refusal", 4000, () => refusals().length > 0);
  expect(refusals()).toEqual([
    "manifest refused: pod default/web-node is already defined by /a.yaml; default/web-node stays as it was",
  ]);
  await until("the second to be told of", 4000, () => namesakes.join() === "web-node file");
  await rm(join(folder, "a.yaml"));
  await show("web-node busybox:2");
  await until("nothing to be told of", 4000, () => namesakes.length === 0);
});

test("a manifest may be a link, as volumes of ConfigMaps make them", async () => {
  await mkdir(join(folder, ".data"));
  await writeFile(join(folder, ".data/web.yaml"), manifest("web"));
  await symlink(".data/web.yaml", join(folder, "web.yaml"));
  follow();
  await show("web-node busybox:1");
});

test("a folder that is not there is empty; it may come, go, and come again", async () => {
  const path = join(folder, "manifests");
  follow(path);
  await show("");
  for (const image of ["busybox:1", "busybox:2"]) {
    await mkdir(path);
    await writeFile(join(path, "web.yaml"), manifest("web", image));
    await show(`web-node ${image}`);
    await rm(path, { recursive: true });
    await show("");
  }
});

test("what is at the path may be a file or a folder, from one moment to the next", async () => {
  const path = join(folder, "pods");
  follow(path);
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

test("the folders above the path may come later too, and go", async () => {
  const above = join(folder, "etc/kubernetes");
  follow(join(above, "manifests"));
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

test("the path may be a link to a folder, which may lead elsewhere one day", async () => {
  for (const name of ["one", "two"]) {
    await mkdir(join(folder, name));
    await writeFile(join(folder, name, "web.yaml"), manifest(name));
  }
  const path = join(folder, "manifests");
  await symlink("one", path);
  follow(path);
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

test("one manifest may be a link into a volume, which is changed behind it", async () => {
  for (const image of ["busybox:1", "busybox:2"]) {
    await mkdir(join(folder, image));
    await writeFile(join(folder, image, "web.yaml"), manifest("web", image));
  }
  await symlink("busybox:1", join(folder, "..data"));
  await symlink("..data/web.yaml", join(folder, "web.yaml"));
  follow(join(folder, "web.yaml"));
  await show("web-node busybox:1");
  await symlink("busybox:2", join(folder, "..next"));
  await rename(join(folder, "..next"), join(folder, "..data"));
  await show("web-node busybox:2");
});

test("the path may be one manifest: its neighbours do not count", async () => {
  await put("web.yaml", manifest("web"));
  await put("other.yaml", manifest("other"));
  follow(join(folder, "web.yaml"));
  await show("web-node busybox:1");
  await put("web.yaml", manifest("web", "busybox:2"));
  await show("web-node busybox:2");
  await rm(join(folder, "web.yaml"));
  await show("");
});
