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

setDefaultTimeout(600_000);

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

async function start(containerId: string): Promise<void> {
  const request = StartContainerRequest.fromPartial({ containerId });
  const { endpoint } = node.containerd;
  await callCri(endpoint, "RuntimeService/StartContainer", [StartContainerRequest, request], StartContainerResponse);
}

async function stop(containerId: string): Promise<void> {
  const request = StopContainerRequest.fromPartial({ containerId, timeout: 5n });
  const { endpoint } = node.containerd;
  await callCri(endpoint, "RuntimeService/StopContainer", [StopContainerRequest, request], StopContainerResponse);
}

async function lifetimesOf(uid: string): Promise<readonly Lifetime[]> {
  return (await lifetimes.all()).filter(({ owner }) => owner.startsWith(`${uid} `));
}

/** The overlaps of the pod's `count` lifetimes. */
async function overlapsOf(uid: string, count: number): Promise<readonly string[]> {
  const own = await lifetimesOf(uid);
  expect(own).toHaveLength(count);
  return findOverlaps(own);
}

/** Waits for the exit event, which may be late, of the only instance in this pod. */
async function waitForExit(uid: string): Promise<void> {
  await pollUntil(`the exit event of ${uid}`, 5_000, async () =>
    (await lifetimesOf(uid)).some(({ owner, endedAt }) => owner === `${uid} main` && endedAt !== undefined),
  );
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
    const first = await createContainer(sandbox, 0);
    await start(first);
    await stop(first);
    await createContainer(sandbox, 1);
    await waitForExit("again");
    expect(await overlapsOf("again", 3)).toEqual([]);
  });

  test("a container that runs twice is reported, also after one of the instances has ended", async () => {
    const sandbox = await runSandbox("beside");
    const [first, second] = [await createContainer(sandbox, 0), await createContainer(sandbox, 1)];
    await start(first);
    await start(second);
    const sentence = `beside main existed as ${first} and as ${second} at once`;
    expect(await overlapsOf("beside", 3)).toEqual([sentence]);
    await stop(first);
    await waitForExit("beside");
    expect(await overlapsOf("beside", 3)).toEqual([sentence]);
  });

  test("a container that is created while the one before still stops is reported", async () => {
    const sandbox = await runSandbox("early");
    const first = await createContainer(sandbox, 0);
    await start(first);
    const second = await createContainer(sandbox, 1);
    await stop(first);
    await waitForExit("early");
    await start(second);
    const [earlier, later] = (await lifetimesOf("early")).filter(({ owner }) => owner === "early main");
    expect(earlier!.endedAt! > later!.createdAt && earlier!.endedAt! < later!.startedAt!).toBe(true);
    expect(await overlapsOf("early", 3)).toEqual([`early main existed as ${first} and as ${second} at once`]);
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

  test("a recording that containerd has ended rejects, because it misses what follows", async () => {
    await node.containerd.restart();
    await expect(lifetimes.all()).rejects.toThrow();
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
const [sandbox, nextSandbox] = [first, second].map((each) => ({ ...each, owner: "uid sandbox" })) as [
  Lifetime,
  Lifetime,
];
const afterExit = { exitedBefore: new Set(["a"]) };
const pairs: readonly [sentence: string, later: Lifetime, earlier: Lifetime, isOverlap: boolean][] = [
  ["one after the other", second, first, false],
  ["of two owners", { ...second, owner: "uid sandbox", createdAt: seconds(12) }, first, false],
  ["both running at the same time", { ...second, createdAt: seconds(19), startedAt: seconds(19.999) }, first, true],
  ["the later one created and not started", { ...second, createdAt: seconds(19), startedAt: undefined }, first, true],
  ["the later one created just before the exit", { ...second, createdAt: seconds(19.999) }, first, true],
  [
    "created when CRI showed the exit, whose event was late",
    { ...second, ...afterExit, createdAt: seconds(19) },
    first,
    false,
  ],
  ["running when the late event came", { ...second, ...afterExit, startedAt: seconds(19) }, first, true],
  ["a sandbox created just before the late event", { ...nextSandbox, createdAt: seconds(19.9) }, sandbox, false],
  ["a sandbox created long before the event", { ...nextSandbox, createdAt: seconds(19.4) }, sandbox, true],
  ["a sandbox started just before the event", { ...nextSandbox, startedAt: seconds(19.999) }, sandbox, true],
  ["the earlier one without an end", second, { ...first, endedAt: undefined }, true],
  ["the earlier one never started and not ended", second, neverStarted, true],
  ["the earlier one never started and ended by CRI", { ...second, ...afterExit }, neverStarted, false],
  ["the earlier one removed late without a start", second, { ...neverStarted, endedAt: seconds(25) }, true],
  ["the earlier one started after all", { ...second, ...afterExit }, { ...first, endedAt: seconds(25) }, true],
];
for (const [sentence, later, earlier, isOverlap] of pairs)
  test(`two lifetimes, ${sentence}, are ${isOverlap ? "" : "not "}reported as overlapping`, () => {
    const { owner } = earlier;
    expect(findOverlaps([earlier, later])).toEqual(isOverlap ? [`${owner} existed as a and as b at once`] : []);
  });
