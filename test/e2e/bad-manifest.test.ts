import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdir, symlink } from "node:fs/promises";
import { basename, join } from "node:path";
import { execa } from "execa";
import type { PodListing } from "../../agent/serve/local/pod-list.ts";
import { builtBinary } from "../bed/agent.ts";
import { podOf, withUid } from "./manifest.ts";
import { isReady, linesWith, type Node, startNode } from "./node.ts";

setDefaultTimeout(60_000);

interface BadManifest {
  readonly title: string;
  /** The line of the problem, where a file has lines. */
  readonly at?: number;
  readonly says: string;
  /** A text, or what makes something else of that path. */
  readonly content: string | Uint8Array | ((path: string) => Promise<unknown>);
}

const header = "apiVersion: v1\nkind: Pod\n";
const spec = "spec:\n  containers:\n    - name: main\n      image: berth.test/busybox:1\n";
const fiveMegabytes = `${header}metadata:\n  name: large\n  annotations:\n    much: ${"x".repeat(5_000_000)}\n${spec}`;
const listOfOne = `apiVersion: v1\nkind: List\nitems:\n  - {apiVersion: v1, kind: Pod, metadata: {name: inner}}\n`;
const withSecret = `${header}metadata:\n  name: secretive\n${spec}      env:
        - name: PASSWORD
          valueFrom: {secretKeyRef: {name: database, key: password}}
`;

const bad: readonly BadManifest[] = [
  { title: "is no yaml", at: 4, says: "not YAML", content: `${header}metadata: {name: broken\nspec: ]\n` },
  { title: "is a list", says: "List", content: listOfOne },
  { title: "has another kind", says: "kind", content: "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\n" },
  { title: "has no name", says: "metadata.name: Required value", content: `${header}metadata: {}\n${spec}` },
  { title: "has no containers", says: "spec.containers: Required value", content: `${header}metadata:\n  name: x\n` },
  {
    title: "takes the name of another",
    says: "/good.yaml; default/good-berth stays as it was",
    content: JSON.stringify(podOf("good")),
  },
  {
    title: "takes the uid of another",
    says: "pod uid 600d is already defined by /",
    content: JSON.stringify(withUid(podOf("thief"), "600d")),
  },
  { title: "references a Secret", says: "secret", content: withSecret },
  { title: "has five megabytes", says: "larger than", content: fiveMegabytes },
  { title: "is a link to itself", says: "loop of symlinks", content: (path) => symlink(path, path) },
  { title: "is a link to nowhere", says: "leads nowhere", content: (path) => symlink("/nowhere/at/all", path) },
  { title: "is a fifo", says: "fifo", content: (path) => execa("mkfifo", [path]) },
  { title: "is garbage", says: "", content: Uint8Array.from({ length: 3000 }, (_, at) => (at * 7919) % 256) },
  { title: "is empty", says: "empty", content: "" },
];
const fileOf = ({ title }: BadManifest) => `zz-${title.toLowerCase().replaceAll(" ", "-")}.yaml`;
let node: Node;

beforeAll(async () => {
  node = await startNode();
  await node.put(withUid(podOf("good"), "600d"));
  await node.running("good");
  for (const manifest of bad) {
    const path = join(node.paths.manifests, fileOf(manifest));
    if (typeof manifest.content === "function") await manifest.content(path);
    else await node.putFile(fileOf(manifest), manifest.content);
  }
  // Neither is a manifest, and neither is worth a word.
  await mkdir(join(node.paths.manifests, "folder.yaml"));
  await node.putFile(".hidden.yaml", "not a manifest");
});

afterAll(async () => {
  await node.end();
});

describe("a manifest that", () => {
  test.each(bad.map((manifest) => [manifest.title, manifest] as const))(
    "%s is refused with file and reason",
    async (_, manifest) => {
      const path = join(node.paths.manifests, fileOf(manifest));
      const line = await node.logged("manifest refused", path);
      expect(line).toContain(manifest.at === undefined ? path : `${path}:${manifest.at}`);
      expect(line.toLowerCase()).toContain(manifest.says.toLowerCase());
    },
  );
});

test("all others go on: one that was there, and one that comes later", async () => {
  await node.put(podOf("later"));
  await node.running("later", "good");
  expect((await node.pods()).map(({ name }) => name)).toEqual(["good-berth", "later-berth"]);
});

const shown = async (...more: readonly string[]) =>
  (await execa(builtBinary, ["pods", "--root-dir", node.paths.agentRoot, ...more])).stdout;
const refusedNow = async () => JSON.parse(await shown("-o", "json")) as PodListing;

test("berth pods shows each below the pods, with its file and reason", async () => {
  const { refused = [] } = await refusedNow();
  expect(refused.map(({ file }) => file)).toEqual(
    bad.map((each) => join(node.paths.manifests, fileOf(each))).toSorted(),
  );
  const table = await shown();
  for (const { file, problem } of refused) expect(table).toContain(`\n${basename(file)}: refused: ${problem}`);
  expect(table).toContain(`${fileOf(bad[0]!)}: refused: line 4: not YAML`);
});

test("each is refused once, however often the folder is looked at", async () => {
  for (const manifest of bad) expect(linesWith(await node.log(), "manifest refused", fileOf(manifest))).toHaveLength(1);
  expect(linesWith(await node.log(), "manifest refused")).toHaveLength(bad.length);
});

test("each starts its pod once it is repaired", async () => {
  for (const manifest of bad) {
    const name = fileOf(manifest).replace(".yaml", "");
    // By rename: a FIFO or a link is replaced, not written through.
    await node.putFile(fileOf(manifest), JSON.stringify(podOf(name)));
  }
  const names = bad.map((manifest) => fileOf(manifest).replace(".yaml", ""));
  const pods = await node.running(...names);
  expect(pods.every(isReady)).toBe(true);
  expect((await refusedNow()).refused).toEqual([]);
});

test("whoever watches hears when a manifest is refused, and when it is no more", async () => {
  const argv = ["pods", "--root-dir", node.paths.agentRoot, "--watch", "-o", "json"];
  const watch = execa(builtBinary, argv, { reject: false });
  const isRefused = (line: string) =>
    (JSON.parse(line) as PodListing).refused?.some(({ file }) => basename(file) === "late.yaml") ?? false;
  const told: boolean[] = [];
  for await (const line of watch) {
    if (told.at(-1) === isRefused(line)) continue;
    told.push(isRefused(line));
    if (told.length === 1) await node.putFile("late.yaml", "kind: Nothing\n");
    if (told.length === 2) await node.removeFile("late.yaml");
    if (told.length === 3) watch.kill();
  }
  expect(told).toEqual([false, true, false]);
});
