import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdir, symlink } from "node:fs/promises";
import { basename, join } from "node:path";
import { execa } from "execa";
import type { PodListing } from "../../agent/serve/local/pod-list.ts";
import { builtBinary } from "../bed/agent.ts";
import { podOf, withUid } from "./manifest.ts";
import { isReady, linesContaining, startNode, type TestNode } from "./node.ts";

setDefaultTimeout(600_000);

interface BadManifest {
  readonly title: string;
  /** The line of the problem, if the file has lines. */
  readonly at?: number;
  readonly expectedMessage: string;
  /** The file's content, or a function that creates something else at the path. */
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

const badManifests: readonly BadManifest[] = [
  { title: "is not yaml", at: 4, expectedMessage: "not YAML", content: `${header}metadata: {name: broken\nspec: ]\n` },
  { title: "is a list", expectedMessage: "List", content: listOfOne },
  {
    title: "has another kind",
    expectedMessage: "kind",
    content: "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\n",
  },
  { title: "has no name", expectedMessage: "metadata.name: Required value", content: `${header}metadata: {}\n${spec}` },
  {
    title: "has no containers",
    expectedMessage: "spec.containers: Required value",
    content: `${header}metadata:\n  name: x\n`,
  },
  {
    title: "takes the name of another",
    expectedMessage: "/good.yaml; default/good-berth stays as it was",
    content: JSON.stringify(podOf("good")),
  },
  {
    title: "takes the uid of another",
    expectedMessage: "pod uid 600d is already defined by /",
    content: JSON.stringify(withUid(podOf("thief"), "600d")),
  },
  { title: "references a Secret", expectedMessage: "secret", content: withSecret },
  { title: "has five megabytes", expectedMessage: "larger than", content: fiveMegabytes },
  { title: "is a link to itself", expectedMessage: "loop of symlinks", content: (path) => symlink(path, path) },
  {
    title: "is a link to nowhere",
    expectedMessage: "dangling symlink",
    content: (path) => symlink("/nowhere/at/all", path),
  },
  { title: "is a fifo", expectedMessage: "fifo", content: (path) => execa("mkfifo", [path]) },
  {
    title: "is random bytes",
    expectedMessage: "",
    content: Uint8Array.from({ length: 3000 }, (_, at) => (at * 7919) % 256),
  },
  { title: "is empty", expectedMessage: "empty", content: "" },
];
const fileOf = ({ title }: BadManifest) => `zz-${title.toLowerCase().replaceAll(" ", "-")}.yaml`;
let node: TestNode;

beforeAll(async () => {
  node = await startNode();
  await node.putManifest(withUid(podOf("good"), "600d"));
  await node.waitUntilRunning("good");
  for (const manifest of badManifests) {
    const path = join(node.paths.manifests, fileOf(manifest));
    if (typeof manifest.content === "function") await manifest.content(path);
    else await node.putFile(fileOf(manifest), manifest.content);
  }
  // The agent ignores folders and hidden files without a log line.
  await mkdir(join(node.paths.manifests, "folder.yaml"));
  await node.putFile(".hidden.yaml", "not a manifest");
});

afterAll(async () => {
  await node.tearDown();
});

describe("a manifest that", () => {
  test.each(badManifests.map((manifest) => [manifest.title, manifest] as const))(
    "%s is refused with file and reason",
    async (_, manifest) => {
      const path = join(node.paths.manifests, fileOf(manifest));
      const line = await node.waitForLogLine("manifest refused", path);
      expect(line).toContain(manifest.at === undefined ? path : `${path}:${manifest.at}`);
      expect(line.toLowerCase()).toContain(manifest.expectedMessage.toLowerCase());
    },
  );
});

test("other pods are not affected: an existing one keeps running and a later one starts", async () => {
  await node.putManifest(podOf("later"));
  await node.waitUntilRunning("later", "good");
  expect((await node.pods()).map(({ name }) => name)).toEqual(["good-berth", "later-berth"]);
});

const runBerthPods = async (...more: readonly string[]) =>
  (await execa(builtBinary, ["pods", "--root-dir", node.paths.agentRoot, ...more])).stdout;
const readListing = async () => JSON.parse(await runBerthPods("-o", "json")) as PodListing;

test("berth pods shows each refused manifest below the pods, with file and reason", async () => {
  const { refused = [] } = await readListing();
  expect(refused.map(({ file }) => file)).toEqual(
    badManifests.map((each) => join(node.paths.manifests, fileOf(each))).toSorted(),
  );
  const table = await runBerthPods();
  for (const { file, problem } of refused) expect(table).toContain(`\n${basename(file)}: refused: ${problem}`);
  expect(table).toContain(`${fileOf(badManifests[0]!)}: refused: line 4: not YAML`);
});

test("the refusal of a manifest is logged once, however often the folder is read", async () => {
  for (const manifest of badManifests)
    expect(linesContaining(await node.log(), "manifest refused", fileOf(manifest))).toHaveLength(1);
  expect(linesContaining(await node.log(), "manifest refused")).toHaveLength(badManifests.length);
});

test("each manifest starts its pod once it is repaired", async () => {
  for (const manifest of badManifests) {
    const name = fileOf(manifest).replace(".yaml", "");
    // By rename: a FIFO or a link is replaced, not written through.
    await node.putFile(fileOf(manifest), JSON.stringify(podOf(name)));
  }
  const names = badManifests.map((manifest) => fileOf(manifest).replace(".yaml", ""));
  const pods = await node.waitUntilRunning(...names);
  expect(pods.every(isReady)).toBe(true);
  expect((await readListing()).refused).toEqual([]);
});

test("berth pods --watch reports when a manifest is refused and when the refusal ends", async () => {
  const argv = ["pods", "--root-dir", node.paths.agentRoot, "--watch", "-o", "json"];
  const watch = execa(builtBinary, argv, { reject: false });
  const isRefused = (line: string) =>
    (JSON.parse(line) as PodListing).refused?.some(({ file }) => basename(file) === "late.yaml") ?? false;
  const states: boolean[] = [];
  for await (const line of watch) {
    if (states.at(-1) === isRefused(line)) continue;
    states.push(isRefused(line));
    if (states.length === 1) await node.putFile("late.yaml", "kind: Nothing\n");
    if (states.length === 2) await node.removeFile("late.yaml");
    if (states.length === 3) watch.kill();
  }
  expect(states).toEqual([false, true, false]);
});
