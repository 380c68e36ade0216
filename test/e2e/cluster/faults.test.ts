import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { ContainerState } from "../../../proto/cri/gen/api.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { type AuditLog, createAuditLog } from "../../bench/cluster/audit-log.ts";
import { seededRandom } from "../../random.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { findOverlaps, recordLifetimes } from "../container-lifetimes.ts";
import { linesContaining } from "../node.ts";
import { barePod, deployment } from "./api-objects.ts";
import { checkOutage } from "./api-server-outage.ts";
import { MANY_PODS } from "./many-pods.ts";
import { areContainersReady, type ClusterNode, startClusterNode, uidsOf } from "./node.ts";
import { recordStatuses } from "./status-recording.ts";

setDefaultTimeout(600_000);

const skip = skipWithoutPrograms("a cluster whose parts fail");
const seed = Number(process.env["BERTH_SEED"] ?? Math.floor(Math.random() * 1e9));
const random = seededRandom(seed);

describe.skipIf(skip !== undefined)("in a cluster whose parts fail", () => {
  let cluster: ClusterNode;
  let auditFolder: string;
  let audit: AuditLog;
  beforeAll(async () => {
    console.log(`BERTH_SEED=${seed} reproduces the times of the kills`);
    auditFolder = await mkdtemp(join(tmpdir(), "berth-audit-"));
    audit = await createAuditLog(auditFolder);
    cluster = await startClusterNode(undefined, {}, { "kube-apiserver": audit.flags });
  }, BUILD_TIMEOUT_MS);
  afterAll(async () => {
    await cluster?.tearDown();
    await rm(auditFolder, { recursive: true });
  });

  const kubectl = (...args: readonly string[]) => cluster.kubectl(...args);

  test("a pod that was force-deleted while no agent ran ends with the next agent, and one that was bound and force-deleted never starts", async () => {
    await cluster.apply([barePod("old"), barePod("kept")]);
    await kubectl("wait", "--for=condition=Ready", "pod/old", "pod/kept", "--timeout=180s");
    const kept = (await cluster.pod("kept")).status?.containerStatuses?.[0]?.containerID;
    const lifetimes = await recordLifetimes(cluster.node.containerd);
    await cluster.node.agent.kill9();
    await cluster.apply([barePod("brief")]);
    await kubectl("wait", "--for=condition=PodScheduled", "pod/brief", "--timeout=180s");
    const force = ["--force", "--grace-period=0", "--timeout=180s"];
    await kubectl("delete", "pod", "old", ...force);
    await cluster.plane.kubectl(["delete", "pod", "brief", ...force], { version: "1.32" });
    expect((await cluster.runningUids()).containers).toHaveLength(2);

    await cluster.node.startAgent();
    await pollUntil("one sandbox", 20_000, async () => (await cluster.node.sandboxes()).length === 1);
    const left = await cluster.pods();
    expect(left.map(({ status }) => status?.containerStatuses?.[0]?.containerID)).toEqual([kept]);
    expect(await cluster.runningUids()).toEqual({ containers: uidsOf(left), sandboxes: uidsOf(left) });
    expect(await lifetimes.all()).toEqual([]);
    lifetimes.stop();
    await kubectl("delete", "pod", "kept", "--timeout=180s");
    await cluster.waitUntilEmpty();
  });

  test(`an agent that is killed repeatedly during ${MANY_PODS} starts and deletions runs each pod once, and no status regresses`, async () => {
    const lifetimes = await recordLifetimes(cluster.node.containerd);
    const statuses = await recordStatuses(cluster.plane);
    const countActions = async () => linesContaining(await cluster.node.log(), " ms=").length;
    /**
     * Kills an agent for every fourth pod, at most `longestMs` after its first action, until the work is done. Returns the
     * number of pods in progress at each kill, if any.
     */
    const killWhile = async (underWay: () => number, isDone: () => boolean, longestMs: number) => {
      const hit: number[] = [];
      while (!isDone() && hit.length < MANY_PODS / 4) {
        const before = await countActions();
        await pollUntil("an action of the agent", 90_000, async () => isDone() || (await countActions()) > before);
        await pause(random() * longestMs);
        hit.push(underWay());
        await cluster.node.agent.kill9();
        await cluster.node.startAgent();
      }
      return hit.filter((pods) => pods > 0);
    };
    const known = () => [...statuses.now().values()];
    const starting = () => known().filter((pod) => pod.spec.nodeName !== undefined && !areContainersReady(pod)).length;
    const terminating = () => known().filter(({ metadata }) => metadata.deletionTimestamp !== undefined).length;
    await cluster.apply([deployment("wanted", MANY_PODS)]);
    const areUp = () => known().filter(areContainersReady).length === MANY_PODS;
    expect((await killWhile(starting, areUp, 20 * MANY_PODS)).length).toBeGreaterThanOrEqual(5);
    await pollUntil("all to be up", 90_000, areUp);
    const pods = await cluster.pods("wanted");
    // Other containers are exited ones of interrupted starts, which the status shows as last states.
    const dead = ContainerState.CONTAINER_EXITED;
    const alive = async () => (await cluster.node.containers()).filter(({ state }) => state !== dead);
    await pollUntil("all on the node", 20_000, async () => (await alive()).length === MANY_PODS);
    expect(await cluster.runningUids()).toEqual({ containers: uidsOf(pods), sandboxes: uidsOf(pods) });

    await kubectl("delete", "deployment", "wanted");
    expect((await killWhile(terminating, () => known().length === 0, 5 * MANY_PODS)).length).toBeGreaterThanOrEqual(5);
    await cluster.waitUntilEmpty(90_000);
    expect(findOverlaps(await lifetimes.all())).toEqual([]);
    lifetimes.stop();
    // At least five statuses of each pod: created, bound, running, terminating, ended.
    expect(statuses.count()).toBeGreaterThan(MANY_PODS * 5);
    expect(statuses.regressions()).toEqual([]);
    await statuses.stop();
  }, 900_000);

  // The last test, because the controllers need time to recover after it.
  test("changes during an outage of the API server are reported right after its return, with another certificate", () =>
    checkOutage(cluster, audit, 15_000));
});
