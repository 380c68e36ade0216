import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { PodSummary } from "../../agent/serve/local/pod-list.ts";
import { ContainerState } from "../../proto/cri/gen/api.ts";
import { podNameLabel } from "../../proto/kubernetes/well-known-names.ts";
import { ifAbsent } from "../bed/if-absent.ts";
import { pollUntil, startStopwatch } from "../bed/poll-until.ts";
import { podOf, script, upIgnoringSigterm, upUntilStopped } from "./manifest.ts";
import { startNode, type TestNode } from "./node.ts";

setDefaultTimeout(600_000);

const DEADLINE_SECONDS = 40;

let node: TestNode;
let endWatch: () => void;
/** All reports of the pod that crashes, in order: its back-offs pass while other tests wait for other pods. */
const crashReports: PodSummary[] = [];
/** How many of its restarts are measured: later ones may come while the tests end. */
const MEASURED_RESTARTS = 4;
/** When its instances were created, by the number of restarts before: each takes the place of the one before. */
const crashCreatedAt = new Map<number, Promise<number>>();

const counting = { volumeMounts: [{ name: "count", mountPath: "/count" }] };
const withCount = { volumes: [{ name: "count", emptyDir: {} }] };

beforeAll(async () => {
  node = await startNode();
  // This pod comes first: even a slow machine starts it before its deadline.
  await node.putManifest(podOf("deadline", {}, { activeDeadlineSeconds: DEADLINE_SECONDS }));
  endWatch = await node.watch((pods) => {
    const reports = pods.filter(({ name }) => name === "crash-berth");
    crashReports.push(...reports);
    for (const { restarts } of reports)
      if (restarts > 1 && restarts <= MEASURED_RESTARTS && !crashCreatedAt.has(restarts))
        crashCreatedAt.set(restarts, node.createdAt("crash", restarts));
  });
  await node.putManifest(podOf("crash", { command: script("echo again; exit 3") }));
  await node.putManifest(podOf("done", { command: script("exit 0") }, { restartPolicy: "Never" }));
  await node.putManifest(podOf("failed", { command: script("exit 7") }, { restartPolicy: "Never" }));
  const failsOnce = script("test -e /count/once && exit 0; touch /count/once; exit 5");
  await node.putManifest(
    podOf("second-try", { command: failsOnce, ...counting }, { restartPolicy: "OnFailure", ...withCount }),
  );
});

afterAll(async () => {
  endWatch();
  await node.tearDown();
});

/** The pod that crashes, in its back-off of so many seconds, after so many restarts. */
async function waitForBackOff(seconds: number, restarts: number): Promise<PodSummary> {
  const isShown = ({ message }: PodSummary) => message.startsWith(`back-off ${seconds}s `);
  const waiting = await pollUntil(`crash: its back-off of ${seconds} s`, 60_000, () => crashReports.find(isShown));
  expect(waiting).toMatchObject({ phase: "Running", reason: "CrashLoopBackOff", restarts, ready: "0/1" });
  expect(waiting.status.containerStatuses?.[0]?.lastState?.terminated).toMatchObject({ exitCode: 3, reason: "Error" });
  return waiting;
}

/** From the end of the instance before such a back-off to the creation of the next one, in milliseconds. */
async function measureBackOff(seconds: number, restarts: number): Promise<number> {
  const { status } = await waitForBackOff(seconds, restarts);
  const created = await pollUntil(`crash: restart ${restarts + 1}`, 90_000, () => crashCreatedAt.get(restarts + 1));
  return created - Date.parse(status.containerStatuses?.[0]?.lastState?.terminated?.finishedAt ?? "");
}

test("with restartPolicy Never a pod is Succeeded after exit code 0 and Failed after any other", async () => {
  const done = await node.waitForPod("done", "it has succeeded", ({ phase }) => phase === "Succeeded");
  expect(done.status.containerStatuses?.[0]?.state?.terminated).toMatchObject({ exitCode: 0, reason: "Completed" });
  const failed = await node.waitForPod("failed", "it has failed", ({ phase }) => phase === "Failed");
  expect(failed.status.containerStatuses?.[0]?.state?.terminated).toMatchObject({ exitCode: 7, reason: "Error" });
  expect([done.restarts, failed.restarts]).toEqual([0, 0]);
});

test("with restartPolicy OnFailure a failed container is restarted, and its pod is Succeeded when it completes", async () => {
  const pod = await node.waitForPod("second-try", "it has succeeded", ({ phase }) => phase === "Succeeded");
  const [status] = pod.status.containerStatuses ?? [];
  expect(status).toMatchObject({ restartCount: 1, state: { terminated: { exitCode: 0, reason: "Completed" } } });
  expect(status?.lastState?.terminated).toMatchObject({ exitCode: 5, reason: "Error" });
  // Both instances shared the emptyDir; it is removed at the end of the pod.
  const emptyDirs = join(node.paths.agentRoot, "pods", pod.uid, "volumes/kubernetes.io~empty-dir");
  await pollUntil("its emptyDir is gone", 30_000, async () => (await readdir(emptyDirs)).length === 0);
});

test("activeDeadlineSeconds ends the pod with phase Failed and reason DeadlineExceeded", async () => {
  const pod = await node.waitForPod("deadline", "it has failed", ({ phase }) => phase === "Failed");
  expect([pod.reason, pod.message]).toEqual([
    "DeadlineExceeded",
    "Pod was active on the node longer than the specified deadline",
  ]);
  const { finishedAt = "" } = pod.status.containerStatuses?.[0]?.state?.terminated ?? {};
  const livedMs = Date.parse(finishedAt) - Date.parse(pod.startTime);
  expect(livedMs).toBeWithin(DEADLINE_SECONDS * 1000, (DEADLINE_SECONDS + 10) * 1000);
});

test("with restartPolicy Always the first restart is immediate, the second after 10 s, the third after 20 s", async () => {
  const { message, uid } = await waitForBackOff(10, 1);
  expect(message).toBe(
    `back-off 10s restarting failed container=main pod=crash-berth_default(${uid}); it exited with code 3`,
  );
  // The bound is the next back-off. The start of a container takes a busy machine many seconds; its creation does not.
  expect(await measureBackOff(10, 1)).toBeWithin(10_000, 20_000);
  expect(await measureBackOff(20, 2)).toBeWithin(20_000, 40_000);
});

test("each instance has its own log, named by the restart count, which is removed with the instance", async () => {
  const isThirdOrLater = ({ restarts }: PodSummary) => restarts >= 2;
  const { uid } = await node.waitForPod("crash", "its third instance", isThirdOrLater);
  const folder = join(node.paths.podLogs, `default_crash-berth_${uid}`, "main");
  await pollUntil("the newest log, and no other", 30_000, async () => {
    const { restarts } = await node.waitForPod("crash", "it is shown", () => true);
    const [newest = "", ...others] = await readdir(folder);
    if (newest !== `${restarts}.log` || others.length > 0) return false;
    // A new instance has written nothing yet, or has replaced this one by now.
    const text = await readFile(join(folder, newest), "utf8").catch(ifAbsent(""));
    return /^\S+Z stdout F again\n$/.test(text);
  });
});

test("a pod whose container ends on SIGTERM is gone long before its grace period", async () => {
  await node.putManifest(podOf("polite", { command: upUntilStopped }, { terminationGracePeriodSeconds: 600 }));
  await node.waitUntilUp("polite");
  await node.removeFile("polite.yaml");
  // This waits for a minute, on a busy machine for three.
  await node.waitUntilGone("polite");
});

test("a container that ignores SIGTERM is killed after the grace period; the other container ends at once", async () => {
  const neighbour = { name: "neighbour", command: upUntilStopped };
  const pod = podOf("stubborn", { command: upIgnoringSigterm }, { terminationGracePeriodSeconds: 20 });
  const [main] = pod.spec.containers;
  await node.putManifest({ ...pod, spec: { ...pod.spec, containers: [main!, { ...main!, ...neighbour }] } });
  await node.waitUntilUp("stubborn");
  const [removedAt, countedMs] = [performance.now(), startStopwatch({ afterMs: 20_000 })];
  await node.removeFile("stubborn.yaml");
  await node.waitForPod("stubborn", "it is ending", ({ reason }) => reason === "Terminating");
  await pollUntil("only the neighbour to have exited", 15_000, async () => {
    const own = (await node.containers()).filter(({ labels }) => labels[podNameLabel] === "stubborn-berth");
    const states = new Map(own.map(({ metadata, state }) => [metadata?.name, state]));
    return (
      states.get("neighbour") === ContainerState.CONTAINER_EXITED &&
      states.get("main") === ContainerState.CONTAINER_RUNNING
    );
  });
  await node.waitUntilGone("stubborn");
  expect(performance.now() - removedAt).toBeGreaterThan(20_000);
  expect(countedMs()).toBeLessThan(25_000);
});

// This back-off has passed while the tests above waited.
test("with restartPolicy Always the fourth restart follows after 40 s", async () => {
  expect(await measureBackOff(40, 3)).toBeWithin(40_000, 80_000);
});

test("a completed pod is removed with its manifest", async () => {
  for (const name of ["done", "failed", "second-try", "deadline", "crash"]) await node.removeFile(`${name}.yaml`);
  await node.waitUntilEmpty();
});
