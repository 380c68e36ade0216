import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { setTimeout as pause } from "node:timers/promises";
import { ContainerState } from "../../../proto/cri/gen/api.ts";
import { podNameLabel } from "../../../proto/kubernetes/well-known-names.ts";
import { until } from "../../bed/poll-until.ts";
import { randomOf } from "../../random.ts";
import { skipWithoutPrograms } from "../../upstream/programs.ts";
import { livedTwice, recordLives } from "../container-lifetimes.ts";
import { script } from "../manifest.ts";
import { barePod, deployment } from "./api-objects.ts";
import { type ClusterNode, isUp, startClusterNode, uidsOf } from "./node.ts";
import { recordStatuses } from "./status-recording.ts";

setDefaultTimeout(120_000);

const skip = skipWithoutPrograms("a cluster whose parts fail");
/** A first run outside of `npm test` builds the programs. */
const BUILD_MS = 20 * 60_000;
const seed = Number(process.env["BERTH_SEED"] ?? Math.floor(Math.random() * 1e9));
const random = randomOf(seed);

/** Runs for some seconds the first time, and without an end the second. */
const endsOnce = script("test -e /notes/again && sleep 1000000; touch /notes/again; sleep 8");

describe.skipIf(skip !== undefined)("in a cluster whose parts fail", () => {
  let cluster: ClusterNode;
  beforeAll(async () => {
    console.log(`the moments of the kills follow from BERTH_SEED=${seed}`);
    cluster = await startClusterNode();
  }, BUILD_MS);
  afterAll(() => cluster?.end());

  const kubectl = (...args: readonly string[]) => cluster.kubectl(...args);

  test("a pod that was deleted by force while the agent was away ends when it is back, and one bound meanwhile never starts", async () => {
    await cluster.apply([barePod("old"), barePod("kept")]);
    await kubectl("wait", "--for=condition=Ready", "pod/old", "pod/kept", "--timeout=30s");
    const kept = (await cluster.pod("kept")).status?.containerStatuses?.[0]?.containerID;
    const recording = await recordLives(cluster.node.containerd);
    await cluster.node.agent.kill9();
    await cluster.apply([barePod("brief")]);
    await kubectl("wait", "--for=condition=PodScheduled", "pod/brief", "--timeout=10s");
    const force = ["--force", "--grace-period=0", "--timeout=10s"];
    await kubectl("delete", "pod", "old", ...force);
    await cluster.plane.kubectl(["delete", "pod", "brief", ...force], { version: "1.32" });
    expect((await cluster.running()).containers).toHaveLength(2);

    await cluster.node.startAgent();
    await until("one sandbox", 20_000, async () => (await cluster.node.sandboxes()).length === 1);
    const left = await cluster.pods();
    expect(left.map(({ status }) => status?.containerStatuses?.[0]?.containerID)).toEqual([kept]);
    expect(await cluster.running()).toEqual({ containers: uidsOf(left), sandboxes: uidsOf(left) });
    expect(await recording.lives()).toEqual([]);
    recording.stop();
    await kubectl("delete", "pod", "kept", "--timeout=20s");
    await cluster.empty();
  });

  test("an agent that is killed again and again during a hundred starts and deletions has each pod running once, and takes nothing back that it told", async () => {
    const recording = await recordLives(cluster.node.containerd);
    const statuses = await recordStatuses(cluster.plane);
    /** Kills until nothing is left to do, and returns how many pods were in the midst of it at each kill. */
    const killWhile = async (underWay: () => number, isDone: () => boolean, longestMs: number) => {
      const hit: number[] = [];
      while (!isDone() && hit.length < 20) {
        await pause(random() * longestMs);
        hit.push(underWay());
        await cluster.node.agent.kill9();
        await cluster.node.launchAgent();
      }
      return hit.filter((pods) => pods > 0);
    };
    const known = () => [...statuses.now().values()];
    const starting = () => known().filter((pod) => pod.spec.nodeName !== undefined && !isUp(pod)).length;
    const leaving = () => known().filter(({ metadata }) => metadata.deletionTimestamp !== undefined).length;
    await cluster.apply([deployment("wanted", 100)]);
    const areUp = () => known().filter(isUp).length === 100;
    expect((await killWhile(starting, areUp, 2000)).length).toBeGreaterThanOrEqual(5);
    await until("a hundred are up", 90_000, areUp);
    const pods = await cluster.pods("wanted");
    // Beside those that run there is no more than what is shown as a last state: starts that the death of the agent cut short.
    const dead = ContainerState.CONTAINER_EXITED;
    const alive = async () => (await cluster.node.containers()).filter(({ state }) => state !== dead);
    await until("a hundred on the node", 20_000, async () => (await alive()).length === 100);
    expect(await cluster.running()).toEqual({ containers: uidsOf(pods), sandboxes: uidsOf(pods) });

    await kubectl("delete", "deployment", "wanted");
    expect((await killWhile(leaving, () => known().length === 0, 1000)).length).toBeGreaterThanOrEqual(5);
    await cluster.empty(90_000);
    expect(livedTwice(await recording.lives())).toEqual([]);
    recording.stop();
    // Made, bound, running, leaving, ended: what is seen of each at least.
    expect(statuses.count()).toBeGreaterThan(100 * 5);
    expect(statuses.backwards()).toEqual([]);
    await statuses.stop();
  }, 300_000);

  // The last one: the controllers of the cluster take their time after it.
  test("what happened while the API server was away for a minute is told right after its return, with another certificate", async () => {
    await cluster.apply([
      barePod("ends", { command: script("sleep 8; exit 7") }, { restartPolicy: "Never" }),
      barePod(
        "restarts",
        { command: endsOnce, volumeMounts: [{ name: "notes", mountPath: "/notes" }] },
        { volumes: [{ name: "notes", emptyDir: {} }] },
      ),
      barePod("stays"),
    ]);
    await kubectl("wait", "--for=condition=Ready", "pod/ends", "pod/restarts", "pod/stays", "--timeout=30s");
    const stays = await cluster.pod("stays");
    const restarts = await cluster.pod("restarts");
    await cluster.plane.stopApiServer();
    const outage = pause(60_000);
    await until("the end of a container", 20_000, async () => {
      const ended = (await cluster.node.containers()).filter(({ state }) => state === ContainerState.CONTAINER_EXITED);
      return ended.some(({ labels }) => labels[podNameLabel] === "ends");
    });
    await outage;
    const returned = Date.now();
    await cluster.plane.restartApiServer({ newCertificate: true });
    const back = performance.now();
    const [ends] = await cluster.see("its end", "ends", ([pod]) => pod?.status?.phase === "Failed", 15_000);
    const { exitCode, reason, finishedAt } = ends?.status?.containerStatuses?.[0]?.state?.terminated ?? {};
    expect({ exitCode, reason }).toEqual({ exitCode: 7, reason: "Error" });
    expect(Date.parse(finishedAt!)).toBeLessThan(returned - 10_000);
    const [again] = await cluster.see("its restart", "restarts", (pods) => pods.every(isUp), 15_000);
    expect(performance.now() - back).toBeLessThan(5_000);
    const { restartCount, containerID } = again?.status?.containerStatuses?.[0] ?? {};
    expect(restartCount).toBe(1);
    expect(containerID).not.toBe(restarts.status?.containerStatuses?.[0]?.containerID);
    // The cluster may have taken the node for lost for a moment, and said so of its pods.
    const [same] = await cluster.see("it is up", "stays", (pods) => pods.every(isUp), 15_000);
    expect(same?.status?.containerStatuses).toEqual(stays.status!.containerStatuses!);
    await kubectl("wait", "--for=condition=Ready", "node/node-a", "--timeout=10s");

    await kubectl("delete", "pod", "ends", "restarts", "stays", "--timeout=20s");
    await cluster.empty();
  });
});
