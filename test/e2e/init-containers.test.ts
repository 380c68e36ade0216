import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { PodSummary } from "../../agent/serve/local/pod-list.ts";
import type { Container, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { busyboxImage } from "../bed/images/images.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { podOf, script, untilStopped } from "./manifest.ts";
import { startNode, type TestNode } from "./node.ts";

setDefaultTimeout(600_000);

let node: TestNode;

const notes = { volumeMounts: [{ name: "notes", mountPath: "/notes" }] };
const volumes: PodSpec["volumes"] = [{ name: "notes", emptyDir: {} }];
const container = (name: string, more: Partial<Container>): Container => ({
  name,
  image: busyboxImage,
  ...notes,
  ...more,
});
/** A command that writes a note when it starts and another one on SIGTERM. */
const noteCommand = (name: string) =>
  script(`trap "echo no ${name} >>/notes/log; exit 0" TERM; echo ${name} >>/notes/log; sleep 1000000 & wait`);
const sidecar = (name: string) => container(name, { command: noteCommand(name), restartPolicy: "Always" });
const notesFolder = ({ uid }: PodSummary) =>
  join(node.paths.agentRoot, "pods", uid, "volumes/kubernetes.io~empty-dir/notes");
const notesIn = async (folder: string) => (await readFile(join(folder, "log"), "utf8")).trimEnd().split("\n");
const notesOf = (pod: PodSummary) => notesIn(notesFolder(pod));

beforeAll(async () => {
  node = await startNode();
});

afterAll(() => node.tearDown());

test("init containers run in order before the app containers, and a sidecar keeps running", async () => {
  const initContainers = [
    container("first", { command: script("sleep 1; echo first >>/notes/log") }),
    sidecar("proxy"),
    container("last", {
      command: script("until grep -q proxy /notes/log; do sleep 0.1; done; echo last >>/notes/log"),
    }),
  ];
  await node.putManifest(podOf("ordered", { ...notes, command: noteCommand("app") }, { initContainers, volumes }));
  const pod = await node.waitForPod("ordered", "it is up", ({ ready }) => ready === "2/2");
  // A container is running before its process has written anything.
  await pollUntil("the app to start", 10_000, async () => (await notesOf(pod)).length === 4);
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

test("a failing init container delays the pod, is restarted with back-off, and lets the pod start when it succeeds", async () => {
  const failsTwice = script("echo try >>/notes/log; test $(wc -l </notes/log) -ge 3");
  const initContainers = [container("stubborn", { command: failsTwice })];
  await node.putManifest(podOf("held", { ...notes, command: untilStopped }, { initContainers, volumes }));
  const waiting = await node.waitForPod("held", "its back-off", ({ reason }) => reason === "Init:CrashLoopBackOff");
  expect(waiting).toMatchObject({ phase: "Pending", ready: "0/1" });
  expect(waiting.message).toEndWith("it exited with code 1");
  const pod = await node.waitForPod("held", "it is up", ({ ready }) => ready === "1/1");
  expect(pod.status.initContainerStatuses?.[0]).toMatchObject({ restartCount: 2, ready: true });
});

test("with restartPolicy Never a failed init container fails the pod, and no app container starts", async () => {
  const initContainers = [container("fatal", { command: script("exit 9") })];
  await node.putManifest(podOf("failed", {}, { initContainers, volumes, restartPolicy: "Never" }));
  const pod = await node.waitForPod("failed", "it has failed", ({ phase }) => phase === "Failed");
  expect(pod.status.initContainerStatuses?.[0]?.state?.terminated).toMatchObject({ exitCode: 9, reason: "Error" });
  expect(pod.status.containerStatuses?.[0]?.state).toEqual({ waiting: { reason: "PodInitializing" } });
});

test("RestartAllContainers restarts all containers of a pod in the same sandbox with the same volumes", async () => {
  const watching =
    "test -e /notes/tried && exec sleep 1000000; touch /notes/tried; until test -e /notes/go; do sleep 0.1; done; exit 88";
  const watcher = container("watcher", {
    command: script(watching),
    restartPolicy: "Never",
    restartPolicyRules: [{ action: "RestartAllContainers", exitCodes: { operator: "In", values: [88] } }],
  });
  const initContainers = [container("first", { command: script("echo first >>/notes/log") })];
  const containers = [container("main", { command: noteCommand("app") }), watcher];
  await node.putManifest(podOf("again", {}, { initContainers, containers, volumes, restartPolicy: "Never" }));
  const before = await node.waitForPod("again", "it is up", ({ ready }) => ready === "2/2");
  await writeFile(join(notesFolder(before), "go"), "");
  const after = await node.waitForPod(
    "again",
    "all its containers were restarted",
    ({ ready, restarts }) => ready === "2/2" && restarts > 0,
  );
  const readStarts = async () => (await notesOf(after)).filter((line) => line !== "no app");
  await pollUntil("the app to start again", 10_000, async () => (await readStarts()).length === 4);
  expect(await readStarts()).toEqual(["first", "app", "first", "app"]);
  expect(after.status.podIP).toBe(before.status.podIP);
  const all = [...(after.status.initContainerStatuses ?? []), ...(after.status.containerStatuses ?? [])];
  expect(all.map(({ restartCount, lastState }) => [restartCount, lastState?.terminated?.reason])).toEqual([
    [1, "RestartingAllContainers"],
    [1, "RestartingAllContainers"],
    [1, "RestartingAllContainers"],
  ]);
});

test("a pod is Succeeded when its app container has completed, and its sidecars end in reverse order after it", async () => {
  const initContainers = [sidecar("early"), sidecar("late")];
  const work = script("until grep -q late /notes/log; do sleep 0.1; done; echo work >>/notes/log");
  // A hostPath, because an emptyDir is removed at the end of the pod.
  const path = join(node.folder, "notes-of-job");
  const onNode: PodSpec["volumes"] = [{ name: "notes", hostPath: { path, type: "DirectoryOrCreate" } }];
  await node.putManifest(
    podOf("job", { ...notes, command: work }, { initContainers, volumes: onNode, restartPolicy: "Never" }),
  );
  await node.waitForPod("job", "it has succeeded", ({ phase }) => phase === "Succeeded");
  expect(await notesIn(path)).toEqual(["early", "late", "work", "no late", "no early"]);
});
