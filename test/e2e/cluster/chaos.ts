// Run by `npm run chaos`: what a runtime leaves behind that is killed in the midst of a start is no matter of the agent, and of no quick test.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { copyFile, mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { until } from "../../bed/until.ts";
import { randomOf } from "../../random.ts";
import { skipWithoutPrograms } from "../../upstream/programs.ts";
import { attemptsMadeTwice } from "../attempts.ts";
import { type Holders, watchHolders } from "../holders.ts";
import { killAtRandom, openRelayedWay, type RelayedWay } from "./kills.ts";
import { heldFolder, livesAtRandom, notesOf, whatIsWrong } from "./lives-at-random.ts";
import { type ClusterNode, startClusterNode } from "./node.ts";

const skip = skipWithoutPrograms("random lives while everything around them is killed");
/** A first run outside of `npm test` builds the programs. */
const BUILD_MS = 20 * 60_000;
const seed = Number(process.env["BERTH_SEED"] ?? Math.floor(Math.random() * 1e9));
const count = Number(process.env["BERTH_CHAOS"] ?? 200);
const random = randomOf(seed);

/** Whose starts were cut short again and again waits for as long as a crash loop may, five minutes, before the last one. */
const CALM_MS = 330_000 + count * 1_000;

setDefaultTimeout(CALM_MS + 120_000 + count * 2_000);

describe.skipIf(skip !== undefined)(`${count} random lives`, () => {
  let cluster: ClusterNode & { readonly way: RelayedWay };
  let folder: string;
  let holders: Holders;
  let isRight = false;
  beforeAll(async () => {
    console.log(`lives and kills follow from BERTH_SEED=${seed}`);
    folder = await mkdtemp(join(tmpdir(), "berth-chaos-"));
    await mkdir(heldFolder(folder));
    holders = watchHolders(heldFolder(folder));
    cluster = await startClusterNode(openRelayedWay);
  }, BUILD_MS);
  afterAll(async () => {
    holders.stop();
    if (!isRight) await keepLogs();
    await cluster?.end();
    if (isRight) await rm(folder, { recursive: true, force: true });
  });

  /** Done again until it works: the API server may be away. */
  const insist = (what: string, act: () => Promise<unknown>) =>
    until(what, 60_000, () =>
      act().then(
        () => true,
        () => false,
      ),
    );

  test("come to their right ends, each container once at a time, while agent, runtime and API server are killed at random", async () => {
    const lives = livesAtRandom(count, random, folder);
    const forMs = 15_000 + count * 150;
    const living = live(lives);
    const { hits, ownEnds } = await killAtRandom(cluster, random, forMs);
    console.log("hit:", hits);
    await living;

    const calmFrom = performance.now();
    let wrong: readonly string[] = [];
    await until("all to come to their ends", CALM_MS, async () => {
      wrong = await findWrong(lives);
      return wrong.length === 0;
    }).catch(() => undefined);
    console.log(`all were at their ends ${Math.round(performance.now() - calmFrom)} ms after the last hit`);
    expect(wrong).toEqual([]);
    expect(holders.twice()).toEqual([]);
    expect(attemptsMadeTwice(await readFile(cluster.node.containerd.logFile, "utf8"))).toEqual([]);
    expect(ownEnds).toEqual([]);

    await cluster.kubectl("delete", "pods", "--all", "--wait=false");
    await cluster.empty(60_000 + count * 500);
    expect(holders.now()).toEqual(new Map());
    isRight = true;
  });

  /** What tells why something went wrong is gone with the cluster. */
  async function keepLogs(): Promise<void> {
    const { paths, containerd } = cluster.node;
    for (const file of [paths.agentLog, containerd.logFile]) await copyFile(file, join(folder, basename(file)));
    console.log(`what the lives have noted, and the logs of agent and runtime, are in ${folder}`);
  }

  /** Makes the pods in some goes, and deletes those that are to be deleted. */
  async function live(lives: ReturnType<typeof livesAtRandom>): Promise<void> {
    const began = performance.now();
    const size = Math.ceil(lives.length / 5);
    for (let at = 0; at < lives.length; at += size) {
      const some = lives.slice(at, at + size).map(({ pod }) => pod);
      await insist("some pods to be made", () => cluster.apply(some));
    }
    const deleted = lives.filter(({ deletedAtMs }) => deletedAtMs !== undefined);
    for (const { name, kind, deletedAtMs = 0 } of deleted.toSorted((a, b) => a.deletedAtMs! - b.deletedAtMs!)) {
      await pause(Math.max(0, began + deletedAtMs - performance.now()));
      const how = kind === "forced" ? ["--force", "--grace-period=0"] : ["--wait=false"];
      await insist("a pod to be deleted", () => cluster.kubectl("delete", "pod", name, "--ignore-not-found", ...how));
    }
  }

  async function findWrong(lives: ReturnType<typeof livesAtRandom>): Promise<readonly string[]> {
    const shown = new Map((await cluster.pods()).map((pod) => [pod.metadata.name, pod]));
    const alive = holders.now();
    const found = lives.map(async (life) =>
      whatIsWrong(life, shown.get(life.name), await notesOf(folder, life.name), alive),
    );
    return (await Promise.all(found)).filter((each) => each !== undefined);
  }
});
