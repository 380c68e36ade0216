import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { PodSummary } from "../../agent/serve/local/pod-list.ts";
import type { Container, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { busyboxImage } from "../bed/images/images.ts";
import { until } from "../bed/poll-until.ts";
import { podOf, script, untilStopped } from "./manifest.ts";
import { type Node, startNode } from "./node.ts";

setDefaultTimeout(60_000);

let node: Node;

const notes = { volumeMounts: [{ name: "notes", mountPath: "/notes" }] };
const volumes: PodSpec["volumes"] = [{ name: "notes", emptyDir: {} }];
const container = (name: string, more: Partial<Container>): Container => ({
  name,
  image: busyboxImage,
  ...notes,
  ...more,
});
/** Notes when it begins, and when it is asked to end. */
const noting = (name: string) =>
  script(`trap "echo no ${name} >>/notes/log; exit 0" TERM; echo ${name} >>/notes/log; sleep 1000000 & wait`);
const sidecar = (name: string) => container(name, { command: noting(name), restartPolicy: "Always" });
const notesFolder = ({ uid }: PodSummary) =>
  join(node.paths.agentRoot, "pods", uid, "volumes/kubernetes.io~empty-dir/notes");
const notesIn = async (folder: string) => (await readFile(join(folder, "log"), "utf8")).trimEnd().split("\n");
const notesOf = (pod: PodSummary) => notesIn(notesFolder(pod));

beforeAll(async () => {
  node = await startNode();
});

afterAll(() => node.end());

test("init containers run in their order before the app containers, and a sidecar stays beside them", async () => {
  const initContainers = [
    container("first", { command: script("sleep 1; echo first >>/notes/log") }),
    sidecar("proxy"),
    container("last", {
      command: script("until grep -q proxy /notes/log; do sleep 0.1; done; echo last >>/notes/log"),
    }),
  ];
  await node.put(podOf("ordered", { ...notes, command: noting("app") }, { initContainers, volumes }));
  const pod = await node.pod("ordered", "it is up", ({ ready }) => ready === "2/2");
  // A container runs before its process has written anything.
  await until("the app has begun", 10_000, async () => (await notesOf(pod)).length === 4);
  expect(await notesOf(pod)).toEqual(["first", "proxy", "last", "app"]);
  const init = pod.status.initContainerStatuses?.map(({ name, state, ready }) => [
    name,
    Object.keys(state ?? {})[0],
    ready,
  ]);
  expect(init).toEqual([
    ["first", "terminated", true],
    ["proxy", "running", true],
    ["last", "terminated", true],
  ]);
});

test("an init container that fails holds the pod up, is tried again, and lets it go on when it succeeds", async () => {
  const failsTwice = script("echo try >>/notes/log; test $(wc -l </notes/log) -ge 3");
  const initContainers = [container("stubborn", { command: failsTwice })];
  await node.put(podOf("held", { ...notes, command: untilStopped }, { initContainers, volumes }));
  const waiting = await node.pod("held", "its back-off", ({ reason }) => reason === "Init:CrashLoopBackOff");
  expect(waiting).toMatchObject({ phase: "Pending", ready: "0/1" });
  expect(waiting.message).toEndWith("it exited with code 1");
  const pod = await node.pod("held", "it is up", ({ ready }) => ready === "1/1");
  expect(pod.status.initContainerStatuses?.[0]).toMatchObject({ restartCount: 2, ready: true });
});

test("with restartPolicy Never the failure of an init container is that of the pod, and no app container begins", async () => {
  const initContainers = [container("fatal", { command: script("exit 9") })];
  await node.put(podOf("failed", {}, { initContainers, volumes, restartPolicy: "Never" }));
  const pod = await node.pod("failed", "it has failed", ({ phase }) => phase === "Failed");
  expect(pod.status.initContainerStatuses?.[0]?.state?.terminated).toMatchObject({ exitCode: 9, reason: "Error" });
  expect(pod.status.containerStatuses?.[0]?.state).toEqual({ waiting: { reason: "PodInitializing" } });
});

test("a container that asks for the restart of all lets the pod begin anew in its sandbox, on its volumes", async () => {
  const watching =
    "test -e /notes/tried && exec sleep 1000000; touch /notes/tried; until test -e /notes/go; do sleep 0.1; done; exit 88";
  const watcher = container("watcher", {
    command: script(watching),
    restartPolicy: "Never",
    restartPolicyRules: [{ action: "RestartAllContainers", exitCodes: { operator: "In", values: [88] } }],
  });
  const initContainers = [container("first", { command: script("echo first >>/notes/log") })];
  const containers = [container("main", { command: noting("app") }), watcher];
  await node.put(podOf("again", {}, { initContainers, containers, volumes, restartPolicy: "Never" }));
  const before = await node.pod("again", "it is up", ({ ready }) => ready === "2/2");
  await writeFile(join(notesFolder(before), "go"), "");
  const after = await node.pod("again", "it is up anew", ({ ready, restarts }) => ready === "2/2" && restarts > 0);
  const begun = async () => (await notesOf(after)).filter((line) => line !== "no app");
  await until("the app has begun again", 10_000, async () => (await begun()).length === 4);
  expect(await begun()).toEqual(["first", "app", "first", "app"]);
  expect(after.status.podIP).toBe(before.status.podIP);
  const all = [...(after.status.initContainerStatuses ?? []), ...(after.status.containerStatuses ?? [])];
  expect(all.map(({ restartCount, lastState }) => [restartCount, lastState?.terminated?.reason])).toEqual([
    [1, "RestartingAllContainers"],
    [1, "RestartingAllContainers"],
    [1, "RestartingAllContainers"],
  ]);
});

test("a pod whose work is done has Succeeded, and its sidecars end behind it in the reverse order", async () => {
  const initContainers = [sidecar("early"), sidecar("late")];
  const work = script("until grep -q late /notes/log; do sleep 0.1; done; echo work >>/notes/log");
  // An emptyDir goes with the pod's end.
  const path = join(node.folder, "notes-of-job");
  const onNode: PodSpec["volumes"] = [{ name: "notes", hostPath: { path, type: "DirectoryOrCreate" } }];
  await node.put(
    podOf("job", { ...notes, command: work }, { initContainers, volumes: onNode, restartPolicy: "Never" }),
  );
  await node.pod("job", "it has succeeded", ({ phase }) => phase === "Succeeded");
  expect(await notesIn(path)).toEqual(["early", "late", "work", "no late", "no early"]);
});
