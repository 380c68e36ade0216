import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { ContainerState } from "../../../proto/cri/gen/api.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { podNameLabel } from "../../../proto/kubernetes/well-known-names.ts";
import { until } from "../../bed/poll-until.ts";
import { randomOf } from "../../random.ts";
import { skipWithoutPrograms } from "../../upstream/programs.ts";
import { livedTwice, type Recording, recordLives } from "../container-lifetimes.ts";
import { script } from "../manifest.ts";
import { barePod, type Manifest } from "./api-objects.ts";
import { type BadWay, openBadWay } from "./faulty-network.ts";
import { type ClusterNode, isUp, startClusterNode, uidsOf } from "./node.ts";
import { recordStatuses, type StatusRecording } from "./status-recording.ts";

setDefaultTimeout(120_000);

const skip = skipWithoutPrograms("a cluster whose API server is reached badly");
/** A first run outside of `npm test` builds the programs. */
const BUILD_MS = 20 * 60_000;
const seed = Number(process.env["BERTH_SEED"] ?? Math.floor(Math.random() * 1e9));
const random = randomOf(seed);

/** Bound by its maker: the scheduler is no part of these tests. */
const bound = (name: string, command?: readonly string[]): Manifest =>
  command === undefined
    ? barePod(name, {}, { nodeName: "node-a" })
    : barePod(name, { command }, { nodeName: "node-a", restartPolicy: "Never" });

/** Runs until there is a file in that folder of its node, and fails then. */
const endsWhenTold = (folder: string): Manifest =>
  barePod(
    "ends",
    {
      command: script("until test -e /notes/end; do sleep 0.1; done; exit 7"),
      volumeMounts: [{ name: "notes", mountPath: "/notes" }],
    },
    { nodeName: "node-a", restartPolicy: "Never", volumes: [{ name: "notes", hostPath: { path: folder } }] },
  );

/** A second, less what an answer may take to arrive. */
const SHORTEST_GAP_MS = 950;

const endOf = (pod: Pod | undefined) => {
  const { exitCode, reason } = pod?.status?.containerStatuses?.[0]?.state?.terminated ?? {};
  return `${pod?.status?.phase} ${exitCode} ${reason}`;
};

describe.skipIf(skip !== undefined)("an API server that is reached badly", () => {
  let cluster: ClusterNode & { readonly way: BadWay };
  let lives: Recording;
  let statuses: StatusRecording;
  beforeAll(async () => {
    console.log(`what is random follows from BERTH_SEED=${seed}`);
    cluster = await startClusterNode(openBadWay);
    lives = await recordLives(cluster.node.containerd);
    statuses = await recordStatuses(cluster.plane);
  }, BUILD_MS);
  afterAll(async () => {
    lives?.stop();
    await statuses?.stop();
    await cluster?.end();
  });

  const kubectl = (...args: readonly string[]) => cluster.kubectl(...args);
  const shown = (name: string) => statuses.now().get(name);
  const see = async (what: string, condition: () => boolean, timeoutMs = 30_000) => {
    try {
      await until(what, timeoutMs, condition);
    } catch (cause) {
      const all = [...statuses.now().values()].map((pod) => `${pod.metadata.name}: ${JSON.stringify(pod.status)}`);
      throw new Error(
        `${what} was not seen; last seen:\n${all.join("\n")}\n${(await cluster.node.log()).slice(-4000)}`,
        {
          cause,
        },
      );
    }
  };
  const seeUp = (...names: readonly string[]) => see(`${names} up`, () => names.every((name) => isUp(shown(name))));
  const remove = async (...names: readonly string[]) => {
    await kubectl("delete", "pod", ...names, "--ignore-not-found", "--timeout=60s");
    await cluster.empty();
  };
  const exited = async (name: string) => {
    const all = await cluster.node.containers();
    return all.some(({ labels, state }) => labels[podNameLabel] === name && state === ContainerState.CONTAINER_EXITED);
  };

  /** What happens while `begin` has made things bad is told and done soon after its end. */
  async function through(begin: () => () => Promise<void> | void, forMs: number, withinMs: number): Promise<void> {
    const folder = join(cluster.node.folder, "notes");
    await mkdir(folder, { recursive: true });
    await rm(join(folder, "end"), { force: true });
    await cluster.apply([endsWhenTold(folder), bound("old")]);
    await seeUp("ends", "old");
    const end = begin();
    await cluster.apply([bound("fresh"), bound("brief")]);
    await kubectl("delete", "pod", "old", "--wait=false");
    await kubectl("delete", "pod", "brief", "--force", "--grace-period=0", "--timeout=10s");
    await writeFile(join(folder, "end"), "");
    await until("the end of a container", 20_000, () => exited("ends"));
    await pause(forMs);
    // Nobody has heard of anything.
    expect([...statuses.now()].map(([name, { status }]) => `${name} ${status?.phase}`).toSorted()).toEqual([
      "ends Running",
      "fresh Pending",
      "old Running",
    ]);
    await end();
    const ended = performance.now();
    const isDone = () =>
      endOf(shown("ends")) === "Failed 7 Error" && isUp(shown("fresh")) && shown("old") === undefined;
    await see("what happened meanwhile", isDone);
    expect(performance.now() - ended).toBeLessThan(withinMs);
    expect((await lives.lives()).filter(({ owner }) => owner.includes(shown("fresh")!.metadata.uid!))).toHaveLength(2);
    expect(await cluster.running()).toMatchObject({ containers: uidsOf([shown("fresh")!]) });
    await remove("ends", "fresh");
  }

  test("that answers 429 is left alone as long as it asks, and loses nothing", async () => {
    const asked = () => cluster.way.gateway.received;
    let [from, to] = [0, 0];
    await through(
      () => {
        from = asked().length;
        const end = cluster.way.gateway.answer(429, undefined, { "retry-after": "1" });
        cluster.way.relay.reset();
        return () => {
          to = asked().length;
          end();
        };
      },
      3_000,
      10_000,
    );
    // Each of these was answered so; where a watch begins differs from one attempt to the next.
    const answered = asked().slice(from, to);
    const whatOf = (line: string) =>
      line.replaceAll(/[?&](timeoutSeconds|resourceVersion|sendInitialEvents|resourceVersionMatch)=[^&]*/g, "");
    const soon = [...Map.groupBy(answered, ({ line }) => whatOf(line))].flatMap(([what, all]) =>
      all.slice(1).flatMap(({ at }, before) => {
        const gapMs = at - all[before]!.at;
        return gapMs < SHORTEST_GAP_MS ? [`${what} again after ${Math.round(gapMs)} ms`] : [];
      }),
    );
    expect(soon).toEqual([]);
    expect(answered.length).toBeGreaterThan(5);
  });

  test("that answers 500 loses nothing", async () => {
    await through(
      () => {
        const end = cluster.way.gateway.answer(500);
        cluster.way.relay.reset();
        return end;
      },
      3_000,
      10_000,
    );
  });

  test("that answers nothing loses nothing", async () => {
    await through(
      () => {
        const end = cluster.way.gateway.hold();
        cluster.way.relay.reset();
        return end;
      },
      5_000,
      10_000,
    );
  });

  test("that has forgotten where a watch goes on (410) is listed anew", async () => {
    const { gateway, relay } = cluster.way;
    const watches = () => gateway.requests.filter((line) => /\/pods\?.*watch=true/.test(line));
    let before = 0;
    await through(
      () => {
        const end = gateway.answer(503);
        relay.reset();
        return async () => {
          await cluster.plane.compactEtcd();
          await cluster.plane.restartApiServer();
          before = watches().length;
          end();
        };
      },
      1_000,
      15_000,
    );
    const begun = watches().slice(before);
    expect(begun.length).toBeGreaterThan(1);
    expect(begun[0]).toMatch(/resourceVersion=\d+/);
    expect(begun.at(-1)).toContain("sendInitialEvents=true");
  });

  test("that is behind a connection which is open and dead is found again within half a minute", async () => {
    expect(cluster.way.relay.forget()).toBe(1);
    const began = performance.now();
    await cluster.apply([bound("fresh")]);
    await see("it runs", () => isUp(shown("fresh")), 45_000);
    expect(performance.now() - began).toBeLessThan(35_000);
    await kubectl("wait", "--for=condition=Ready", "node/node-a", "--timeout=5s");
    await remove("fresh");
  });

  test("whose watch stays open and silent, while all else is answered, is heard again within 75 seconds", async () => {
    // A connection that was forgotten may have left another one at the gateway.
    expect(cluster.way.gateway.mute(({ path }) => /\/pods\?.*watch=true/.test(path))).toBeGreaterThan(0);
    const began = performance.now();
    await cluster.apply([bound("unheard")]);
    await see("it runs", () => isUp(shown("unheard")), 95_000);
    expect(performance.now() - began).toBeLessThan(85_000);
    await remove("unheard");
  });

  test("that is 200 ms away, and cannot be reached now and then, has its pods run", async () => {
    const names = Array.from({ length: 10 }, (_, at) => `far-${at}`);
    cluster.way.relay.delay(200);
    await cluster.apply(names.map((name) => bound(name)));
    for (let stall = 0; stall < 3; stall += 1) {
      cluster.way.relay.stall();
      await pause(1_500);
      cluster.way.relay.resume();
      await pause(500);
    }
    await seeUp(...names);
    expect((await cluster.running()).containers).toEqual(uidsOf([...statuses.now().values()]));
    await remove(...names);
    cluster.way.relay.delay(0);
  });

  test("whose connections break at any byte is told everything once, and does what it is told once", async () => {
    const names = Array.from({ length: 30 }, (_, at) => `cut-${at}`);
    let isOver = false;
    const weather = async () => {
      while (!isOver) {
        // From the first bytes of TLS to the middle of a list; a connection that stood would not be cut any more.
        cluster.way.relay.resetAfter(Math.floor(2 ** (random() * 16)));
        cluster.way.relay.reset();
        await pause(300 + random() * 700);
      }
      cluster.way.relay.resetAfter(undefined);
    };
    const raging = weather();
    await cluster.apply(names.map((name, at) => bound(name, at < 20 ? undefined : script(`sleep 1; exit ${at}`))));
    await pause(6_000);
    await kubectl("delete", "pod", ...names.slice(0, 10), "--wait=false");
    await pause(6_000);
    isOver = true;
    await raging;
    const [gone, kept, ended] = [names.slice(0, 10), names.slice(10, 20), names.slice(20)];
    await see("ten up, ten ended, ten gone", () => {
      const areUp = kept.every((name) => isUp(shown(name)));
      const haveEnded = ended.every((name) => shown(name)?.status?.phase === "Failed");
      return areUp && haveEnded && gone.every((name) => shown(name) === undefined);
    });
    for (const name of ended) expect(`${name}: ${endOf(shown(name))}`).toBe(`${name}: Failed ${name.slice(4)} Error`);
    // The runtime's event of an end, by which it is told, is some milliseconds ahead of what the runtime shows.
    const left = uidsOf(kept.map((name) => shown(name)!));
    await until("ten containers", 5_000, async () => (await cluster.running()).containers.length === left.length);
    expect((await cluster.running()).containers).toEqual(left);
    await remove(...names);
  });

  test("whatever outages come while a hundred containers exit, a hundred final statuses are right", async () => {
    const { gateway, relay } = cluster.way;
    const wanted = new Map(Array.from({ length: 100 }, (_, at) => [`exit-${at}`, Math.floor(random() * 40)] as const));
    const outages: readonly (() => () => void)[] = [
      () => gateway.answer(429, undefined, { "retry-after": "1" }),
      () => gateway.answer(500),
      () => gateway.answer(403),
      () => gateway.hold(),
      () => {
        relay.stall();
        return relay.resume;
      },
      () => {
        relay.resetAfter(Math.floor(2 ** (random() * 14)));
        return () => relay.resetAfter(undefined);
      },
    ];
    await cluster.apply(
      [...wanted].map(([name, code]) => bound(name, script(`sleep ${Math.ceil(random() * 12)}; exit ${code}`))),
    );
    const began = performance.now();
    while (performance.now() - began < 20_000) {
      const end = outages[Math.floor(random() * outages.length)]!();
      if (random() < 0.7) relay.reset();
      await pause(500 + random() * 3_000);
      end();
      await pause(random() * 1_000);
    }
    await see(
      "a hundred ends",
      () => [...wanted.keys()].every((name) => /^(Failed|Succeeded)/.test(endOf(shown(name)))),
      60_000,
    );
    const right = [...wanted].map(
      ([name, code]) => `${name}: ${code === 0 ? "Succeeded 0 Completed" : `Failed ${code} Error`}`,
    );
    expect([...wanted.keys()].map((name) => `${name}: ${endOf(shown(name))}`)).toEqual(right);
    await kubectl("delete", "pods", "--all", "--timeout=60s");
    await cluster.empty();
  });

  test("has seen nothing live twice, and no status taken back, in all of this", async () => {
    expect(livedTwice(await lives.lives())).toEqual([]);
    expect(statuses.count()).toBeGreaterThan(150 * 4);
    expect(statuses.backwards()).toEqual([]);
  });
});
