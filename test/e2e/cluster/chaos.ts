// `npm run chaos`: pods with random lifecycles while agent, runtime, API server and etcd are killed at random. Not part
// of `npm test`: it takes minutes. random-pods.test.ts is the short run with eighteen pods.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { seededRandom } from "../../random.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { readRuntimeCalls } from "../runtime-calls.ts";
import { CALL_CLASSES } from "./call-kills.ts";
import {
  injectFaults,
  MAX_FAULTS_MS,
  manyPodsConfiguration,
  openRelayedNetwork,
  type RelayedNetwork,
} from "./chaos-kills.ts";
import { type ClusterNode, startClusterNode } from "./node.ts";
import { type RandomPodsBed, startRandomPodsBed } from "./random-pods-bed.ts";
import { createRandomPods } from "./random-workload.ts";
import { expectOutcomes } from "./workload-outcome.ts";
import { removeWorkload, runWorkload } from "./workload-run.ts";

const skip = skipWithoutPrograms("pods with random lifecycles while everything around them is killed");
const seed = Number(process.env["BERTH_SEED"] ?? Math.floor(Math.random() * 1e9));
const count = Number(process.env["BERTH_CHAOS"] ?? 200);
const random = seededRandom(seed);

/** A container whose starts were interrupted repeatedly waits for up to the longest crash back-off, five minutes. */
const CALM_MS = 330_000 + count * 1_000;
const HOLD_MS = 30_000;

const REMOVAL_MS = 60_000 + count * 500;

// The waits themselves say what they miss, and last three times as long while the processors are busy: see `pollUntil`.
setDefaultTimeout(3 * (MAX_FAULTS_MS + CALM_MS + HOLD_MS + REMOVAL_MS));

describe.skipIf(skip !== undefined)(`${count} random pods`, () => {
  let bed: RandomPodsBed<ClusterNode & { readonly network: RelayedNetwork }>;
  let hasPassed = false;
  beforeAll(async () => {
    console.log(`BERTH_SEED=${seed} reproduces the pods and the kills`);
    bed = await startRandomPodsBed(() => startClusterNode(openRelayedNetwork, manyPodsConfiguration));
  }, BUILD_TIMEOUT_MS);
  afterAll(() => bed?.tearDown(hasPassed));

  test("reach their expected outcomes, without duplicate containers, while agent, runtime and API server are killed at random", async () => {
    const { cluster, folder, remoteImage, openFileWatch } = bed;
    // Two probes a second, whatever the count: of 200 pods 22 have one, and each second they would keep two processors busy alone.
    // The faults take up to three minutes, in which few pods start; the starts that are left take as long again.
    const scaled = { startsWithinSeconds: Math.max(12, 2 * count), probePeriodSeconds: Math.ceil(count / 20) };
    const workload = createRandomPods({ count, random, folder, remoteImage, ...scaled });
    const [killed] = await Promise.all([
      injectFaults(cluster, random, 15_000 + count * 150),
      runWorkload(cluster, workload),
    ]);
    console.log("hit:", killed.hits);
    const { interrupted } = readRuntimeCalls(await readFile(cluster.node.containerd.logFile, "utf8"));
    expect(interrupted.map((call) => call.class)).toEqual(expect.arrayContaining([...CALL_CLASSES]));

    await expectOutcomes(bed, workload, killed, { calmMs: CALM_MS, holdMs: HOLD_MS });
    await removeWorkload(cluster, workload, REMOVAL_MS);
    expect(openFileWatch.openCounts()).toEqual(new Map());
    hasPassed = true;
  });
});
