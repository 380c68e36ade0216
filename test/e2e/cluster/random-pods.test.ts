import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { seededRandom } from "../../random.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { readRuntimeCalls } from "../runtime-calls.ts";
import { CALL_CLASSES, killDuringCalls } from "./call-kills.ts";
import { kindsWithoutOutcome } from "./excuse-quotas.ts";
import { startClusterNode } from "./node.ts";
import { type RandomPodsBed, startRandomPodsBed } from "./random-pods-bed.ts";
import { createRandomPods, type Kind } from "./random-workload.ts";
import { expectOutcomes, expectUndisturbedOutcomes } from "./workload-outcome.ts";
import { removeWorkload, runWorkload } from "./workload-run.ts";

const skip = skipWithoutPrograms("eighteen random pods while agent and runtime are killed");
/** Fixed, so that all runs have the same pods and draw the same times; BERTH_SEED tries other ones. */
const seed = Number(process.env["BERTH_SEED"] ?? 1);
const random = seededRandom(seed);
/** Each kind that ends by itself is there twice. Where the kills meet both, one more runs without kills. */
const kinds: readonly Kind[] = [
  "pulled",
  "initialized",
  "sidecar",
  "liveness",
  "poststart",
  "restartall",
  "stays",
  "prestop",
  "initialized",
  "deleted",
  "sidecar",
  "poststart",
  "readiness",
  "restartall",
  "prestop",
  "static",
  "changed",
  "crashes",
];
const FAULTS_MS = 12_000;
const CALM_MS = 120_000;
const HOLD_MS = 10_000;

/** The sum of all waits of the test, each of which a busy machine makes three times longer. */
setDefaultTimeout(25 * 60_000);

describe.skipIf(skip !== undefined)("eighteen random pods", () => {
  let bed: RandomPodsBed;
  let hasPassed = false;
  beforeAll(async () => {
    console.log(`BERTH_SEED=${seed} repeats the pods and the times of the kills`);
    bed = await startRandomPodsBed(startClusterNode);
  }, BUILD_TIMEOUT_MS);
  afterAll(() => bed?.tearDown(hasPassed));

  test("reach their expected outcomes while agent and containerd are killed, also during creations, starts, pulls and stops", async () => {
    const { cluster, folder, remoteImage, openFileWatch } = bed;
    const options = { random, folder, remoteImage, kinds, changesWithinMs: FAULTS_MS, startsWithinSeconds: 45 };
    const workload = createRandomPods({ count: kinds.length, ...options });
    const [killed] = await Promise.all([
      killDuringCalls(cluster.node, random, FAULTS_MS),
      runWorkload(cluster, workload),
    ]);
    const { interrupted } = readRuntimeCalls(await readFile(cluster.node.containerd.logFile, "utf8"));
    console.log(`killed: ${countBy(killed.kills.map(({ what }) => what))}`);
    console.log(`in flight when containerd was killed: ${countBy(interrupted.map((call) => call.class))}`);
    expect(killed.kills.some(({ what }) => what === "agent")).toBe(true);
    expect(CALL_CLASSES.filter((each) => !interrupted.some((call) => call.class === each))).toEqual([]);

    const held = await expectOutcomes(bed, workload, killed, { calmMs: CALM_MS, holdMs: HOLD_MS });
    await removeWorkload(cluster, workload, 60_000);
    const missing = kindsWithoutOutcome(held);
    if (missing.length > 0) {
      const more = { count: missing.length, kinds: missing, firstNumber: workload.length, changesWithinMs: 1_000 };
      const undisturbed = createRandomPods({ ...options, ...more });
      await runWorkload(cluster, undisturbed);
      await expectUndisturbedOutcomes(bed, undisturbed, CALM_MS);
      await removeWorkload(cluster, undisturbed, 60_000);
    }
    expect(openFileWatch.openCounts()).toEqual(new Map());
    hasPassed = true;
  });
});

const countBy = (names: readonly string[]) =>
  [...Map.groupBy(names, (name) => name)].map(([name, own]) => `${own.length} × ${name}`).join(", ");
