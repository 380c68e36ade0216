import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Container, Lifecycle, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { until } from "../bed/until.ts";
import { podOf, script, untilStopped } from "./manifest.ts";
import { type Node, startNode } from "./node.ts";

setDefaultTimeout(60_000);

let node: Node;
let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-hooks-"));
  node = await startNode();
});
afterAll(async () => {
  await node.end();
  await rm(folder, { recursive: true });
});

/** A folder of the node that outlives the pod, for the notes of its hooks. */
const withNotes = (): Partial<PodSpec> => ({ volumes: [{ name: "notes", hostPath: { path: folder } }] });
const noting = (lifecycle: Lifecycle, more: Partial<Container> = {}): Partial<Container> => ({
  volumeMounts: [{ name: "notes", mountPath: "/notes" }],
  lifecycle,
  ...more,
});
const shell = (text: string) => ({ exec: { command: ["sh", "-c", text] } });
const notes = async (name: string) => (await readFile(join(folder, name), "utf8")).trimEnd().split("\n");

test("a container is up when its postStart hook has succeeded, and its preStop hook runs before its end", async () => {
  const postStart = shell("sleep 1; echo begun >>/notes/life");
  const preStop = shell("echo ending >>/notes/life; sleep 1; echo hook done >>/notes/life");
  const command = script('trap "echo ended >>/notes/life; exit 0" TERM; sleep 1000000 & wait');
  await node.put(podOf("life", noting({ postStart, preStop }, { command }), withNotes()));
  await node.pod("life", "it waits for its hook", ({ reason }) => reason === "ContainerCreating");
  await node.running("life");
  expect(await notes("life")).toEqual(["begun"]);
  await node.removeFile("life.yaml");
  await node.empty();
  expect(await notes("life")).toEqual(["begun", "ending", "hook done", "ended"]);
});

test("a hook that fails has its container stopped and tried again, and the log says why", async () => {
  const postStart = shell(
    "echo try >>/notes/tries; test $(wc -l </notes/tries) -ge 2 || { echo not yet >&2; exit 1; }",
  );
  await node.put(podOf("stubborn", noting({ postStart }, { command: untilStopped }), withNotes()));
  const pod = await node.pod("stubborn", "it is up", ({ ready }) => ready === "1/1");
  expect(pod.restarts).toBe(1);
  await node.logged("failed to run the postStart hook of container main", "not yet");
});

test("a preStop hook that hangs is ended together with its container when the grace has passed", async () => {
  const preStop = shell("echo begun >>/notes/hanging; sleep 1000000; echo done >>/notes/hanging");
  const spec = { ...withNotes(), terminationGracePeriodSeconds: 3 };
  await node.put(podOf("hanging", noting({ preStop }, { command: untilStopped }), spec));
  await node.running("hanging");
  const removedAt = performance.now();
  await node.removeFile("hanging.yaml");
  await until("it to be gone", 20_000, async () => !(await node.pods()).some(({ name }) => name === "hanging-berth"));
  expect(performance.now() - removedAt).toBeWithin(2_900, 12_000);
  expect(await notes("hanging")).toEqual(["begun"]);
});

test("a pod whose postStart hook hangs is never up, and ends when it is told to", async () => {
  const postStart = shell("echo begun >>/notes/never-up; sleep 1000000");
  await node.put(podOf("never-up", noting({ postStart }, { command: untilStopped }), withNotes()));
  await until("its hook to run", 20_000, async () => (await notes("never-up").catch(() => [])).length === 1);
  const pod = await node.pod("never-up", "it is shown", () => true);
  expect([pod.phase, pod.reason, pod.ready]).toEqual(["Pending", "ContainerCreating", "0/1"]);
  const removedAt = performance.now();
  await node.removeFile("never-up.yaml");
  await until("it to be gone", 20_000, async () => !(await node.pods()).some(({ name }) => name === "never-up-berth"));
  expect(performance.now() - removedAt).toBeLessThan(12_000);
});

test("a hook that was under way when the agent was killed is run again by the next one", async () => {
  const postStart = shell("echo begin >>/notes/killed; sleep 2; echo end >>/notes/killed");
  await node.put(podOf("killed", noting({ postStart }, { command: untilStopped }), withNotes()));
  // The word of it is told before the runtime has begun it.
  await until("its hook to run", 20_000, async () =>
    (await notes("killed").catch((): string[] => [])).includes("begin"),
  );
  await node.agent.kill9();
  await node.startAgent();
  const [pod] = await node.running("killed");
  expect(pod?.restarts).toBe(0);
  expect((await notes("killed")).filter((line) => line === "begin")).toHaveLength(2);
});
