import { describe, expect, test } from "bun:test";
import {
  ContainerState,
  ContainerStatus,
  ContainerStatusResponse,
  ListContainersResponse,
  ListPodSandboxResponse,
  NamespaceMode,
  PodSandboxStatus,
  PodSandboxStatusResponse,
} from "../../../proto/cri/gen/api.ts";
import type { SandboxId } from "../../../proto/ids.ts";
import { readGolden } from "../../../test/upstream/golden-cri.ts";
import { ownerOf, toObservedContainer, toObservedSandbox } from "./from-cri.ts";

const sandboxId = "s" as SandboxId;
const golden = { uid: "golden-uid", namespace: "default", name: "golden" } as const;

for (const version of ["1.6", "2.1"] as const)
  describe(`responses of containerd ${version}`, () => {
    const container = async (state: string) => {
      const answer = await readGolden(version, `container-status-${state}`, ContainerStatusResponse);
      return toObservedContainer(answer.status!, sandboxId);
    };

    test("a created container is read", async () => {
      const { id, createdAt, imageRef, user, ...rest } = await container("created");
      // Only containerd 2 reports the user of a container.
      expect(user).toEqual(version === "1.6" ? undefined : { uid: 0, gid: 0, supplementalGroups: [0] });
      expect(rest as object).toEqual({
        name: "created",
        sandboxId,
        attempt: 3,
        image: "berth.test/busybox:1",
        hash: undefined,
        crashes: 3,
        resources: { cpuRequest: 500, cpuLimit: 500, memoryLimit: 2 ** 26 },
        state: "created",
      });
      expect(id).toMatch(/^[0-9a-f]{64}$/);
      expect(imageRef).toMatch(/^sha256:/);
      expect(new Date(createdAt).getUTCFullYear()).toBe(2026);
    });

    test("a running container has its start time in milliseconds", async () => {
      const running = await container("running");
      expect(running.state).toBe("running");
      const { startedAt } = running as { startedAt: number };
      expect(startedAt - running.createdAt).toBeWithin(0, 1000);
    });

    const ends: readonly [file: string, exitCode: number, reason: string][] = [
      ["completed", 0, "Completed"],
      ["error", 3, "Error"],
      ["killed", 137, "Error"],
    ];
    for (const [file, exitCode, reason] of ends)
      test(`an exited container has its exit code and reason: ${file}`, async () => {
        const ended = await container(file);
        expect(ended).toMatchObject({ state: "exited", exitCode, reason, message: "" });
        const { startedAt, finishedAt } = ended as { startedAt: number; finishedAt: number };
        expect(startedAt).toBeGreaterThanOrEqual(ended.createdAt);
        expect(finishedAt).toBeGreaterThanOrEqual(startedAt);
      });

    test("a container that could not be started is exited with a reason and no start time", async () => {
      expect(await container("start-error")).toMatchObject({
        state: "exited",
        startedAt: 0,
        exitCode: 128,
        reason: "StartError",
        message: expect.stringContaining("/does-not-exist"),
      });
    });

    const sandbox = async (state: string) => {
      const answer = await readGolden(version, `pod-sandbox-status-${state}`, PodSandboxStatusResponse);
      return toObservedSandbox(answer.status!);
    };

    test("a ready sandbox has its address", async () => {
      expect(await sandbox("ready")).toMatchObject({
        attempt: 1,
        ready: true,
        hostNetwork: false,
        ips: [expect.stringMatching(/^10\.\d+\.\d+\.\d+$/)],
      });
    });

    test("a sandbox that is not ready has no address, and does not count as on the host network", async () => {
      expect(await sandbox("not-ready")).toMatchObject({ attempt: 1, ready: false, hostNetwork: false, ips: [] });
    });

    test("listed sandboxes and containers have their owner", async () => {
      const { items } = await readGolden(version, "list-pod-sandbox-ready", ListPodSandboxResponse);
      const { containers } = await readGolden(version, "list-containers", ListContainersResponse);
      expect(items.length).toBeGreaterThan(0);
      expect(containers.length).toBeGreaterThan(0);
      for (const each of [...items, ...containers]) expect(ownerOf(each) as object).toEqual(golden);
    });
  });

const label = (key: string, value: string) => ({ [`io.kubernetes.pod.${key}`]: value });
const all = { ...label("uid", "u"), ...label("namespace", "n"), ...label("name", "p") };
const owners: readonly [sentence: string, labels: Record<string, string>, isOwned: boolean][] = [
  ["all three labels", all, true],
  ["no labels", {}, false],
  ["all but the uid", { ...all, ...label("uid", "") }, false],
  ["all but the namespace", { ...all, ...label("namespace", "") }, false],
  ["all but the name", { ...all, ...label("name", "") }, false],
];
for (const [sentence, labels, isOwned] of owners)
  test(`${sentence} ${isOwned ? "identify an owner" : "identify no owner"}`, () => {
    expect(ownerOf({ labels }) as object | undefined).toEqual(
      isOwned ? { uid: "u", namespace: "n", name: "p" } : undefined,
    );
  });

const times: readonly [sentence: string, startedAt: number, finishedAt: number, expectedStart: number][] = [
  ["ended after its start", 1_000, 2_000, 1_000],
  ["ended before its start was noted", 2_000, 1_000, 1_000],
  ["never started", 0, 2_000, 0],
  ["has no time of its end", 1_000, 0, 1_000],
];
for (const [sentence, startedAt, finishedAt, expectedStart] of times)
  test(`the start of an exited container is not after its end: one that ${sentence}`, () => {
    const nanos = (ms: number) => BigInt(ms) * 1_000_000n;
    const exited = { id: "c", state: ContainerState.CONTAINER_EXITED };
    const status = { ...exited, startedAt: nanos(startedAt), finishedAt: nanos(finishedAt) };
    const { startedAt: start, ...end } = toObservedContainer(ContainerStatus.fromPartial(status), sandboxId) as {
      readonly startedAt: number;
    };
    expect(start).toBe(expectedStart);
    expect(end).toMatchObject({ state: "exited", finishedAt });
  });

test("a state of a newer runtime is read as unknown", () => {
  for (const state of [ContainerState.CONTAINER_UNKNOWN, 17 as ContainerState])
    expect(toObservedContainer(ContainerStatus.fromPartial({ id: "c", state }), sandboxId).state).toBe("unknown");
});

const annotated: readonly [text: string | undefined, crashes: number][] = [
  [undefined, 0],
  ["4", 4],
  ["-1", 0],
  ["1.5", 0],
  ["many", 0],
  ["1e400", 0],
  ["", 0],
];
for (const [text, crashes] of annotated)
  test(`an annotation of ${JSON.stringify(text)} crashes counts as ${crashes}`, () => {
    const annotations: Record<string, string> = text === undefined ? {} : { "berth.dev/crashes": text };
    const status = ContainerStatus.fromPartial({ id: "c", annotations });
    expect(toObservedContainer(status, sandboxId).crashes).toBe(crashes);
  });

test("a container of the kubelet, without that annotation, counts its restarts as crashes", () => {
  const metadata = { name: "a", attempt: 3 };
  expect(toObservedContainer(ContainerStatus.fromPartial({ id: "c", metadata }), sandboxId).crashes).toBe(3);
  const own = ContainerStatus.fromPartial({ id: "c", metadata, annotations: { "berth.dev/crashes": "1" } });
  expect(toObservedContainer(own, sandboxId).crashes).toBe(1);
});

test("a container has the name of its metadata or else of its label, and the hash of its annotation", () => {
  const annotations = { "io.kubernetes.container.hash": "abcd" };
  const labels = { "io.kubernetes.container.name": "by-label" };
  const status = ContainerStatus.fromPartial({ id: "c", labels, annotations });
  expect(toObservedContainer(status, sandboxId)).toMatchObject({ name: "by-label", attempt: 0, hash: "abcd" });
  const named = ContainerStatus.fromPartial({ id: "c", labels, metadata: { name: "own", attempt: 2 } });
  expect(toObservedContainer(named, sandboxId)).toMatchObject({ name: "own", attempt: 2 });
});

test("the image is the runtime's name for it, as with the kubelet, even if the runtime reports the user's too", () => {
  const image = { image: "sha256:1", userSpecifiedImage: "busybox@sha256:2" };
  expect(toObservedContainer(ContainerStatus.fromPartial({ image }), sandboxId).image).toBe("sha256:1");
});

test("a dual-stack sandbox has both addresses, and one on the host network has none", () => {
  const network = { ip: "10.0.0.1", additionalIps: [{ ip: "fd00::1" }] };
  expect(toObservedSandbox(PodSandboxStatus.fromPartial({ id: "s", network })).ips).toEqual(["10.0.0.1", "fd00::1"]);
  const linux = { namespaces: { options: { network: NamespaceMode.NODE } } };
  expect(toObservedSandbox(PodSandboxStatus.fromPartial({ id: "s", network, linux }))).toMatchObject({
    hostNetwork: true,
    ips: [],
  });
});

test("the resources that a runtime reports are converted as the kubelet does, and what it does not limit is missing", () => {
  const resourcesOf = (linux: object | undefined) =>
    toObservedContainer(ContainerStatus.fromPartial({ id: "c", ...(linux && { resources: { linux } }) }), sandboxId)
      .resources;
  expect(resourcesOf({ cpuShares: 102n, cpuPeriod: 100_000n, cpuQuota: 20_000n, memoryLimitInBytes: 64n })).toEqual({
    cpuRequest: 100,
    cpuLimit: 200,
    memoryLimit: 64,
  });
  expect(resourcesOf({ cpuShares: 2n, cpuPeriod: 100_000n, cpuQuota: -1n })).toEqual({ cpuRequest: 2 });
  expect(resourcesOf({})).toBeUndefined();
  expect(resourcesOf(undefined)).toBeUndefined();
});

test("a container carries what it was created with", () => {
  const amounts = { cpuRequest: 100, cpuLimit: 0, memoryRequest: 0, memoryLimit: 2 ** 26 };
  const read = (text: string) =>
    toObservedContainer(ContainerStatus.fromPartial({ annotations: { "berth.dev/resources": text } }), sandboxId)
      .amounts;
  expect(read(JSON.stringify(amounts))).toEqual(amounts);
  expect(read("{}")).toBeUndefined();
});
