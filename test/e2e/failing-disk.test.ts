import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import type { PodSummary } from "../../agent/serve/local/pod-list.ts";
import { ContainerState } from "../../proto/cri/gen/api.ts";
import { builtBinary } from "../bed/agent.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { type BreakableDisk, mountBreakableDisk } from "./breakable-disk.ts";
import { podOf } from "./manifest.ts";
import { containerId, linesContaining, startNodeWithoutAgent, type TestNode } from "./node.ts";

setDefaultTimeout(600_000);

let node: TestNode;
/** The root directory. */
let disk: BreakableDisk;
beforeAll(async () => {
  node = await startNodeWithoutAgent();
  await mkdir(node.paths.agentRoot, { recursive: true });
  disk = await mountBreakableDisk(node.paths.agentRoot, join(node.folder, "disk"));
  await node.startAgent();
});
afterAll(async () => {
  await node.agent.stop();
  await disk.unmount();
  await node.tearDown();
});

const checkpoints = async () =>
  (await readdir(join(node.paths.agentRoot, "berth", "pods"))).filter((name) => name.endsWith(".json"));
const shownInstance = (pod: PodSummary) => [pod.uid, containerId(pod), pod.restarts, pod.ready];

/** A pod that keeps running, and one whose container ends while the disk is broken. */
async function startPods(name: string): Promise<readonly [kept: PodSummary, ended: PodSummary]> {
  await node.putManifest(podOf(`kept-${name}`));
  await node.putManifest(podOf(`ended-${name}`));
  const [kept, ended] = await node.waitUntilRunning(`kept-${name}`, `ended-${name}`);
  await pollUntil("both checkpoints", 10_000, async () => {
    const saved = await checkpoints();
    return [kept, ended].every((pod) => saved.includes(`${pod?.uid}.json`));
  });
  return [kept!, ended!];
}

/** Adds a pod, ends a container, and waits until the new pod says why it waits. */
async function disturb(name: string, ended: PodSummary, says: string): Promise<void> {
  await node.putManifest(podOf(`late-${name}`));
  await node.containerd.ctr(["-n", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", containerId(ended)]);
  await waitUntilWaiting(`late-${name}`, "ContainerCreating", says);
}

const waitUntilWaiting = (pod: string, reason: string, says: string) =>
  node.waitForPod(pod, `it waits: ${says}`, (shown) => shown.reason === reason && shown.message.includes(says));

async function expectSameInstance(name: string, before: PodSummary): Promise<void> {
  const [pod] = await node.waitUntilRunning(name);
  expect(shownInstance(pod!)).toEqual(shownInstance(before));
}

/** `berth status` answers with a line that matches. */
async function expectStatus(line: RegExp): Promise<void> {
  const { exitCode, all } = await execa(builtBinary, ["status", "--root-dir", node.paths.agentRoot], {
    reject: false,
    all: true,
  });
  expect([exitCode, all]).toEqual([0, expect.stringMatching(line)]);
}

/** The agent logs each failure once, although it tries again. Returns after a second without a line. */
async function expectOneLinePerFailure(failures: readonly (readonly [pod: string, what: string, says: string])[]) {
  let [log, since] = ["", 0];
  await pollUntil("a second without a line", 20_000, async () => {
    const now = await node.log();
    if (now !== log) [log, since] = [now, performance.now()];
    return performance.now() - since > 1000;
  });
  for (const [pod, what, says] of failures) {
    const lines = linesContaining(log, `pod=default/${pod}-berth`, what);
    expect([what, lines]).toEqual([what, [expect.stringContaining(says)]]);
  }
}

/** The agent tries to write a checkpoint again every five seconds; the rest is for the write. */
const CHECKPOINT_MS = 5_500;

/** All pods run; the containers that ran before are the same, and the one that ended was started again once. */
async function expectRecovery(name: string, kept: PodSummary) {
  const [ended, late] = await node.waitUntilRunning(`ended-${name}`, `late-${name}`);
  await expectSameInstance(`kept-${name}`, kept);
  expect([ended?.restarts, late?.restarts]).toEqual([1, 0]);
  await pollUntil("the late pod's checkpoint", CHECKPOINT_MS, async () =>
    (await checkpoints()).includes(`${late?.uid}.json`),
  );
}

test("a full disk: pods run and restart, also beside a new agent, and what waits is done when there is space", async () => {
  const says = "the disk is full";
  const [kept, ended] = await startPods("full");
  await disk.fill();
  await disturb("full", ended, says);
  const restarted = await node.waitForPod(
    "ended-full",
    "it was restarted",
    (pod) => pod.restarts === 1 && pod.ready === "1/1",
  );
  await expectSameInstance("kept-full", kept);
  await expectStatus(/^pods +3: 2 Running, 1 ContainerCreating$/m);
  await expectStatus(/^not ready +1: 1 FailedMount /m);
  await expectOneLinePerFailure([
    ["late-full", "cannot save the pod's checkpoint yet", says],
    ["late-full", "failed to create the pod's directories", says],
  ]);

  await node.agent.kill9();
  await node.startAgent();
  await waitUntilWaiting("late-full", "ContainerCreating", says);
  await expectSameInstance("kept-full", kept);
  await expectSameInstance("ended-full", restarted);
  await disk.free();
  await expectRecovery("full", kept);
});

test.each([
  ["read-only", "is read-only", () => disk.makeReadOnly()],
  ["failing", "EIO", () => disk.unplug()],
])(
  "a %s disk: pods run, no agent starts on it, and the next one continues on a healthy disk",
  async (name, says, breakDisk) => {
    const [kept, ended] = await startPods(name);
    await breakDisk();
    await disturb(name, ended, says);
    await waitUntilWaiting(`ended-${name}`, "CreateContainerError", says);
    await expectSameInstance(`kept-${name}`, kept);
    await expectStatus(/^not ready +2: (?=.*1 CreateContainerError)(?=.*1 FailedMount)/m);
    await expectOneLinePerFailure([
      [`late-${name}`, "cannot save the pod's checkpoint yet", says],
      [`late-${name}`, "failed to create the pod's directories", says],
      [`ended-${name}`, "failed to create container main (attempt 1)", says],
    ]);

    await node.agent.kill9();
    await node.launchAgent();
    expect(await node.agent.ended).toBe("exited with code 1");
    expect((await node.log()).trimEnd().split("\n").at(-1)).toMatch(
      new RegExp(`^cannot lock the root directory: .*/berth.lock .*${says}`),
    );
    const running = (await node.containers()).filter(({ state }) => state === ContainerState.CONTAINER_RUNNING);
    expect(running.map(({ id }) => id)).toContain(containerId(kept));

    await disk.replace();
    await node.startAgent();
    await expectRecovery(name, kept);
  },
);
