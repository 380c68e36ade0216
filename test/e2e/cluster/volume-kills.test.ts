import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { chmod, mkdir, mkdtemp, readdir, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { createMounts, parseMountinfo } from "../../../host/fs/mounts.ts";
import type { Pod, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { pollUntil, startStopwatch } from "../../bed/poll-until.ts";
import { seededRandom } from "../../random.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { script } from "../manifest.ts";
import { barePod, type Manifest } from "./api-objects.ts";
import { areContainersReady, bindsClaimsSoon, type ClusterNode, startClusterNode } from "./node.ts";

/** Twelve rounds, each with two starts of the agent and one of a pod. */
setDefaultTimeout(25 * 60_000);

const skip = skipWithoutPrograms("kills of the agent while it mounts and unmounts volumes");
const seed = Number(process.env["BERTH_SEED"] ?? Math.floor(Math.random() * 1e9));
const random = seededRandom(seed);
const ROUNDS = 12;
const STEP_TIMEOUT_MS = 30_000;

const volumes: NonNullable<PodSpec["volumes"]> = [
  { name: "keys", secret: { secretName: "keys" } },
  { name: "site", configMap: { name: "site" } },
  { name: "about", downwardAPI: { items: [{ path: "name", fieldRef: { fieldPath: "metadata.name" } }] } },
  {
    name: "token",
    projected: { sources: [{ serviceAccountToken: { path: "token" } }, { configMap: { name: "site" } }] },
  },
  { name: "disk", emptyDir: {} },
  { name: "memory", emptyDir: { medium: "Memory" } },
  { name: "local", persistentVolumeClaim: { claimName: "local" } },
];
const volumeMounts = [
  ...volumes.map(({ name }) => ({ name, mountPath: `/v/${name}` })),
  { name: "local", mountPath: "/kept", subPath: "deep/kept" },
  { name: "site", mountPath: "/colour", subPath: "colour" },
  { name: "disk", mountPath: "/made", subPath: "made" },
];

describe.skipIf(skip !== undefined)("an agent that is killed between the steps of mount and unmount", () => {
  let cluster: ClusterNode;
  let folder: string;
  beforeAll(async () => {
    folder = await realpath(await mkdtemp(join(tmpdir(), "berth-kills-")));
    await chmod(folder, 0o711);
    await mkdir(join(folder, "local"));
    await writeFile(join(folder, "local/data"), "precious");
    cluster = await startClusterNode(undefined, undefined, bindsClaimsSoon);
    await cluster.kubectl("create", "secret", "generic", "keys", "--from-literal=key=value");
    await cluster.kubectl("create", "configmap", "site", "--from-literal=colour=blue", "--from-literal=size=large");
    const accessModes = ["ReadWriteOnce"];
    const labels = "jsonpath={.metadata.labels.kubernetes\\.io/hostname}";
    const hostname = await cluster.kubectl("get", "node", "node-a", `--output=${labels}`);
    const matchExpressions = [{ key: "kubernetes.io/hostname", operator: "In", values: [hostname] }];
    const volume: Manifest = {
      apiVersion: "v1",
      kind: "PersistentVolume",
      metadata: { name: "pv-local" },
      spec: {
        ...{ accessModes, capacity: { storage: "1Mi" }, storageClassName: "" },
        local: { path: join(folder, "local") },
        nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions }] } },
      },
    };
    const claim: Manifest = {
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: { name: "local" },
      spec: { accessModes, resources: { requests: { storage: "1Mi" } }, storageClassName: "", volumeName: "pv-local" },
    };
    await cluster.apply([volume, claim]);
  }, BUILD_TIMEOUT_MS);
  afterAll(async () => {
    await cluster?.tearDown();
    await rm(folder, { recursive: true });
  });

  const podsDir = () => join(cluster.node.paths.agentRoot, "pods");
  const mountPoints = () =>
    parseMountinfo(readFileSync("/proc/self/mountinfo", "utf8")).filter(({ mountPoint }) =>
      mountPoint.startsWith(`${podsDir()}/`),
    ).length;
  const entries = () => {
    try {
      return readdirSync(podsDir(), { recursive: true }).length;
    } catch (error) {
      // A directory was removed while it was listed.
      if (error instanceof Error && "code" in error && error.code === "ENOENT") return 0;
      throw error;
    }
  };
  /** How far the pod's volumes are: each mount, directory, file and link counts as a step. */
  const steps = () => mountPoints() + entries();

  /** Kills the agent as soon as the number of steps satisfies the condition. Returns that number and the mounts then. */
  async function killWhen(what: string, condition: (steps: number) => boolean): Promise<string> {
    const { agent } = cluster.node;
    const [end, countedMs] = [performance.now() + STEP_TIMEOUT_MS, startStopwatch()];
    // A turn takes some tenths of a millisecond, as a step does: a poll every millisecond would miss most of them.
    while (!condition(steps())) {
      if (performance.now() > end && countedMs() > STEP_TIMEOUT_MS)
        throw new Error(`waited in vain for ${what}; ${steps()} steps now`);
      await nextTurn();
    }
    process.kill(agent.pid, "SIGKILL");
    await agent.ended;
    return `${steps()} (${mountPoints()} mounts)`;
  }
  const apply = () =>
    cluster.apply([
      barePod(
        "killed",
        { volumeMounts, command: script("while true; do sleep 0.1; done") },
        { volumes, terminationGracePeriodSeconds: 1, securityContext: { fsGroup: 2000 } },
      ),
    ]);
  const isUp = (pods: readonly Pod[]) => pods.length === 1 && pods.every(areContainersReady);
  const waitUntilUp = () => cluster.waitForPods("it is up", "killed", isUp, 60_000);
  const deletePod = () => cluster.kubectl("delete", "pod", "killed", "--wait=false");
  /** The socket of the killed agent refuses connections until the next one has its own. */
  const waitUntilAgentAnswers = () =>
    pollUntil("the agent to answer", 30_000, () =>
      cluster.node.pods().then(
        () => true,
        () => false,
      ),
    );
  async function expectNothingLeft(): Promise<void> {
    await cluster.waitUntilEmpty(60_000);
    expect(await createMounts().mountPointsBelow(podsDir())).toEqual([]);
    expect(await readdir(podsDir())).toEqual([]);
    expect(await readFile(join(folder, "local/data"), "utf8")).toBe("precious");
    expect((await readdir(join(folder, "local"), { recursive: true })).toSorted()).toEqual([
      "data",
      "deep",
      "deep/kept",
    ]);
  }

  test(`leaves no mount, directory or file of the pod once it is deleted (BERTH_SEED=${seed})`, async () => {
    await apply();
    await waitUntilUp();
    const all = steps();
    await deletePod();
    await expectNothingLeft();

    const kills: string[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      // Spread over all steps, with a random place within each part.
      const at = () => Math.max(1, Math.ceil((all * (round + random())) / ROUNDS));
      const [up, down] = [at(), all - at()];
      await apply();
      const started = await killWhen(`${up} of ${all} steps`, (now) => now >= up);
      const isDeletedWithoutAgent = round % 3 === 2;
      if (isDeletedWithoutAgent) await deletePod();
      await cluster.node.launchAgent();
      if (!isDeletedWithoutAgent) {
        await waitUntilUp();
        await deletePod();
      }
      const ended = await killWhen(`at most ${down} of ${all} steps`, (now) => now <= down);
      await cluster.node.launchAgent();
      await waitUntilAgentAnswers();
      await expectNothingLeft();
      kills.push(`start at ${started}, end at ${ended}`);
    }
    console.log(`${all} steps; killed at: ${kills.join("; ")}`);
  });
});
