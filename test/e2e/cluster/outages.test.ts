import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { ContainerState } from "../../../proto/cri/gen/api.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { podNameLabel } from "../../../proto/kubernetes/well-known-names.ts";
import { pollUntil, startStopwatch } from "../../bed/poll-until.ts";
import { seededRandom } from "../../random.ts";
import { firstSuccessDelayMs, type ProxiedRequest } from "../../upstream/http2-gateway.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { findOverlaps, type LifetimeRecording, recordLifetimes } from "../container-lifetimes.ts";
import { script } from "../manifest.ts";
import { barePod, type Manifest } from "./api-objects.ts";
import { type FaultyNetwork, openFaultyNetwork } from "./faulty-network.ts";
import { MANY_PODS } from "./many-pods.ts";
import { areContainersReady, type ClusterNode, startClusterNode, uidsOf } from "./node.ts";
import { recordStatuses, type StatusRecording } from "./status-recording.ts";

setDefaultTimeout(600_000);

const skip = skipWithoutPrograms("a cluster whose API server is reached badly");
const seed = Number(process.env["BERTH_SEED"] ?? Math.floor(Math.random() * 1e9));
const random = seededRandom(seed);

/** A pod that is created with `nodeName`: these tests run without the scheduler. */
const bound = (name: string, command?: readonly string[]): Manifest =>
  command === undefined
    ? barePod(name, {}, { nodeName: "node-a" })
    : barePod(name, { command }, { nodeName: "node-a", restartPolicy: "Never" });

/** A pod that runs until the test creates a file in `folder`, and then exits with 7. */
const exitsOnFile = (folder: string): Manifest =>
  barePod(
    "ends",
    {
      command: script("until test -e /notes/end; do sleep 0.1; done; exit 7"),
      volumeMounts: [{ name: "notes", mountPath: "/notes" }],
    },
    { nodeName: "node-a", restartPolicy: "Never", volumes: [{ name: "notes", hostPath: { path: folder } }] },
  );

/**
 * After an outage the agent's first request arrives within this time (docs/node.md), and succeeds unless the API server has just been started:
 * that refuses some requests at first.
 */
const RECONNECT_MS = 2_000;
/**
 * The API shows within this time what has ended, and that the agent knows the new pod; and, less what a busy machine adds to the
 * runtime's work, that the new pod is up and the deleted one gone.
 */
const RECOVERY_MS = 5_000;
/** The random outages last while the containers exit. */
const OUTAGES_MS = 200 * MANY_PODS;
/** A second, less the latency of a response. */
const MIN_GAP_MS = 950;

const outcomeOf = (pod: Pod | undefined) => {
  const { exitCode, reason } = pod?.status?.containerStatuses?.[0]?.state?.terminated ?? {};
  return `${pod?.status?.phase} ${exitCode} ${reason}`;
};

describe.skipIf(skip !== undefined)("an API server behind a faulty network", () => {
  let cluster: ClusterNode & { readonly network: FaultyNetwork };
  let lifetimes: LifetimeRecording;
  let statuses: StatusRecording;
  beforeAll(async () => {
    console.log(`BERTH_SEED=${seed} reproduces the random choices`);
    cluster = await startClusterNode(openFaultyNetwork);
    lifetimes = await recordLifetimes(cluster.node.containerd);
    statuses = await recordStatuses(cluster.plane);
  }, BUILD_TIMEOUT_MS);
  afterAll(async () => {
    lifetimes?.stop();
    await statuses?.stop();
    await cluster?.tearDown();
  });

  const kubectl = (...args: readonly string[]) => cluster.kubectl(...args);
  const shown = (name: string) => statuses.now().get(name);
  const waitFor = async (what: string, condition: () => boolean, timeoutMs = 30_000) => {
    try {
      await pollUntil(what, timeoutMs, condition);
    } catch (cause) {
      const all = [...statuses.now().values()].map((pod) => `${pod.metadata.name}: ${JSON.stringify(pod.status)}`);
      throw new Error(
        `timed out waiting for: ${what}; last seen:\n${all.join("\n")}\n${(await cluster.node.log()).slice(-4000)}`,
        {
          cause,
        },
      );
    }
  };
  const waitUntilReady = (...names: readonly string[]) =>
    waitFor(`${names} up`, () => names.every((name) => areContainersReady(shown(name))));
  const remove = async (...names: readonly string[]) => {
    await kubectl("delete", "pod", ...names, "--ignore-not-found", "--timeout=180s");
    await cluster.waitUntilEmpty();
  };
  const exited = async (name: string) => {
    const all = await cluster.node.containers();
    return all.some(({ labels, state }) => labels[podNameLabel] === name && state === ContainerState.CONTAINER_EXITED);
  };

  /**
   * Changes pods during an outage: one exits, one is created, one is deleted, one is created and force-deleted. Checks
   * that no change is visible during the outage and all are handled soon after it. `begin` starts the outage and returns
   * its end.
   */
  async function duringOutage(
    begin: () => () => Promise<void> | void,
    forMs: number,
    { restartsApiServer = false } = {},
  ): Promise<void> {
    const folder = join(cluster.node.folder, "notes");
    await mkdir(folder, { recursive: true });
    await rm(join(folder, "end"), { force: true });
    await cluster.apply([exitsOnFile(folder), bound("old")]);
    await waitUntilReady("ends", "old");
    const end = begin();
    await cluster.apply([bound("fresh"), bound("brief")]);
    await kubectl("delete", "pod", "old", "--wait=false");
    await kubectl("delete", "pod", "brief", "--force", "--grace-period=0", "--timeout=180s");
    await writeFile(join(folder, "end"), "");
    await pollUntil("the end of a container", 20_000, () => exited("ends"));
    await pause(forMs);
    // The API shows no change.
    expect([...statuses.now()].map(([name, { status }]) => `${name} ${status?.phase}`).toSorted()).toEqual([
      "ends Running",
      "fresh Pending",
      "old Running",
    ]);
    await end();
    const [ended, countedMs] = [performance.now(), startStopwatch()];
    const { received } = cluster.network.gateway;
    const isReported = () =>
      outcomeOf(shown("ends")) === "Failed 7 Error" && shown("fresh")?.status?.startTime !== undefined;
    await waitFor("the changes during the outage", isReported);
    const tookMs = performance.now() - ended;
    const reconnectedMs = firstSuccessDelayMs(received, ended);
    console.log(`the first request that succeeded came ${Math.round(reconnectedMs)} ms after the outage`);
    const first = received.find(({ at }) => at >= ended);
    expect((first?.at ?? Number.POSITIVE_INFINITY) - ended).toBeLessThan(RECONNECT_MS);
    expect(reconnectedMs).toBeLessThan(restartsApiServer ? RECOVERY_MS : RECONNECT_MS);
    expect(tookMs).toBeLessThan(RECOVERY_MS);
    const isDone = () => areContainersReady(shown("fresh")) && shown("old") === undefined;
    await waitFor("the new pod up, and the deleted one gone", isDone);
    expect(countedMs()).toBeLessThan(RECOVERY_MS);
    expect((await lifetimes.all()).filter(({ owner }) => owner.includes(shown("fresh")!.metadata.uid!))).toHaveLength(
      2,
    );
    expect(await cluster.runningUids()).toMatchObject({ containers: uidsOf([shown("fresh")!]) });
    await remove("ends", "fresh");
  }

  test("that answers 429 gets no retry before its Retry-After, and no change is lost", async () => {
    const receivedRequests = () => cluster.network.gateway.received;
    let [from, to] = [0, 0];
    await duringOutage(() => {
      from = receivedRequests().length;
      const end = cluster.network.gateway.respondWith(429, undefined, { "retry-after": "1" });
      cluster.network.relay.reset();
      return () => {
        to = receivedRequests().length;
        end();
      };
    }, 3_000);
    // The requests that were answered with 429. The start of a watch differs between its attempts, so it is removed.
    const answered = receivedRequests().slice(from, to);
    const requestKey = (line: string) =>
      line.replaceAll(/[?&](timeoutSeconds|resourceVersion|sendInitialEvents|resourceVersionMatch)=[^&]*/g, "");
    const earlyRetries = [...Map.groupBy(answered, ({ line }) => requestKey(line))].flatMap(([what, all]) =>
      all.slice(1).flatMap(({ at }, before) => {
        const gapMs = at - all[before]!.at;
        return gapMs < MIN_GAP_MS ? [`${what} again after ${Math.round(gapMs)} ms`] : [];
      }),
    );
    expect(earlyRetries).toEqual([]);
    expect(answered.length).toBeGreaterThan(5);
  });

  test("that answers 500 for a while causes no lost change", async () => {
    await duringOutage(() => {
      const end = cluster.network.gateway.respondWith(500);
      cluster.network.relay.reset();
      return end;
    }, 3_000);
  });

  test("that does not answer for a while causes no lost change", async () => {
    await duringOutage(() => {
      const end = cluster.network.gateway.hold();
      cluster.network.relay.reset();
      return end;
    }, 5_000);
  });

  test("that answers a resumed watch with 410 is listed again", async () => {
    const { gateway, relay } = cluster.network;
    const watches = () => gateway.requests.filter((line) => /\/pods\?.*watch=true/.test(line));
    let before = 0;
    await duringOutage(
      () => {
        const end = gateway.respondWith(503);
        relay.reset();
        return async () => {
          await cluster.plane.compactEtcd();
          await cluster.plane.restartApiServer();
          before = watches().length;
          end();
        };
      },
      1_000,
      { restartsApiServer: true },
    );
    const started = watches().slice(before);
    expect(started.length).toBeGreaterThan(1);
    expect(started[0]).toMatch(/resourceVersion=\d+/);
    expect(started.at(-1)).toContain("sendInitialEvents=true");
  });

  test("that ends a watch with 410, and its stream a moment later, is asked for a new list at once", async () => {
    const { gateway, relay } = cluster.network;
    const status = { kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure", reason: "Expired", code: 410 };
    const isWatchOfPods = ({ path }: ProxiedRequest) => /\/pods\?.*watch=true/.test(path);
    relay.delay(30);
    expect(gateway.endWith(`${JSON.stringify({ type: "ERROR", object: status })}\n`, isWatchOfPods)).toBe(1);
    await cluster.apply([bound("after-410")]);
    const began = performance.now();
    await waitFor("it is known", () => shown("after-410")?.status?.startTime !== undefined);
    expect(performance.now() - began).toBeLessThan(2_000);
    relay.delay(0);
    await waitUntilReady("after-410");
    await remove("after-410");
  });

  test("with a latency of 200 ms and repeated stalls gets its pods running", async () => {
    const names = Array.from({ length: 10 }, (_, at) => `far-${at}`);
    cluster.network.relay.delay(200);
    await cluster.apply(names.map((name) => bound(name)));
    for (let stall = 0; stall < 3; stall += 1) {
      cluster.network.relay.stall();
      await pause(1_500);
      cluster.network.relay.resume();
      await pause(500);
    }
    await waitUntilReady(...names);
    expect((await cluster.runningUids()).containers).toEqual(uidsOf([...statuses.now().values()]));
    await remove(...names);
    cluster.network.relay.delay(0);
  });

  test("whose connections break at random bytes gets every status, and every pod is handled once", async () => {
    const names = Array.from({ length: 30 }, (_, at) => `cut-${at}`);
    let isOver = false;
    const breakConnections = async () => {
      while (!isOver) {
        // Cuts new connections anywhere from the TLS handshake to the middle of a list; reset() forces a new
        // connection.
        cluster.network.relay.resetAfter(Math.floor(2 ** (random() * 16)));
        cluster.network.relay.reset();
        await pause(300 + random() * 700);
      }
      cluster.network.relay.resetAfter(undefined);
    };
    const breaking = breakConnections();
    await cluster.apply(names.map((name, at) => bound(name, at < 20 ? undefined : script(`sleep 1; exit ${at}`))));
    await pause(6_000);
    await kubectl("delete", "pod", ...names.slice(0, 10), "--wait=false");
    await pause(6_000);
    isOver = true;
    await breaking;
    const [gone, kept, ended] = [names.slice(0, 10), names.slice(10, 20), names.slice(20)];
    await waitFor("ten up, ten ended, ten gone", () => {
      const areUp = kept.every((name) => areContainersReady(shown(name)));
      const haveEnded = ended.every((name) => shown(name)?.status?.phase === "Failed");
      return areUp && haveEnded && gone.every((name) => shown(name) === undefined);
    });
    for (const name of ended)
      expect(`${name}: ${outcomeOf(shown(name))}`).toBe(`${name}: Failed ${name.slice(4)} Error`);
    // The runtime's exit event, which the status is made of, comes some milliseconds before the runtime lists the exit.
    const left = uidsOf(kept.map((name) => shown(name)!));
    await pollUntil(
      "ten containers",
      5_000,
      async () => (await cluster.runningUids()).containers.length === left.length,
    );
    expect((await cluster.runningUids()).containers).toEqual(left);
    await remove(...names);
  });

  test(`with random outages while ${MANY_PODS} containers exit gets their correct final statuses`, async () => {
    const { gateway, relay } = cluster.network;
    const exitCodes = new Map(
      Array.from({ length: MANY_PODS }, (_, at) => [`exit-${at}`, Math.floor(random() * 40)] as const),
    );
    const outages: readonly (() => () => void)[] = [
      () => gateway.respondWith(429, undefined, { "retry-after": "1" }),
      () => gateway.respondWith(500),
      () => gateway.respondWith(403),
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
    const longestSeconds = (0.6 * OUTAGES_MS) / 1000;
    await cluster.apply(
      [...exitCodes].map(([name, code]) =>
        bound(name, script(`sleep ${Math.ceil(random() * longestSeconds)}; exit ${code}`)),
      ),
    );
    const began = performance.now();
    while (performance.now() - began < OUTAGES_MS) {
      const end = outages[Math.floor(random() * outages.length)]!();
      if (random() < 0.7) relay.reset();
      await pause(500 + random() * 3_000);
      end();
      await pause(random() * 1_000);
    }
    await waitFor(
      "all ends",
      () => [...exitCodes.keys()].every((name) => /^(Failed|Succeeded)/.test(outcomeOf(shown(name)))),
      100_000,
    );
    const expected = [...exitCodes].map(
      ([name, code]) => `${name}: ${code === 0 ? "Succeeded 0 Completed" : `Failed ${code} Error`}`,
    );
    expect([...exitCodes.keys()].map((name) => `${name}: ${outcomeOf(shown(name))}`)).toEqual(expected);
    await kubectl("delete", "pods", "--all", "--timeout=180s");
    await cluster.waitUntilEmpty();
  });

  test("has seen no duplicate instance and no status regression in all tests of this file", async () => {
    expect(findOverlaps(await lifetimes.all())).toEqual([]);
    // Of each pod at least four: created, started, running, ended.
    expect(statuses.count()).toBeGreaterThan((50 + MANY_PODS) * 4);
    expect(statuses.regressions()).toEqual([]);
  });
});
