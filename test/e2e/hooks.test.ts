import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Container, Lifecycle, LifecycleHandler, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { busyboxImage } from "../bed/images/images.ts";
import { until } from "../bed/poll-until.ts";
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
/** Waits until a pod whose manifest is gone is shown no more. */
const goes = (name: string) =>
  until(`${name} to be gone`, 20_000, async () => !(await node.pods()).some((pod) => pod.name === `${name}-berth`));
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

test("the preStop hook of a sidecar runs while what it serves still ends, and its SIGTERM comes behind that", async () => {
  // The application ends only when it has seen the hook.
  const ends = "until grep -q drained /notes/served; do sleep 0.1; done; echo app ended >>/notes/served; exit 0";
  const trapping = (text: string) => script(`trap "${text}" TERM; echo up >>/notes/served; sleep 1000000 & wait`);
  const drains = noting({ preStop: shell("echo drained >>/notes/served") });
  const proxy = { name: "proxy", image: busyboxImage, restartPolicy: "Always" as const, ...drains };
  const initContainers = [{ ...proxy, command: trapping("echo proxy ended >>/notes/served; exit 0") }];
  const spec = { ...withNotes(), initContainers, terminationGracePeriodSeconds: 30 };
  await node.put(podOf("served", noting({}, { command: trapping(ends) }), spec));
  await until("both traps to be set", 20_000, async () => (await notes("served").catch(() => [])).length === 2);
  await node.removeFile("served.yaml");
  await goes("served");
  expect((await notes("served")).slice(2)).toEqual(["drained", "app ended", "proxy ended"]);
});

test("a hook that fails has its container stopped and tried again, and the log says why", async () => {
  const postStart = shell(
    "echo try >>/notes/tries; test $(wc -l </notes/tries) -ge 2 || { echo not yet >&2; exit 1; }",
  );
  await node.put(podOf("stubborn", noting({ postStart }, { command: untilStopped }), withNotes()));
  const pod = await node.pod("stubborn", "it is up", ({ ready }) => ready === "1/1");
  expect(pod.restarts).toBe(1);
  await node.logged("failed to run the postStart hook of container main", "its command exited with code 1");
});

test("a preStop hook that fails keeps nobody from stopping: its container hears SIGTERM, and the log says why", async () => {
  const preStop = shell("echo tried >>/notes/failing; echo not now >&2; exit 7");
  const command = script(
    'trap "echo ended >>/notes/failing; exit 0" TERM; echo up >>/notes/failing; sleep 1000000 & wait',
  );
  await node.put(podOf("failing", noting({ preStop }, { command }), withNotes()));
  await until("its trap to be set", 20_000, async () => (await notes("failing").catch(() => [])).length === 1);
  await node.removeFile("failing.yaml");
  await goes("failing");
  expect(await notes("failing")).toEqual(["up", "tried", "ended"]);
  await node.logged("failing-berth", "preStop hook", "its command exited with code 7");
});

test("hooks may ask a server: one by one, as who they are, with the headers that they have", async () => {
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
    await node.put(podOf("asking", { lifecycle }, { hostNetwork: true }));
    await node.running("asking");
    expect(asked).toEqual(["/begun kube-lifecycle hook"]);
    await node.removeFile("asking.yaml");
    await goes("asking");
    expect(asked).toEqual(["/begun kube-lifecycle hook", "/ending kube-lifecycle hook"]);
  } finally {
    await server.stop(true);
  }
});

test("hooks may simply wait: so long is a container not up yet, and then not asked to end yet", async () => {
  const lifecycle: Lifecycle = { postStart: { sleep: { seconds: 2 } }, preStop: { sleep: { seconds: 2 } } };
  await node.put(podOf("waiting", { lifecycle }, { terminationGracePeriodSeconds: 30 }));
  await node.pod("waiting", "it waits for its hook", ({ reason }) => reason === "ContainerCreating");
  const [up] = await node.running("waiting");
  const startedAt = Date.parse(up?.status.containerStatuses?.[0]?.state?.running?.startedAt ?? "");
  expect(Date.now() - startedAt).toBeGreaterThanOrEqual(2000);
  const removedAt = performance.now();
  await node.removeFile("waiting.yaml");
  await goes("waiting");
  expect(performance.now() - removedAt).toBeWithin(2000, 20_000);
});

const impossible: readonly (readonly [name: string, what: string, postStart: LifecycleHandler, says: string])[] = [
  ["no-program", "a program that is not there", { exec: { command: ["/no/such/hook"] } }, "no such file or directory"],
  ["no-server", "a port where nobody listens", { httpGet: { port: 9 } }, "connection refused"],
];
test.each(impossible)(
  "%s: a postStart hook by %s has its container stopped and tried again, and the log says why",
  async (name, _, postStart, says) => {
    await node.put(podOf(name, { lifecycle: { postStart } }));
    const pod = await node.pod(name, "it was tried again, and waits", ({ reason }) => reason === "CrashLoopBackOff");
    expect(pod).toMatchObject({ ready: "0/1", restarts: 1 });
    await node.logged(`${name}-berth`, "failed to run the postStart hook of container main", says);
  },
);

test("a preStop hook that hangs is ended together with its container when the grace has passed", async () => {
  const preStop = shell("echo begun >>/notes/hanging; sleep 1000000; echo done >>/notes/hanging");
  const spec = { ...withNotes(), terminationGracePeriodSeconds: 3 };
  await node.put(podOf("hanging", noting({ preStop }, { command: untilStopped }), spec));
  await node.running("hanging");
  const removedAt = performance.now();
  await node.removeFile("hanging.yaml");
  await goes("hanging");
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
  await goes("never-up");
  expect(performance.now() - removedAt).toBeLessThan(12_000);
});

test("a hook that was under way when the agent was killed is run again by the next one", async () => {
  const postStart = shell("echo begin >>/notes/killed; until test -e /notes/go; do sleep 0.1; done");
  await node.put(podOf("killed", noting({ postStart }, { command: untilStopped }), withNotes()));
  // The word of it is told before the runtime has begun it.
  const begun = async () => (await notes("killed").catch((): string[] => [])).filter((line) => line === "begin").length;
  await until("its hook to run", 20_000, async () => (await begun()) === 1);
  await node.agent.kill9();
  await node.startAgent();
  await until("its hook to run again", 20_000, async () => (await begun()) === 2);
  await writeFile(join(folder, "go"), "");
  const [pod] = await node.running("killed");
  expect(pod?.restarts).toBe(0);
  expect(await begun()).toBe(2);
});
