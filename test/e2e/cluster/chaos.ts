// `npm run chaos`: pods with random lifecycles while agent, runtime, API server and etcd are killed at random. Not part
// of `npm test`: it takes minutes, and a runtime that is killed during a start may leave things behind that are not the
// agent's fault.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { copyFile, mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { Container } from "../../../proto/kubernetes/gen/types.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { seededRandom } from "../../random.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { findDuplicateAttempts } from "../create-attempts.ts";
import { type OpenFileWatch, watchOpenFiles } from "../open-file-watch.ts";
import { injectFaults, manyPodsConfiguration, openRelayedNetwork, type RelayedNetwork } from "./chaos-kills.ts";
import { findDeviation, podsWithoutPreStop } from "./expected-outcomes.ts";
import { type ClusterNode, startClusterNode } from "./node.ts";
import { createRandomPods, openFilesDir, type PodChange, type RandomPod, readNotes } from "./random-workload.ts";

const skip = skipWithoutPrograms("pods with random lifecycles while everything around them is killed");
const seed = Number(process.env["BERTH_SEED"] ?? Math.floor(Math.random() * 1e9));
const count = Number(process.env["BERTH_CHAOS"] ?? 200);
const random = seededRandom(seed);

/** A container whose starts were interrupted repeatedly waits for up to the longest crash back-off, five minutes. */
const CALM_MS = 330_000 + count * 1_000;

setDefaultTimeout(CALM_MS + 120_000 + count * 2_000);

describe.skipIf(skip !== undefined)(`${count} random pods`, () => {
  let cluster: ClusterNode & { readonly network: RelayedNetwork };
  let folder: string;
  let openFileWatch: OpenFileWatch;
  let hasPassed = false;
  beforeAll(async () => {
    console.log(`BERTH_SEED=${seed} reproduces the pods and the kills`);
    folder = await mkdtemp(join(tmpdir(), "berth-chaos-"));
    await mkdir(openFilesDir(folder));
    openFileWatch = watchOpenFiles(openFilesDir(folder));
    cluster = await startClusterNode(openRelayedNetwork, manyPodsConfiguration);
  }, BUILD_TIMEOUT_MS);
  afterAll(async () => {
    openFileWatch.stop();
    if (!hasPassed) await saveLogs();
    await cluster?.tearDown();
    if (hasPassed) await rm(folder, { recursive: true, force: true });
  });

  /** Retries until it succeeds: the API server may be away. */
  const retry = (what: string, act: () => Promise<unknown>) =>
    pollUntil(what, 60_000, () =>
      act().then(
        () => true,
        () => false,
      ),
    );

  test("reach their expected outcomes, without duplicate containers, while agent, runtime and API server are killed at random", async () => {
    const workload = createRandomPods(count, random, folder);
    const forMs = 15_000 + count * 150;
    const changing = runWorkload(workload);
    const { hits, unexpectedExits } = await injectFaults(cluster, random, forMs);
    console.log("hit:", hits);
    await changing;

    const calmFrom = performance.now();
    let deviations: readonly string[] = [];
    await pollUntil("all to reach their outcomes", CALM_MS, async () => {
      // A failed request counts as a deviation.
      deviations = await findDeviations(workload).catch((error: unknown) => [`the pods cannot be read: ${error}`]);
      return deviations.length === 0;
      // The expectation below shows the last deviations after a timeout.
    }).catch(() => undefined);
    console.log(`all reached their outcomes ${Math.round(performance.now() - calmFrom)} ms after the last hit`);
    expect(deviations).toEqual([]);
    expect(openFileWatch.overlaps()).toEqual([]);
    expect(findDuplicateAttempts(await readFile(cluster.node.containerd.logFile, "utf8"))).toEqual([]);
    expect(unexpectedExits).toEqual([]);
    const notes = await Promise.all(workload.map(async ({ name }) => [name, await readNotes(folder, name)] as const));
    expect(podsWithoutPreStop(await cluster.pods(), new Map(notes), await cluster.node.log())).toEqual([]);

    for (const { name, isStatic } of workload) if (isStatic) await removeManifest(name);
    await cluster.kubectl("delete", "pods", "--all", "--wait=false");
    await cluster.waitUntilEmpty(60_000 + count * 500);
    expect(openFileWatch.openCounts()).toEqual(new Map());
    hasPassed = true;
  });

  /** Saves the logs, which are deleted together with the cluster. */
  async function saveLogs(): Promise<void> {
    const { paths, containerd } = cluster.node;
    for (const file of [paths.agentLog, containerd.logFile]) await copyFile(file, join(folder, basename(file)));
    console.log(`the notes of the containers and the logs of agent and runtime are in ${folder}`);
  }

  /** Creates the pods in five batches, then applies their later changes at their times. */
  async function runWorkload(workload: readonly RandomPod[]): Promise<void> {
    const began = performance.now();
    const size = Math.ceil(workload.length / 5);
    for (let at = 0; at < workload.length; at += size) {
      const some = workload.slice(at, at + size);
      for (const { isStatic, pod } of some) if (isStatic) await cluster.node.putManifest(pod);
      const ofApi = some.filter(({ isStatic }) => !isStatic).map(({ pod }) => pod);
      await retry("a batch of pods", () => cluster.apply(ofApi));
    }
    const due = workload.flatMap(({ name, change }) => (change === undefined ? [] : [{ name, ...change }]));
    for (const { name, atMs, what } of due.toSorted((a, b) => a.atMs - b.atMs)) {
      await pause(Math.max(0, began + atMs - performance.now()));
      await retry(`the change of ${name}`, () => applyChange(name, what));
    }
  }

  async function applyChange(name: string, what: PodChange["what"]): Promise<unknown> {
    if (what === "remove the manifest") return await removeManifest(name);
    if (what === "delete" || what === "force-delete") {
      const how = what === "delete" ? ["--wait=false"] : ["--force", "--grace-period=0"];
      return await cluster.kubectl("delete", "pod", name, "--ignore-not-found", ...how);
    }
    return "rewrite" in what
      ? await cluster.node.putManifest(what.rewrite)
      : await addEphemeralContainer(name, what.ephemeralContainer);
  }

  const removeManifest = (name: string) => rm(join(cluster.node.paths.manifests, `${name}.yaml`), { force: true });

  /** Adds an ephemeral container with volumes, which `kubectl debug` does not offer. */
  async function addEphemeralContainer(name: string, container: Container): Promise<void> {
    const { metadata, spec, ...pod } = await cluster.pod(name);
    const input = JSON.stringify({ ...pod, metadata, spec: { ...spec, ephemeralContainers: [container] } });
    const path = `/api/v1/namespaces/default/pods/${name}/ephemeralcontainers`;
    await cluster.plane.kubectl(["replace", `--raw=${path}`, "--filename=-"], { input });
  }

  async function findDeviations(workload: readonly RandomPod[]): Promise<readonly string[]> {
    const apiName = ({ name, isStatic }: RandomPod) => (isStatic ? `${name}-${cluster.node.name}` : name);
    const shown = new Map((await cluster.pods()).map((pod) => [pod.metadata.name, pod]));
    const alive = openFileWatch.openCounts();
    const found = workload.map(async (randomPod) =>
      findDeviation(randomPod, shown.get(apiName(randomPod)), await readNotes(folder, randomPod.name), alive),
    );
    return (await Promise.all(found)).filter((each) => each !== undefined);
  }
});
