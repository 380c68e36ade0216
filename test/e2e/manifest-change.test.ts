import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { rename } from "node:fs/promises";
import { join } from "node:path";
import { webImage } from "../bed/images/images.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { type LifetimeRecording, recordLifetimes } from "./container-lifetimes.ts";
import { podOf, untilStopped, upIgnoringSigterm, withUid } from "./manifest.ts";
import { containerId, isReady, linesContaining, startNode, type TestNode } from "./node.ts";

setDefaultTimeout(600_000);

let node: TestNode;
let lifetimes: LifetimeRecording;

beforeAll(async () => {
  node = await startNode();
  lifetimes = await recordLifetimes(node.containerd);
});

afterAll(async () => {
  lifetimes.stop();
  await node.tearDown();
});

test("an edited manifest replaces its pod: the new one starts when the old one has ended within its grace period", async () => {
  const pod = podOf("edited", { command: upIgnoringSigterm }, { terminationGracePeriodSeconds: 2 });
  await node.putManifest(pod);
  const [old] = await node.waitUntilUp("edited");

  const editedAt = performance.now();
  await node.putManifest({ ...pod, metadata: { ...pod.metadata, labels: { edition: "second" } } });
  await node.waitForPod("edited", "the new one runs", (now) => now.uid !== old!.uid && isReady(now));
  expect(performance.now() - editedAt).toBeGreaterThan(2000);
  const recorded = (await lifetimes.all()).filter(({ owner }) => owner.endsWith(" main"));
  expect(recorded.map(({ owner }) => owner.split(" ")[0])).toEqual([old!.uid, (await node.pods())[0]!.uid]);
  expect(recorded[1]!.createdAt).toBeGreaterThan(recorded[0]!.endedAt!);
  await node.removeFile("edited.yaml");
});

test("moving a manifest away ends its pod, and moving it back starts the pod again", async () => {
  await node.putManifest(podOf("moved"));
  const [before] = await node.waitUntilRunning("moved");
  const [here, away] = [join(node.paths.manifests, "moved.yaml"), join(node.folder, "moved.yaml")];

  await rename(here, away);
  await pollUntil(
    "the pod to be gone",
    20_000,
    async () => !(await node.pods()).some(({ uid }) => uid === before!.uid),
  );
  await rename(away, here);
  const [after] = await node.waitUntilRunning("moved");
  expect(after!.uid).toBe(before!.uid);
  expect(containerId(after!)).not.toBe(containerId(before!));
});

test("a broken manifest is refused once, with file, line and reason, and its pod keeps running", async () => {
  const pod = podOf("broken");
  await node.putManifest(pod);
  const [before] = await node.waitUntilRunning("broken");
  const file = join(node.paths.manifests, "broken.yaml");

  await node.putFile(
    "broken.yaml",
    "apiVersion: v1\nkind: Pod\nmetadata:\n  name: broken\nspec:\n  containers: none\n",
  );
  const line = await node.waitForLogLine("manifest refused", file);
  expect(line).toContain(`${file}:6: `);
  expect(line).toContain("spec.containers");
  expect(line).toContain("default/broken-berth stays as it was");
  // The start of another pod shows that the agent has read the folder again.
  await node.putManifest(podOf("bystander"));
  await node.waitUntilRunning("bystander");
  expect(containerId((await node.waitUntilRunning("broken"))[0]!)).toBe(containerId(before!));
  expect(linesContaining(await node.log(), "manifest refused")).toEqual([line]);
});

test("the pod of a broken manifest keeps running after a restart of the agent, which has only its checkpoint", async () => {
  const [before] = await node.waitUntilRunning("broken");
  await node.agent.stop();
  const logged = (await node.log()).length;
  await node.startAgent();
  const [after] = await node.waitUntilRunning("broken");
  expect(containerId(after!)).toBe(containerId(before!));
  await pollUntil("the refusal by the new agent", 10_000, async () =>
    (await node.log()).slice(logged).includes("broken.yaml:6: "),
  );
  await node.removeFile("bystander.yaml");
  await pollUntil(
    "the bystander to go",
    20_000,
    async () => !(await node.pods()).some(({ name }) => /bystander/.test(name)),
  );
  expect(linesContaining((await node.log()).slice(logged), "manifest refused")).toHaveLength(1);
  expect(containerId((await node.waitUntilRunning("broken"))[0]!)).toBe(containerId(before!));
});

test("a broken manifest that is restored changes nothing, and one that is repaired differently replaces the pod", async () => {
  const [before] = await node.waitUntilRunning("broken");
  await node.putManifest(podOf("broken"));
  await node.putManifest(podOf("bystander"));
  await node.waitUntilRunning("bystander");
  const [repaired] = await node.waitUntilRunning("broken");
  expect(containerId(repaired!)).toBe(containerId(before!));

  await node.putManifest(podOf("broken", { env: [{ name: "REPAIRED", value: "yes" }] }));
  await node.waitForPod("broken", "the repaired one runs", (pod) => pod.uid !== before!.uid && isReady(pod));
});

test("a static pod with an explicit uid is updated in place: another image restarts only that container", async () => {
  const side = { name: "side", image: webImage, command: untilStopped };
  const spec = podOf("own", {}).spec;
  const own = withUid({ ...podOf("own"), spec: { ...spec, containers: [...spec.containers, side] } }, "0f0f-own");
  await node.putManifest(own);
  const [before] = await node.waitUntilRunning("own");
  expect(before!.uid).toBe("0f0f-own");

  const [main, ...others] = own.spec.containers;
  await node.putManifest({ ...own, spec: { ...own.spec, containers: [{ ...main!, image: webImage }, ...others] } });
  const after = await node.waitForPod("own", "main was restarted", (pod) => isReady(pod) && pod.restarts === 1);
  const statusOf = (name: string) => after.status.containerStatuses?.find((each) => each.name === name);
  expect([after.uid, after.ip]).toEqual(["0f0f-own", before!.ip]);
  expect(statusOf("main")).toMatchObject({ image: webImage, restartCount: 1 });
  expect(containerId(after)).not.toBe(containerId(before!));
  expect(statusOf("side")!.restartCount).toBe(0);
  expect(containerId(after, "side")).toBe(containerId(before!, "side"));
});
