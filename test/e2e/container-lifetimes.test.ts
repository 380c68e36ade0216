import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import {
  ContainerConfig,
  CreateContainerRequest,
  CreateContainerResponse,
  PodSandboxConfig,
  RemovePodSandboxRequest,
  RemovePodSandboxResponse,
  RunPodSandboxRequest,
  RunPodSandboxResponse,
  StartContainerRequest,
  StartContainerResponse,
  StopContainerRequest,
  StopContainerResponse,
} from "../../proto/cri/gen/api.ts";
import { containerNameLabel, podUidLabel } from "../../proto/kubernetes/well-known-names.ts";
import { callCri } from "../bed/containerd/cri-call.ts";
import { busyboxImage } from "../bed/images/images.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { findOverlaps, type Lifetime, type LifetimeRecording, recordLifetimes } from "./container-lifetimes.ts";
import { untilStopped } from "./manifest.ts";
import { startNodeWithoutAgent, type TestNode } from "./node.ts";
import { versionsUnderTest } from "./versions-under-test.ts";

setDefaultTimeout(60_000);

let node: TestNode;
let lifetimes: LifetimeRecording;

/** Runs a sandbox of the pod `uid`, as a faulty agent would: a second one has the next attempt number. */
async function runSandbox(uid: string, attempt = 0) {
  const config = PodSandboxConfig.fromPartial({
    metadata: { uid, name: uid, namespace: "default", attempt },
    labels: { [podUidLabel]: uid },
    // In the host's network namespace: the test needs no pod network.
    linux: { securityContext: { namespaceOptions: { network: 2 } } },
  });
  const { podSandboxId } = await callCri(
    node.containerd.endpoint,
    "RuntimeService/RunPodSandbox",
    [RunPodSandboxRequest, RunPodSandboxRequest.fromPartial({ config })],
    RunPodSandboxResponse,
  );
  return { uid, podSandboxId, config };
}

async function createContainer({ uid, podSandboxId, config }: Awaited<ReturnType<typeof runSandbox>>, attempt: number) {
  const container = ContainerConfig.fromPartial({
    metadata: { name: "main", attempt },
    image: { image: busyboxImage },
    command: [...untilStopped],
    labels: { [podUidLabel]: uid, [containerNameLabel]: "main" },
  });
  const request = CreateContainerRequest.fromPartial({ podSandboxId, config: container, sandboxConfig: config });
  const { containerId } = await callCri(
    node.containerd.endpoint,
    "RuntimeService/CreateContainer",
    [CreateContainerRequest, request],
    CreateContainerResponse,
  );
  return containerId;
}

async function startAndStop(containerId: string): Promise<void> {
  const { endpoint } = node.containerd;
  const start = StartContainerRequest.fromPartial({ containerId });
  await callCri(endpoint, "RuntimeService/StartContainer", [StartContainerRequest, start], StartContainerResponse);
  const stop = StopContainerRequest.fromPartial({ containerId, timeout: 5n });
  await callCri(endpoint, "RuntimeService/StopContainer", [StopContainerRequest, stop], StopContainerResponse);
}

/** Waits until `count` lifetimes of the pod are recorded, since events may be late, and returns its overlaps. */
async function overlapsOf(uid: string, count: number): Promise<readonly string[]> {
  return await pollUntil(`${count} lifetimes of ${uid}`, 5_000, async () => {
    const own = (await lifetimes.all()).filter(({ owner }) => owner.startsWith(`${uid} `));
    return own.length === count ? findOverlaps(own) : undefined;
  });
}

describe.each(versionsUnderTest)("by the event log of containerd %s", (version) => {
  beforeAll(async () => {
    node = await startNodeWithoutAgent({ version });
    lifetimes = await recordLifetimes(node.containerd);
  });

  afterAll(async () => {
    lifetimes.stop();
    await node.tearDown();
  });

  test("a container that was created twice and never started is reported", async () => {
    const sandbox = await runSandbox("twice");
    const [first, second] = [await createContainer(sandbox, 0), await createContainer(sandbox, 1)];
    expect(await overlapsOf("twice", 3)).toEqual([`twice main existed as ${first} and as ${second} at once`]);
  });

  test("a container that is created after the one before has exited is not reported", async () => {
    const sandbox = await runSandbox("again");
    await startAndStop(await createContainer(sandbox, 0));
    await createContainer(sandbox, 1);
    expect(await overlapsOf("again", 3)).toEqual([]);
  });

  test("two sandboxes of one pod are reported, and a second one after the removal of the first is not", async () => {
    const first = await runSandbox("two");
    const second = await runSandbox("two", 1);
    const sentence = `two sandbox existed as ${first.podSandboxId} and as ${second.podSandboxId} at once`;
    expect(await overlapsOf("two", 2)).toEqual([sentence]);
    const { podSandboxId } = await runSandbox("next");
    await callCri(
      node.containerd.endpoint,
      "RuntimeService/RemovePodSandbox",
      [RemovePodSandboxRequest, RemovePodSandboxRequest.fromPartial({ podSandboxId })],
      RemovePodSandboxResponse,
    );
    await runSandbox("next", 1);
    expect(await overlapsOf("next", 2)).toEqual([]);
  });
});

const seconds = (n: number) => BigInt(n * 1000) * 1_000_000n;
const first: Lifetime = {
  id: "a",
  owner: "uid main",
  createdAt: seconds(10),
  startedAt: seconds(11),
  endedAt: seconds(20),
  exitedBefore: new Set(),
};
const neverStarted: Lifetime = { ...first, startedAt: undefined, endedAt: undefined };
const second = { ...first, id: "b", createdAt: seconds(21), startedAt: seconds(22), endedAt: undefined };
const pairs: readonly [sentence: string, later: Lifetime, earlier: Lifetime, isTwice: boolean][] = [
  ["one after the other", second, first, false],
  ["of two owners", { ...second, owner: "uid sandbox", createdAt: seconds(12) }, first, false],
  ["both running at the same time", { ...second, createdAt: seconds(19), startedAt: seconds(19.999) }, first, true],
  ["the later one created and not started", { ...second, createdAt: seconds(19), startedAt: undefined }, first, true],
  ["the later one created while the exit event was late", { ...second, createdAt: seconds(19.9) }, first, false],
  ["the earlier one without an end", second, { ...first, endedAt: undefined }, true],
  ["the earlier one never started and not ended", second, neverStarted, true],
  ["the earlier one never started and ended by CRI", { ...second, exitedBefore: new Set(["a"]) }, neverStarted, false],
  ["the earlier one removed late without a start", second, { ...neverStarted, endedAt: seconds(25) }, true],
  [
    "the earlier one started after all",
    { ...second, exitedBefore: new Set(["a"]) },
    { ...first, endedAt: seconds(25) },
    true,
  ],
];
for (const [sentence, later, earlier, isOverlap] of pairs)
  test(`two lifetimes, ${sentence}, are ${isOverlap ? "" : "not "}reported as overlapping`, () => {
    expect(findOverlaps([earlier, later])).toEqual(isOverlap ? ["uid main existed as a and as b at once"] : []);
  });
