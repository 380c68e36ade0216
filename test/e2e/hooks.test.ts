import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Container, Lifecycle, LifecycleHandler, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { ifAbsent } from "../bed/if-absent.ts";
import { busyboxImage } from "../bed/images/images.ts";
import { pollUntil, startStopwatch } from "../bed/poll-until.ts";
import { podOf, script, untilStopped } from "./manifest.ts";
import { startNode, type TestNode } from "./node.ts";

setDefaultTimeout(600_000);

let node: TestNode;
let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-hooks-"));
  node = await startNode();
});
afterAll(async () => {
  await node.tearDown();
  await rm(folder, { recursive: true });
});

/** A hostPath volume that outlives the pod, for the notes of its hooks. */
const withNotes = (): Partial<PodSpec> => ({ volumes: [{ name: "notes", hostPath: { path: folder } }] });
/** The grace period includes the time that a busy machine needs to run the hook. */
const patient = (): Partial<PodSpec> => ({ ...withNotes(), terminationGracePeriodSeconds: 60 });
const withHooks = (lifecycle: Lifecycle, more: Partial<Container> = {}): Partial<Container> => ({
  volumeMounts: [{ name: "notes", mountPath: "/notes" }],
  lifecycle,
  ...more,
});
const shell = (text: string) => ({ exec: { command: ["sh", "-c", text] } });
/** Waits until the agent does not list a pod any more, after its manifest was removed. */
const readNotes = async (name: string) => (await readFile(join(folder, name), "utf8")).trimEnd().split("\n");

test("a container is ready after its postStart hook has succeeded, and its preStop hook runs before SIGTERM", async () => {
  const postStart = shell("sleep 1; echo begun >>/notes/life");
  const preStop = shell("echo ending >>/notes/life; sleep 1; echo hook done >>/notes/life");
  const command = script('trap "echo ended >>/notes/life; exit 0" TERM; sleep 1000000 & wait');
  await node.putManifest(podOf("life", withHooks({ postStart, preStop }, { command }), patient()));
  await node.waitForPod("life", "it waits for its hook", ({ reason }) => reason === "ContainerCreating");
  await node.waitUntilRunning("life");
  expect(await readNotes("life")).toEqual(["begun"]);
  await node.removeFile("life.yaml");
  await node.waitUntilEmpty();
  expect(await readNotes("life")).toEqual(["begun", "ending", "hook done", "ended"]);
});

test("a sidecar's preStop hook runs while the app container ends, and its SIGTERM comes after that", async () => {
  // The app container ends only after the hook has written its note.
  const ends = "until grep -q drained /notes/served; do sleep 0.1; done; echo app ended >>/notes/served; exit 0";
  const trapping = (text: string) => script(`trap "${text}" TERM; echo up >>/notes/served; sleep 1000000 & wait`);
  const drains = withHooks({ preStop: shell("echo drained >>/notes/served") });
  const proxy = { name: "proxy", image: busyboxImage, restartPolicy: "Always" as const, ...drains };
  const initContainers = [{ ...proxy, command: trapping("echo proxy ended >>/notes/served; exit 0") }];
  const spec = { ...withNotes(), initContainers, terminationGracePeriodSeconds: 30 };
  await node.putManifest(podOf("served", withHooks({}, { command: trapping(ends) }), spec));
  await pollUntil(
    "both traps to be set",
    20_000,
    async () => (await readNotes("served").catch(ifAbsent([]))).length === 2,
  );
  await node.removeFile("served.yaml");
  await node.waitUntilGone("served");
  expect((await readNotes("served")).slice(2)).toEqual(["drained", "app ended", "proxy ended"]);
});

test("a failed postStart hook stops its container, which is restarted, and the log names the failure", async () => {
  const postStart = shell(
    "echo try >>/notes/tries; test $(wc -l </notes/tries) -ge 2 || { echo not yet >&2; exit 1; }",
  );
  await node.putManifest(podOf("stubborn", withHooks({ postStart }, { command: untilStopped }), withNotes()));
  const pod = await node.waitForPod("stubborn", "it is up", ({ ready }) => ready === "1/1");
  expect(pod.restarts).toBe(1);
  await node.waitForLogLine("failed to run the postStart hook of container main", "its command exited with code 1");
});

test("a failed preStop hook does not prevent SIGTERM, and the log names the failure", async () => {
  const preStop = shell("echo tried >>/notes/failing; echo not now >&2; exit 7");
  const command = script(
    'trap "echo ended >>/notes/failing; exit 0" TERM; echo up >>/notes/failing; sleep 1000000 & wait',
  );
  await node.putManifest(podOf("failing", withHooks({ preStop }, { command }), patient()));
  await pollUntil(
    "its trap to be set",
    20_000,
    async () => (await readNotes("failing").catch(ifAbsent([]))).length === 1,
  );
  await node.removeFile("failing.yaml");
  await node.waitUntilGone("failing");
  expect(await readNotes("failing")).toEqual(["up", "tried", "ended"]);
  await node.waitForLogLine("failing-berth", "preStop hook", "its command exited with code 7");
});

test("a preStop hook that has ended does not run again when the agent is killed before the container ends", async () => {
  const preStop = shell("echo hook >>/notes/slow");
  const trap = "echo ending >>/notes/slow; sleep 4; echo ended >>/notes/slow; exit 0";
  const command = script(`trap "${trap}" TERM; echo up >>/notes/slow; sleep 1000000 & wait`);
  const spec = { ...withNotes(), terminationGracePeriodSeconds: 30 };
  await node.putManifest(podOf("slow", withHooks({ preStop }, { command }), spec));
  await pollUntil("its trap to be set", 20_000, async () => (await readNotes("slow").catch(ifAbsent([]))).length === 1);
  await node.removeFile("slow.yaml");
  await pollUntil("SIGTERM to arrive", 20_000, async () => (await readNotes("slow")).includes("ending"));
  await node.agent.kill9();
  await node.startAgent();
  await pollUntil("the container to end", 20_000, async () => (await readNotes("slow")).includes("ended"));
  await node.waitUntilGone("slow");
  expect(await readNotes("slow")).toEqual(["up", "hook", "ending", "ended"]);
});

test("httpGet hooks send their own headers and the kube-lifecycle user agent, once per hook", async () => {
  const asked: string[] = [];
  const server = Bun.serve({
    port: 0,
    hostname: "0.0.0.0",
    fetch({ url, headers }) {
      asked.push(`${new URL(url).pathname} ${headers.get("user-agent")?.split("/")[0]} ${headers.get("x-from")}`);
      return new Response("heard");
    },
  });
  const asking = (path: string) => ({
    httpGet: { port: server.port ?? 0, path, httpHeaders: [{ name: "X-From", value: "hook" }] },
  });
  try {
    const lifecycle = { postStart: asking("/begun"), preStop: asking("/ending") };
    await node.putManifest(podOf("asking", { lifecycle }, { hostNetwork: true }));
    await node.waitUntilRunning("asking");
    expect(asked).toEqual(["/begun kube-lifecycle hook"]);
    await node.removeFile("asking.yaml");
    await node.waitUntilGone("asking");
    expect(asked).toEqual(["/begun kube-lifecycle hook", "/ending kube-lifecycle hook"]);
  } finally {
    await server.stop(true);
  }
});

test("sleep hooks delay readiness after the start and SIGTERM before the end", async () => {
  const lifecycle: Lifecycle = { postStart: { sleep: { seconds: 2 } }, preStop: { sleep: { seconds: 2 } } };
  await node.putManifest(podOf("waiting", { lifecycle }, { terminationGracePeriodSeconds: 600 }));
  await node.waitForPod("waiting", "it waits for its hook", ({ reason }) => reason === "ContainerCreating");
  const [up] = await node.waitUntilRunning("waiting");
  const startedAt = Date.parse(up?.status.containerStatuses?.[0]?.state?.running?.startedAt ?? "");
  expect(Date.now() - startedAt).toBeGreaterThanOrEqual(2000);
  const removedAt = performance.now();
  await node.removeFile("waiting.yaml");
  await node.waitUntilGone("waiting");
  expect(performance.now() - removedAt).toBeGreaterThanOrEqual(2000);
});

const impossible: readonly (readonly [name: string, what: string, postStart: LifecycleHandler, says: string])[] = [
  ["no-program", "a missing program", { exec: { command: ["/no/such/hook"] } }, "no such file or directory"],
  ["no-server", "a port without a listener", { httpGet: { port: 9 } }, "connection refused"],
];
test.each(impossible)(
  "%s: a postStart hook with %s stops its container, which is restarted, and the log names the failure",
  async (name, _, postStart, expectedError) => {
    await node.putManifest(podOf(name, { lifecycle: { postStart } }));
    const pod = await node.waitForPod(
      name,
      "it was tried again, and waits",
      ({ reason }) => reason === "CrashLoopBackOff",
    );
    expect(pod).toMatchObject({ ready: "0/1", restarts: 1 });
    await node.waitForLogLine(`${name}-berth`, "failed to run the postStart hook of container main", expectedError);
  },
);

test("a hanging preStop hook is killed together with its container at the end of the grace period", async () => {
  const preStop = shell("echo begun >>/notes/hanging; sleep 1000000; echo done >>/notes/hanging");
  const spec = { ...withNotes(), terminationGracePeriodSeconds: 10 };
  await node.putManifest(podOf("hanging", withHooks({ preStop }, { command: untilStopped }), spec));
  await node.waitUntilRunning("hanging");
  const [removedAt, countedMs] = [performance.now(), startStopwatch({ afterMs: 10_000 })];
  await node.removeFile("hanging.yaml");
  await node.waitUntilGone("hanging");
  expect(performance.now() - removedAt).toBeGreaterThanOrEqual(9_900);
  expect(countedMs()).toBeLessThan(19_000);
  expect(await readNotes("hanging")).toEqual(["begun"]);
});

test("a pod with a hanging postStart hook is never ready, and ends when its manifest is removed", async () => {
  const postStart = shell("echo begun >>/notes/never-up; sleep 1000000");
  await node.putManifest(podOf("never-up", withHooks({ postStart }, { command: untilStopped }), withNotes()));
  await pollUntil(
    "its hook to run",
    20_000,
    async () => (await readNotes("never-up").catch(ifAbsent([]))).length === 1,
  );
  const pod = await node.waitForPod("never-up", "it is shown", () => true);
  expect([pod.phase, pod.reason, pod.ready]).toEqual(["Pending", "ContainerCreating", "0/1"]);
  const countedMs = startStopwatch();
  await node.removeFile("never-up.yaml");
  await node.waitUntilGone("never-up");
  expect(countedMs()).toBeLessThan(12_000);
});

test("a postStart hook that was running when the agent was killed is run again by the next agent", async () => {
  const postStart = shell("echo begin >>/notes/killed; until test -e /notes/go; do sleep 0.1; done");
  await node.putManifest(podOf("killed", withHooks({ postStart }, { command: untilStopped }), withNotes()));
  // The note is the proof: the agent logs the hook before the runtime has started its command.
  const countStarts = async () =>
    (await readNotes("killed").catch(ifAbsent<string[]>([]))).filter((line) => line === "begin").length;
  await pollUntil("its hook to run", 20_000, async () => (await countStarts()) === 1);
  await node.agent.kill9();
  await node.startAgent();
  await pollUntil("its hook to run again", 20_000, async () => (await countStarts()) >= 2);
  await writeFile(join(folder, "go"), "");
  const [pod] = await node.waitUntilRunning("killed");
  expect(pod?.restarts).toBe(0);
  expect(await countStarts()).toBe(2);
});
