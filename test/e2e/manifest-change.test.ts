import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { rename } from "node:fs/promises";
import { join } from "node:path";
import { webImage } from "../bed/images/images.ts";
import { until } from "../bed/poll-until.ts";
import { type Recording, recordLives } from "./container-lifetimes.ts";
import { ignoringSigterm, podOf, untilStopped, withUid } from "./manifest.ts";
import { containerId, isReady, linesWith, type Node, startNode } from "./node.ts";

setDefaultTimeout(60_000);

let node: Node;
let recording: Recording;

beforeAll(async () => {
  node = await startNode();
  recording = await recordLives(node.containerd);
});

afterAll(async () => {
  recording.stop();
  await node.end();
});

test("an edited manifest is another pod: the old one gets its grace, and the new one starts when it is gone", async () => {
  const pod = podOf("edited", { command: ignoringSigterm }, { terminationGracePeriodSeconds: 2 });
  await node.put(pod);
  const [old] = await node.running("edited");

  const editedAt = performance.now();
  await node.put({ ...pod, metadata: { ...pod.metadata, labels: { edition: "second" } } });
  await node.pod("edited", "the new one runs", (now) => now.uid !== old!.uid && isReady(now));
  expect(performance.now() - editedAt).toBeGreaterThan(2000);
  const lives = (await recording.lives()).filter(({ owner }) => owner.endsWith(" main"));
  expect(lives.map(({ owner }) => owner.split(" ")[0])).toEqual([old!.uid, (await node.pods())[0]!.uid]);
  expect(lives[1]!.createdAt).toBeGreaterThan(lives[0]!.endedAt!);
  await node.removeFile("edited.yaml");
});

test("a manifest that is moved away ends its pod, and moved back it starts it anew", async () => {
  await node.put(podOf("moved"));
  const [before] = await node.running("moved");
  const [here, away] = [join(node.paths.manifests, "moved.yaml"), join(node.folder, "moved.yaml")];

  await rename(here, away);
  await until("the pod to be gone", 20_000, async () => !(await node.pods()).some(({ uid }) => uid === before!.uid));
  await rename(away, here);
  const [after] = await node.running("moved");
  expect(after!.uid).toBe(before!.uid);
  expect(containerId(after!)).not.toBe(containerId(before!));
});

test("a broken manifest is refused once, with file, line and reason, and its pod runs on", async () => {
  const pod = podOf("broken");
  await node.put(pod);
  const [before] = await node.running("broken");
  const file = join(node.paths.manifests, "broken.yaml");

  await node.putFile(
    "broken.yaml",
    "apiVersion: v1\nkind: Pod\nmetadata:\n  name: broken\nspec:\n  containers: none\n",
  );
  const line = await node.logged("manifest refused", file);
  expect(line).toContain(`${file}:6: `);
  expect(line).toContain("spec.containers");
  expect(line).toContain("default/broken-berth stays as it was");
  // Another pod's start shows that the broken manifest has been looked at again since.
  await node.put(podOf("bystander"));
  await node.running("bystander");
  expect(containerId((await node.running("broken"))[0]!)).toBe(containerId(before!));
  expect(linesWith(await node.log(), "manifest refused")).toEqual([line]);
});

test("it also runs on after a restart of the agent, which has only its own record of it", async () => {
  const [before] = await node.running("broken");
  await node.agent.stop();
  const logged = (await node.log()).length;
  await node.startAgent();
  const [after] = await node.running("broken");
  expect(containerId(after!)).toBe(containerId(before!));
  await until("the refusal by the new agent", 10_000, async () =>
    (await node.log()).slice(logged).includes("broken.yaml:6: "),
  );
  await node.removeFile("bystander.yaml");
  await until(
    "the bystander to go",
    20_000,
    async () => !(await node.pods()).some(({ name }) => /bystander/.test(name)),
  );
  expect(linesWith((await node.log()).slice(logged), "manifest refused")).toHaveLength(1);
  expect(containerId((await node.running("broken"))[0]!)).toBe(containerId(before!));
});

test("repaired as it was it changes nothing, and repaired otherwise it is another pod", async () => {
  const [before] = await node.running("broken");
  await node.put(podOf("broken"));
  await node.put(podOf("bystander"));
  await node.running("bystander");
  const [repaired] = await node.running("broken");
  expect(containerId(repaired!)).toBe(containerId(before!));

  await node.put(podOf("broken", { env: [{ name: "REPAIRED", value: "yes" }] }));
  await node.pod("broken", "the repaired one runs", (pod) => pod.uid !== before!.uid && isReady(pod));
});

test("a pod with a uid of its own stays the same pod: another image restarts that container alone, in its place", async () => {
  const side = { name: "side", image: webImage, command: untilStopped };
  const spec = podOf("own", {}).spec;
  const own = withUid({ ...podOf("own"), spec: { ...spec, containers: [...spec.containers, side] } }, "0f0f-own");
  await node.put(own);
  const [before] = await node.running("own");
  expect(before!.uid).toBe("0f0f-own");

  const [main, ...others] = own.spec.containers;
  await node.put({ ...own, spec: { ...own.spec, containers: [{ ...main!, image: webImage }, ...others] } });
  const after = await node.pod("own", "main was restarted", (pod) => isReady(pod) && pod.restarts === 1);
  const statusOf = (name: string) => after.status.containerStatuses?.find((each) => each.name === name);
  expect([after.uid, after.ip]).toEqual(["0f0f-own", before!.ip]);
  expect(statusOf("main")).toMatchObject({ image: webImage, restartCount: 1 });
  expect(containerId(after)).not.toBe(containerId(before!));
  expect(statusOf("side")!.restartCount).toBe(0);
  expect(containerId(after, "side")).toBe(containerId(before!, "side"));
});
