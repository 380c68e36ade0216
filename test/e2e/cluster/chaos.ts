// Run by `npm run chaos`: what a runtime leaves behind that is killed in the midst of a start is no matter of the agent, and of no quick test.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { copyFile, mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { Container } from "../../../proto/kubernetes/gen/types.ts";
import { until } from "../../bed/poll-until.ts";
import { randomOf } from "../../random.ts";
import { skipWithoutPrograms } from "../../upstream/programs.ts";
import { attemptsMadeTwice } from "../create-attempts.ts";
import { type Holders, watchHolders } from "../open-file-watch.ts";
import { killAtRandom, ofMany, openRelayedWay, type RelayedWay } from "./chaos-kills.ts";
import { whatIsWrong, withoutTheirHook } from "./expected-outcomes.ts";
import { type ClusterNode, startClusterNode } from "./node.ts";
import { heldFolder, type Later, livesAtRandom, notesOf, type RandomLife } from "./random-workload.ts";

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
    cluster = await startClusterNode(openRelayedWay, ofMany);
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
      // Whoever cannot look has seen nobody come to its right end.
      wrong = await findWrong(lives).catch((error: unknown) => [`nobody can look: ${error}`]);
      return wrong.length === 0;
    }).catch(() => undefined);
    console.log(`all were at their ends ${Math.round(performance.now() - calmFrom)} ms after the last hit`);
    expect(wrong).toEqual([]);
    expect(holders.twice()).toEqual([]);
    expect(attemptsMadeTwice(await readFile(cluster.node.containerd.logFile, "utf8"))).toEqual([]);
    expect(ownEnds).toEqual([]);
    const notes = await Promise.all(lives.map(async ({ name }) => [name, await notesOf(folder, name)] as const));
    expect(withoutTheirHook(await cluster.pods(), new Map(notes), await cluster.node.log())).toEqual([]);

    for (const { name, isStatic } of lives) if (isStatic) await takeAway(name);
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

  /** Makes the pods in some goes, and does to them what is to be done later. */
  async function live(lives: readonly RandomLife[]): Promise<void> {
    const began = performance.now();
    const size = Math.ceil(lives.length / 5);
    for (let at = 0; at < lives.length; at += size) {
      const some = lives.slice(at, at + size);
      for (const { isStatic, pod } of some) if (isStatic) await cluster.node.put(pod);
      const ofApi = some.filter(({ isStatic }) => !isStatic).map(({ pod }) => pod);
      await insist("some pods to be made", () => cluster.apply(ofApi));
    }
    const due = lives.flatMap(({ name, later }) => (later === undefined ? [] : [{ name, ...later }]));
    for (const { name, atMs, what } of due.toSorted((a, b) => a.atMs - b.atMs)) {
      await pause(Math.max(0, began + atMs - performance.now()));
      await insist(`what is done to ${name}`, () => doTo(name, what));
    }
  }

  async function doTo(name: string, what: Later["what"]): Promise<unknown> {
    if (what === "take the manifest away") return await takeAway(name);
    if (what === "delete" || what === "delete by force") {
      const how = what === "delete" ? ["--wait=false"] : ["--force", "--grace-period=0"];
      return await cluster.kubectl("delete", "pod", name, "--ignore-not-found", ...how);
    }
    return "rewrite" in what ? await cluster.node.put(what.rewrite) : await lookInto(name, what.look);
  }

  const takeAway = (name: string) => rm(join(cluster.node.paths.manifests, `${name}.yaml`), { force: true });

  /** As `kubectl debug` does it, which lets nobody choose volumes. */
  async function lookInto(name: string, look: Container): Promise<void> {
    const { metadata, spec, ...pod } = await cluster.pod(name);
    const input = JSON.stringify({ ...pod, metadata, spec: { ...spec, ephemeralContainers: [look] } });
    const path = `/api/v1/namespaces/default/pods/${name}/ephemeralcontainers`;
    await cluster.plane.kubectl(["replace", `--raw=${path}`, "--filename=-"], { input });
  }

  async function findWrong(lives: readonly RandomLife[]): Promise<readonly string[]> {
    const shownName = ({ name, isStatic }: RandomLife) => (isStatic ? `${name}-${cluster.node.name}` : name);
    const shown = new Map((await cluster.pods()).map((pod) => [pod.metadata.name, pod]));
    const alive = holders.now();
    const found = lives.map(async (life) =>
      whatIsWrong(life, shown.get(shownName(life)), await notesOf(folder, life.name), alive),
    );
    return (await Promise.all(found)).filter((each) => each !== undefined);
  }
});
