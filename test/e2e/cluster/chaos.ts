// Run by `npm run chaos`: what a runtime leaves behind that is killed in the midst of a start is no matter of the agent, and of no quick test.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { until } from "../../bed/until.ts";
import { randomOf } from "../../random.ts";
import { skipWithoutPrograms } from "../../upstream/programs.ts";
import { livesAtRandom, notesOf, processesOf, whatIsWrong } from "./lives-at-random.ts";
import { type ClusterNode, startClusterNode } from "./node.ts";

const skip = skipWithoutPrograms("random lives while everything around them is killed");
/** A first run outside of `npm test` builds the programs. */
const BUILD_MS = 20 * 60_000;
const seed = Number(process.env["BERTH_SEED"] ?? Math.floor(Math.random() * 1e9));
const count = Number(process.env["BERTH_CHAOS"] ?? 200);
const random = randomOf(seed);

setDefaultTimeout(120_000 + count * 3_000);

describe.skipIf(skip !== undefined)(`${count} random lives`, () => {
  let cluster: ClusterNode;
  let folder: string;
  beforeAll(async () => {
    console.log(`lives and kills follow from BERTH_SEED=${seed}`);
    folder = await mkdtemp(join(tmpdir(), "berth-chaos-"));
    cluster = await startClusterNode();
  }, BUILD_MS);
  afterAll(async () => {
    await cluster?.end();
    await rm(folder, { recursive: true, force: true });
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
    const calm = new AbortController();
    const twice = new Set<string>();
    const watching = watchProcesses(calm.signal, twice);
    const forMs = 15_000 + count * 150;
    const living = live(lives);
    const kills = await killAtRandom(forMs);
    console.log(`killed: ${kills.join(", ")}`);
    await living;

    let wrong: readonly string[] = [];
    await until("all to come to their ends", 60_000 + count * 1_000, async () => {
      wrong = await findWrong(lives);
      return wrong.length === 0;
    }).catch(() => undefined);
    calm.abort();
    await watching;
    expect(wrong).toEqual([]);
    expect([...twice]).toEqual([]);
    for (const victim of ["agent", "runtime", "API server"]) expect(kills).toContain(victim);

    await cluster.kubectl("delete", "pods", "--all", "--wait=false");
    await cluster.empty(60_000 + count * 500);
    expect([...(await processesOf())]).toEqual([]);
  });

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

  /** Returns whom it has killed, in order. */
  async function killAtRandom(forMs: number): Promise<readonly string[]> {
    const end = performance.now() + forMs;
    const kills: string[] = [];
    const victims = {
      agent: async () => {
        await cluster.node.agent.kill9();
        await pause(random() * 500);
        await cluster.node.launchAgent();
      },
      runtime: async () => {
        await cluster.node.containerd.kill9();
        await pause(random() * 2_000);
        await cluster.node.containerd.restart();
      },
      "API server": async () => {
        await cluster.plane.stopApiServer();
        await pause(random() * 3_000);
        await cluster.plane.startApiServer();
      },
    };
    const names = Object.keys(victims) as (keyof typeof victims)[];
    while (performance.now() < end || kills.length < names.length) {
      // Each in turn, in an order that changes.
      for (const victim of names.toSorted(() => random() - 0.5)) {
        await pause(random() * 3_000);
        await victims[victim]();
        kills.push(victim);
      }
    }
    return kills;
  }

  async function findWrong(lives: ReturnType<typeof livesAtRandom>): Promise<readonly string[]> {
    const shown = new Map((await cluster.pods()).map((pod) => [pod.metadata.name, pod]));
    const processes = await processesOf();
    const found = lives.map(async (life) =>
      whatIsWrong(life, shown.get(life.name), await notesOf(folder, life.name), processes),
    );
    return (await Promise.all(found)).filter((each) => each !== undefined);
  }
});

/** Notes each container that is two at once, as often as the list of processes can be read. */
async function watchProcesses(signal: AbortSignal, twice: Set<string>): Promise<void> {
  while (!signal.aborted) {
    for (const [of, processes] of await processesOf()) if (processes > 1) twice.add(`${processes} × ${of}`);
    await pause(50);
  }
}
