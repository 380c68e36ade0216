import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { readFile } from "node:fs/promises";
import type { PullPolicy } from "../../proto/kubernetes/gen/types.ts";
import { type Registry, startRegistry } from "../bed/containerd/registry.ts";
import { buildTestImages, busyboxImage } from "../bed/images/images.ts";
import { freePort } from "./free-port.ts";
import { podOf, script } from "./manifest.ts";
import { isReady, linesContaining, startNode, type TestNode } from "./node.ts";

setDefaultTimeout(600_000);

let node: TestNode;
let registry: Registry;

beforeAll(async () => {
  node = await startNode();
  registry = await startRegistry(node.containerd);
});

afterAll(async () => {
  await registry.stop();
  await node.tearDown();
});

/** Uploads the busybox image under another name, and returns the name to pull it by. */
async function pushAs(name: string): Promise<string> {
  const image = (await buildTestImages()).find((one) => one.name === busyboxImage)!;
  return await registry.push({ ...image, name: `berth.test/${name}:1` });
}

/** The number of the runtime's manifest requests for an image. */
async function requestsFor(name: string): Promise<number> {
  return linesContaining(await readFile(registry.logFile, "utf8"), `"HEAD /v2/berth.test/${name}/manifests/1 `).length;
}

const runsOnce = (image: string, imagePullPolicy?: PullPolicy) => ({
  image,
  command: script("exit 1"),
  ...(imagePullPolicy === undefined ? {} : { imagePullPolicy }),
});

test("a missing image is pulled once for all containers and restarts", async () => {
  const image = await pushAs("if-not-present");
  await node.putManifest(podOf("first", runsOnce(image)));
  const pod = await node.waitForPod("first", "it was restarted", ({ restarts }) => restarts === 1);
  expect(pod.steps.filter(({ what }) => what === "pull")).toHaveLength(1);
  await node.putManifest(podOf("second", { image }));
  const [second] = await node.waitUntilRunning("second");
  expect(second!.steps.some(({ what }) => what === "pull")).toBe(false);
  expect(await requestsFor("if-not-present")).toBe(1);
});

test("imagePullPolicy Always contacts the registry before each start of a container", async () => {
  const image = await pushAs("always");
  await node.putManifest(podOf("always", runsOnce(image, "Always")));
  await node.waitForPod("always", "it was restarted", ({ restarts }) => restarts === 1);
  expect(await requestsFor("always")).toBe(2);
});

test("a pod starts when its unreachable registry returns", async () => {
  await pushAs("patient");
  // A proxy to the registry that is not started yet.
  const port = await freePort();
  await node.putManifest(podOf("patient", { image: `127.0.0.1:${port}/berth.test/patient:1` }));
  const waiting = await node.waitForPod(
    "patient",
    "its image cannot be pulled",
    ({ reason }) => reason === "ErrImagePull" || reason === "ImagePullBackOff",
  );
  expect(waiting.message).toContain("connection refused");

  const open = Bun.serve({
    port,
    hostname: "127.0.0.1",
    fetch: ({ url, method, headers }) =>
      fetch(url.replace(`:${port}/`, `:${registry.host.split(":")[1]}/`), { method, headers }),
  });
  try {
    await node.waitForPod("patient", "it runs", isReady);
  } finally {
    await open.stop(true);
  }
});
