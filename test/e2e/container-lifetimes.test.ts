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
import type { ContainerdVersion } from "../bed/containerd/containerd.ts";
import { callCri } from "../bed/containerd/cri-call.ts";
import { busyboxImage } from "../bed/images/images.ts";
import { until } from "../bed/poll-until.ts";
import { type Life, livedTwice, type Recording, recordLives } from "./container-lifetimes.ts";
import { untilStopped } from "./manifest.ts";
import { type Node, startNodeWithoutAgent } from "./node.ts";

setDefaultTimeout(60_000);

let node: Node;
let recording: Recording;

/** A sandbox of the pod `uid` as nobody but a faulty agent makes it: a second one is an attempt later. */
async function runSandbox(uid: string, attempt = 0) {
  const config = PodSandboxConfig.fromPartial({
    metadata: { uid, name: uid, namespace: "default", attempt },
    labels: { [podUidLabel]: uid },
    // In the namespaces of the host: nothing of the network is of interest.
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

/** The sentences on one pod, once its lives are so many; its events may be a moment behind the answers. */
async function doublesOf(uid: string, count: number): Promise<readonly string[]> {
  return await until(`${count} lives of ${uid}`, 5_000, async () => {
    const own = (await recording.lives()).filter(({ owner }) => owner.startsWith(`${uid} `));
    return own.length === count ? livedTwice(own) : undefined;
  });
}

describe.each<ContainerdVersion>(["1.6", "2.1"])("the event log of containerd %s is read so that", (version) => {
  beforeAll(async () => {
    node = await startNodeWithoutAgent({ version });
    recording = await recordLives(node.containerd);
  });

  afterAll(async () => {
    recording.stop();
    await node.end();
  });

  test("a container that was created twice and never started is found", async () => {
    const sandbox = await runSandbox("twice");
    const [first, second] = [await createContainer(sandbox, 0), await createContainer(sandbox, 1)];
    expect(await doublesOf("twice", 3)).toEqual([`twice main lived as ${first} and as ${second} at once`]);
  });

  test("a container that is created when the one before has exited is none too many", async () => {
    const sandbox = await runSandbox("again");
    await startAndStop(await createContainer(sandbox, 0));
    await createContainer(sandbox, 1);
    expect(await doublesOf("again", 3)).toEqual([]);
  });

  test("two sandboxes of one pod are found, and a second after the first was removed is not", async () => {
    const first = await runSandbox("two");
    const second = await runSandbox("two", 1);
    const sentence = `two sandbox lived as ${first.podSandboxId} and as ${second.podSandboxId} at once`;
    expect(await doublesOf("two", 2)).toEqual([sentence]);
    const { podSandboxId } = await runSandbox("next");
    await callCri(
      node.containerd.endpoint,
      "RuntimeService/RemovePodSandbox",
      [RemovePodSandboxRequest, RemovePodSandboxRequest.fromPartial({ podSandboxId })],
      RemovePodSandboxResponse,
    );
    await runSandbox("next", 1);
    expect(await doublesOf("next", 2)).toEqual([]);
  });
});

const seconds = (n: number) => BigInt(n * 1000) * 1_000_000n;
const first: Life = {
  id: "a",
  owner: "uid main",
  createdAt: seconds(10),
  startedAt: seconds(11),
  endedAt: seconds(20),
  endedBefore: new Set(),
};
const neverStarted: Life = { ...first, startedAt: undefined, endedAt: undefined };
const second = { ...first, id: "b", createdAt: seconds(21), startedAt: seconds(22), endedAt: undefined };
const pairs: readonly [sentence: string, later: Life, earlier: Life, isTwice: boolean][] = [
  ["one after the other", second, first, false],
  ["of two owners", { ...second, owner: "uid sandbox", createdAt: seconds(12) }, first, false],
  ["both running for a moment", { ...second, createdAt: seconds(19), startedAt: seconds(19.999) }, first, true],
  ["the later one only made", { ...second, createdAt: seconds(19), startedAt: undefined }, first, true],
  ["the later one made while news of the end was late", { ...second, createdAt: seconds(19.9) }, first, false],
  ["the earlier one without an end", second, { ...first, endedAt: undefined }, true],
  ["the earlier one never started, and not over", second, neverStarted, true],
  ["the earlier one never started, and over by CRI", { ...second, endedBefore: new Set(["a"]) }, neverStarted, false],
  ["the earlier one removed late without a start", second, { ...neverStarted, endedAt: seconds(25) }, true],
  [
    "the earlier one started after all",
    { ...second, endedBefore: new Set(["a"]) },
    { ...first, endedAt: seconds(25) },
    true,
  ],
];
for (const [sentence, later, earlier, isTwice] of pairs)
  test(`two lives, ${sentence}, are ${isTwice ? "" : "not "}told`, () => {
    expect(livedTwice([earlier, later])).toEqual(isTwice ? ["uid main lived as a and as b at once"] : []);
  });
