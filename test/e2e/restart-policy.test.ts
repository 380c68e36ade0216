import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { PodSummary } from "../../agent/serve/local/pod-list.ts";
import { ContainerState } from "../../proto/cri/gen/api.ts";
import { podNameLabel } from "../../proto/kubernetes/well-known-names.ts";
import { until } from "../bed/poll-until.ts";
import { ignoringSigterm, podOf, script, upUntilStopped } from "./manifest.ts";
import { hasPrinted, type Node, startNode } from "./node.ts";

setDefaultTimeout(60_000);

let node: Node;
let endWatch: () => void;
/** All that was shown of the pod that crashes, in its order: its waits go by while other tests wait for other pods. */
const shownOfCrash: PodSummary[] = [];

const counting = { volumeMounts: [{ name: "count", mountPath: "/count" }] };
const withCount = { volumes: [{ name: "count", emptyDir: {} }] };

beforeAll(async () => {
  node = await startNode();
  endWatch = await node.watch((pods) => {
    shownOfCrash.push(...pods.filter(({ name }) => name === "crash-berth"));
  });
  await node.put(podOf("crash", { command: script("echo again; exit 3") }));
  await node.put(podOf("done", { command: script("exit 0") }, { restartPolicy: "Never" }));
  await node.put(podOf("failed", { command: script("exit 7") }, { restartPolicy: "Never" }));
  const failsOnce = script("test -e /count/once && exit 0; touch /count/once; exit 5");
  await node.put(
    podOf("second-try", { command: failsOnce, ...counting }, { restartPolicy: "OnFailure", ...withCount }),
  );
  await node.put(podOf("deadline", {}, { activeDeadlineSeconds: 8 }));
});

afterAll(async () => {
  endWatch();
  await node.end();
});

const crashShown = (what: string, condition: (pod: PodSummary) => boolean) =>
  until(`crash: ${what}`, 30_000, () => shownOfCrash.find(condition));

test("Never: a pod whose container exits with 0 has Succeeded, with any other code it has Failed", async () => {
  const done = await node.pod("done", "it has succeeded", ({ phase }) => phase === "Succeeded");
  expect(done.status.containerStatuses?.[0]?.state?.terminated).toMatchObject({ exitCode: 0, reason: "Completed" });
  const failed = await node.pod("failed", "it has failed", ({ phase }) => phase === "Failed");
  expect(failed.status.containerStatuses?.[0]?.state?.terminated).toMatchObject({ exitCode: 7, reason: "Error" });
  expect([done.restarts, failed.restarts]).toEqual([0, 0]);
});

test("OnFailure: a container that fails is tried again, and its pod has Succeeded when it does not", async () => {
  const pod = await node.pod("second-try", "it has succeeded", ({ phase }) => phase === "Succeeded");
  const [status] = pod.status.containerStatuses ?? [];
  expect(status).toMatchObject({ restartCount: 1, state: { terminated: { exitCode: 0, reason: "Completed" } } });
  expect(status?.lastState?.terminated).toMatchObject({ exitCode: 5, reason: "Error" });
  // Both instances had it; with the pod's end it has served.
  const volumes = join(node.paths.agentRoot, "pods", pod.uid, "volumes");
  await until("its emptyDir is gone", 5000, async () => (await readdir(volumes)).length === 0);
});

test("activeDeadlineSeconds ends the pod, which has Failed for that reason", async () => {
  const pod = await node.pod("deadline", "it has failed", ({ phase }) => phase === "Failed");
  expect([pod.reason, pod.message]).toEqual([
    "DeadlineExceeded",
    "Pod was active on the node longer than the specified deadline",
  ]);
  const { finishedAt = "" } = pod.status.containerStatuses?.[0]?.state?.terminated ?? {};
  const livedMs = Date.parse(finishedAt) - Date.parse(pod.startTime);
  expect(livedMs).toBeWithin(8000, 12_001);
});

test("Always: the first restart comes at once, the second after 10 s, and the third would after 20 s", async () => {
  const waiting = await crashShown("its first wait", ({ message }) => message.startsWith("back-off 10s"));
  expect(waiting).toMatchObject({ phase: "Running", reason: "CrashLoopBackOff", restarts: 1, ready: "0/1" });
  expect(waiting.message).toBe(
    `back-off 10s restarting failed container=main pod=crash-berth_default(${waiting.uid}); it exited with code 3`,
  );
  const ended = waiting.status.containerStatuses?.[0]?.lastState?.terminated;
  expect(ended).toMatchObject({ exitCode: 3, reason: "Error" });

  const again = await crashShown("its second wait", ({ message }) => message.startsWith("back-off 20s"));
  expect(again.restarts).toBe(2);
  const next = again.status.containerStatuses?.[0]?.lastState?.terminated;
  expect(Date.parse(next?.startedAt ?? "") - Date.parse(ended?.finishedAt ?? "")).toBeWithin(10_000, 15_001);
});

test("an instance has a log of its own, named by the count of restarts, and takes it along when it is removed", async () => {
  const pod = await node.pod("crash", "its third instance", ({ restarts }) => restarts === 2);
  const folder = join(node.paths.podLogs, `default_crash-berth_${pod.uid}`, "main");
  const logs = () => readdir(folder);
  await until("only the newest log is left", 5000, async () => (await logs()).length === 1);
  expect(await logs()).toEqual(["2.log"]);
  expect(await readFile(join(folder, "2.log"), "utf8")).toMatch(/^\S+Z stdout F again\n$/);
});

test("a container that ends at once on SIGTERM is not waited for", async () => {
  await node.put(podOf("polite", { command: upUntilStopped }, { terminationGracePeriodSeconds: 30 }));
  const [polite] = await node.running("polite");
  await hasPrinted(node, polite!, "up");
  const removedAt = performance.now();
  await node.removeFile("polite.yaml");
  await gone("polite");
  expect(performance.now() - removedAt).toBeLessThan(5000);
});

test("a container that ignores SIGTERM is killed when its grace is over; its neighbour ends at once", async () => {
  const neighbour = { name: "neighbour", command: upUntilStopped };
  const pod = podOf("stubborn", { command: ignoringSigterm }, { terminationGracePeriodSeconds: 5 });
  const [main] = pod.spec.containers;
  await node.put({ ...pod, spec: { ...pod.spec, containers: [main!, { ...main!, ...neighbour }] } });
  const [stubborn] = await node.running("stubborn");
  await hasPrinted(node, stubborn!, "up", "neighbour");
  const removedAt = performance.now();
  await node.removeFile("stubborn.yaml");
  await node.pod("stubborn", "it is ending", ({ reason }) => reason === "Terminating");
  await until("the neighbour to have ended, and it alone", 5000, async () => {
    const own = (await node.containers()).filter(({ labels }) => labels[podNameLabel] === "stubborn-berth");
    const states = new Map(own.map(({ metadata, state }) => [metadata?.name, state]));
    return (
      states.get("neighbour") === ContainerState.CONTAINER_EXITED &&
      states.get("main") === ContainerState.CONTAINER_RUNNING
    );
  });
  await gone("stubborn");
  expect(performance.now() - removedAt).toBeWithin(5000, 10_000);
});

test("a pod that has ended leaves with its manifest", async () => {
  for (const name of ["done", "failed", "second-try", "deadline", "crash"]) await node.removeFile(`${name}.yaml`);
  await node.empty();
});

async function gone(name: string): Promise<void> {
  await until(
    `pod ${name} to be gone`,
    30_000,
    async () => !(await node.pods()).some((pod) => pod.name === `${name}-berth`),
  );
}
