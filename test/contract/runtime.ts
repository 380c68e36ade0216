import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { CriError } from "../../cri/error.ts";
import type { ContainerChange, EventExit, Runtime, RuntimeEvent, RuntimeEventSource } from "../../cri/runtime.ts";
import {
  ContainerConfig,
  ContainerState,
  type ContainerStatus,
  LinuxContainerResources,
  LinuxContainerSecurityContext,
  NamespaceMode,
  PodSandboxConfig,
  PodSandboxState,
  SupplementalGroupsPolicy,
} from "../../proto/cri/gen/api.ts";
import type { ContainerId, PodUid, SandboxId } from "../../proto/ids.ts";
import { podUidLabel } from "../../proto/kubernetes/well-known-names.ts";
import { pollUntil, startStopwatch } from "../bed/poll-until.ts";
import type { FakeCommand, Program } from "../fakes/runtime-objects.ts";

/** A runtime under test. */
export interface RuntimeSubject {
  readonly runtime: Runtime;
  /** An image on the node that has busybox' commands. */
  readonly image: string;
  /** A directory for logs; the suite may write anything below it. */
  readonly logDir: string;
  /** Restarts the runtime without its record of the container's state, as if it was killed while it created it. */
  loseState(id: ContainerId): Promise<void>;
  /** Whether a container has written its first log line, "ready". */
  hasLoggedReady(logPath: string): Promise<boolean>;
  /** The features that it reports; undefined for a runtime too old to report them. */
  readonly features:
    | Readonly<Record<"userNamespaces" | "recursiveReadOnlyMounts" | "supplementalGroupsPolicy", boolean>>
    | undefined;
  /** How it answers what not all runtimes implement, or implement alike. */
  readonly answers: RuntimeAnswers;
  end(): Promise<void>;
}

export interface RuntimeAnswers {
  /** ListPodSandboxStats of a sandbox that has no cgroup of its pod. */
  readonly sandboxStats: "listed" | "UNKNOWN";
  readonly sandboxUpdate: "accepted" | "UNIMPLEMENTED";
}

const MI = 1_048_576n;
/** What the container `writes` writes to its root file system. */
const WRITTEN_BYTES = Number(2n * MI);
/** containerd measures the layers every ten seconds. */
const MEASURED_WITHIN_MS = 30_000;

/** The containers of this suite: the command for a real runtime, and the same behaviour as a program of the fake. */
export const behaviours = {
  "exits-0": { command: ["true"], program: { exitsAfterMs: 0, exitCode: 0 } },
  "exits-3": { command: ["sh", "-c", "exit 3"], program: { exitsAfterMs: 0, exitCode: 3 } },
  "obeys-term": {
    command: ["sh", "-c", "trap 'exit 143' TERM; echo ready; while true; do sleep 0.02; done"],
    program: { onTerm: "exits" },
  },
  writes: {
    command: ["sh", "-c", "dd if=/dev/zero of=/written bs=1M count=2 && sync && echo ready && exec sleep 600"],
    program: { writtenBytes: WRITTEN_BYTES },
  },
  "ignores-term": { command: ["sh", "-c", "trap '' TERM; echo ready; sleep 600"], program: { onTerm: "ignores" } },
  "has-no-binary": { command: ["/does-not-exist"], program: { startError: "no such file or directory" } },
} as const satisfies Readonly<Record<string, { readonly command: readonly string[]; readonly program: Program }>>;

/** The commands that the suite runs by ExecSync, for the fake. */
export const commands: ReadonlyMap<string, FakeCommand> = new Map([
  ["sh -c echo out; echo err >&2; exit 4", { stdout: "out\n", stderr: "err\n", exitCode: 4 }],
  ["sleep 60", { lastsMs: 60_000 }],
]);

export type Behaviour = keyof typeof behaviours;

/**
 * Returns the error with which a call fails. Unlike `expect().rejects`, which spins Bun's event loop in place, it works
 * right after another response on the same socket.
 */
export const failureOf = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    (answer) => new Error(`it succeeded: ${JSON.stringify(answer)}`),
    (error: unknown) => error,
  );

type Change = Extract<RuntimeEvent, { kind: "container" }>;
const isChange = (event: RuntimeEvent): event is Change => event.kind === "container";

/** Follows the events of a runtime, and returns the changes of each id so far. */
async function followChanges(runtime: Pick<Runtime, "events">) {
  const received: RuntimeEvent[] = [];
  const listener = new AbortController();
  const following = runtime.events((event) => received.push(event), listener.signal);
  await pollUntil("the connection", 30_000, () => received.length > 0);
  return {
    changesOf: (id: string) =>
      received.filter(isChange).flatMap(({ containerId, change }) => (containerId === id ? [change] : [])),
    async stopListening() {
      listener.abort();
      await following;
    },
  };
}

/**
 * The contract of `Runtime`, for the fake and containerd. `source`: that of its events. Only CRI's events name the pod and
 * include creations.
 */
export function runtimeContract(name: string, source: RuntimeEventSource, make: () => Promise<RuntimeSubject>): void {
  // When a test times out, Bun kills all children of the process, also the containerd that other tests still need.
  setDefaultTimeout(600_000);
  describe(name, () => {
    let subject: RuntimeSubject;
    let runtime: Runtime;
    let pods = 0;
    beforeAll(async () => {
      subject = await make();
      runtime = subject.runtime;
    });
    afterEach(async () => {
      const sandboxes = await runtime.listPodSandbox({});
      await Promise.all(sandboxes.map(({ id }) => runtime.removePodSandbox(id as SandboxId)));
    });
    afterAll(() => subject.end());

    function buildSandboxConfig(overrides: Parameters<typeof PodSandboxConfig.fromPartial>[0] = {}): PodSandboxConfig {
      const uid = `pod-${++pods}`;
      return PodSandboxConfig.fromPartial({
        metadata: { name: uid, uid, namespace: "contract", attempt: 2 },
        logDirectory: `${subject.logDir}/${uid}`,
        labels: { [podUidLabel]: uid, colour: "green" },
        annotations: { "example.test/note": "kept verbatim: ✓" },
        linux: {},
        ...overrides,
      });
    }
    function buildContainerConfig(behaviour: Behaviour, uid: string, image = subject.image): ContainerConfig {
      return ContainerConfig.fromPartial({
        metadata: { name: behaviour, attempt: 5 },
        image: { image },
        command: [...behaviours[behaviour].command],
        logPath: `${behaviour}/5.log`,
        labels: { [podUidLabel]: uid },
        annotations: { "io.kubernetes.container.restartCount": "5" },
        linux: { securityContext: { namespaceOptions: { pid: NamespaceMode.CONTAINER } } },
      });
    }
    /** A pod with one container, which is started unless `start` is false. */
    async function runPod(behaviour: Behaviour, { start = true } = {}) {
      const config = buildSandboxConfig();
      const uid = config.metadata!.uid as PodUid;
      const sandbox = await runtime.runPodSandbox(config, "");
      const container = await runtime.createContainer(sandbox, buildContainerConfig(behaviour, uid), config);
      if (start) await runtime.startContainer(container);
      return { config, uid, sandbox, container };
    }
    const exited = (id: ContainerId) =>
      pollUntil("the container's exit", 30_000, async () => {
        const status = await runtime.containerStatus(id);
        return status.state === ContainerState.CONTAINER_EXITED && status;
      });
    /** Waits until the shell has set its trap. */
    const ready = async (id: ContainerId) => {
      const { logPath } = await runtime.containerStatus(id);
      await pollUntil("the container's first line", 30_000, () => subject.hasLoggedReady(logPath));
    };
    const stateOf = async (id: ContainerId) => (await runtime.containerStatus(id)).state;

    test("Version returns CRI v1 and the runtime's name and version", async () => {
      const { runtimeApiVersion, runtimeName, runtimeVersion } = await runtime.version();
      expect(runtimeApiVersion).toBe("v1");
      expect(runtimeName).not.toBe("");
      expect(runtimeVersion).toMatch(/\d+\.\d+/);
    });

    test("Status reports RuntimeReady and NetworkReady", async () => {
      const { status } = await runtime.status();
      const ready = status?.conditions.filter(({ status }) => status).map(({ type }) => type);
      expect(ready).toEqual(expect.arrayContaining(["RuntimeReady", "NetworkReady"]));
    });

    test("Status reports the features of the runtime, unless it is too old", async () => {
      const { runtimeHandlers, features } = await runtime.status();
      const byDefault = runtimeHandlers.find(({ name }) => name === "")?.features;
      const { userNamespaces, recursiveReadOnlyMounts, supplementalGroupsPolicy } = subject.features ?? {};
      expect(byDefault?.userNamespaces).toBe(userNamespaces);
      expect(byDefault?.recursiveReadOnlyMounts).toBe(recursiveReadOnlyMounts);
      expect(features?.supplementalGroupsPolicy).toBe(supplementalGroupsPolicy);
    });

    for (const [policy, groups] of [
      [SupplementalGroupsPolicy.Merge, [3000n, 5000n, 50_000n]],
      [SupplementalGroupsPolicy.Strict, [3000n, 5000n]],
    ] as const)
      test(`ContainerStatus reports the groups of the user, ${policy === SupplementalGroupsPolicy.Strict ? "only the requested ones with Strict" : "those of the image included with Merge"}`, async () => {
        const config = buildSandboxConfig();
        const sandbox = await runtime.runPodSandbox(config, "");
        const containerConfig = buildContainerConfig("obeys-term", config.metadata!.uid);
        const securityContext = LinuxContainerSecurityContext.fromPartial({
          namespaceOptions: { pid: NamespaceMode.CONTAINER },
          runAsUser: { value: 4242n },
          runAsGroup: { value: 3000n },
          supplementalGroups: [5000n],
          supplementalGroupsPolicy: policy,
        });
        const asUser = ContainerConfig.fromPartial({ ...containerConfig, linux: { securityContext } });
        const container = await runtime.createContainer(sandbox, asUser, config);
        await runtime.startContainer(container);
        const { user } = await runtime.containerStatus(container);
        const linux = { uid: 4242n, gid: 3000n, supplementalGroups: [...groups] };
        expect(user?.linux).toEqual(subject.features === undefined ? undefined : linux);
      });

    test("a sandbox runs with an address, stops without one, and is removed", async () => {
      const config = buildSandboxConfig();
      const before = BigInt(Date.now() - 1_000) * 1_000_000n;
      const id = await runtime.runPodSandbox(config, "");
      const running = await runtime.podSandboxStatus(id);
      expect(running).toMatchObject({ id, metadata: config.metadata!, state: PodSandboxState.SANDBOX_READY });
      expect(running.labels).toEqual(config.labels);
      expect(running.annotations).toEqual(config.annotations);
      expect(running.network?.ip).toMatch(/^\d+\.\d+\.\d+\.\d+$/);
      expect(running.createdAt > before).toBe(true);

      await runtime.stopPodSandbox(id);
      const stopped = await runtime.podSandboxStatus(id);
      expect(stopped.state).toBe(PodSandboxState.SANDBOX_NOTREADY);
      expect(stopped.network?.ip ?? "").toBe("");
      expect((await runtime.listPodSandbox({ id })).map(({ state }) => state)).toEqual([
        PodSandboxState.SANDBOX_NOTREADY,
      ]);

      await runtime.removePodSandbox(id);
      expect(await runtime.listPodSandbox({ id })).toEqual([]);
      expect(await failureOf(runtime.podSandboxStatus(id))).toMatchObject({ name: "CriError", code: "NOT_FOUND" });
    });

    test("a sandbox on the host network has no address of its own", async () => {
      const namespaceOptions = { network: NamespaceMode.NODE };
      const id = await runtime.runPodSandbox(
        buildSandboxConfig({ linux: { securityContext: { namespaceOptions } } }),
        "",
      );
      const { network, linux } = await runtime.podSandboxStatus(id);
      expect(network?.ip ?? "").toBe("");
      expect(linux?.namespaces?.options?.network).toBe(NamespaceMode.NODE);
    });

    test("a second sandbox with the same metadata is refused", async () => {
      const config = buildSandboxConfig();
      await runtime.runPodSandbox(config, "");
      expect(await failureOf(runtime.runPodSandbox(config, ""))).toBeInstanceOf(CriError);
      expect(await runtime.listPodSandbox({ podUid: config.metadata!.uid as PodUid })).toHaveLength(1);
    });

    test("pods of the same name with different uids can run side by side", async () => {
      const sandboxes: SandboxId[] = [];
      for (const uid of ["one", "other"]) {
        const config = buildSandboxConfig({ metadata: { name: "same", uid, namespace: "contract", attempt: 0 } });
        const sandbox = await runtime.runPodSandbox(config, "");
        await runtime.createContainer(sandbox, buildContainerConfig("obeys-term", uid), config);
        sandboxes.push(sandbox);
      }
      expect(new Set(sandboxes).size).toBe(2);
    });

    test("stopping and removing succeed when repeated and for missing objects", async () => {
      const { sandbox, container } = await runPod("obeys-term");
      for (const _ of ["once", "twice"]) await runtime.stopContainer(container, 5);
      for (const _ of ["once", "twice"]) await runtime.removeContainer(container);
      await runtime.stopContainer(container, 5);
      for (const _ of ["once", "twice"]) await runtime.stopPodSandbox(sandbox);
      for (const _ of ["once", "twice"]) await runtime.removePodSandbox(sandbox);
      await runtime.stopPodSandbox(sandbox);
      await runtime.removeImage("berth.test/never-was:1");
    });

    test("the status and start of a missing sandbox or container are NOT_FOUND", async () => {
      const missingId = "0123456789abcdef";
      expect(await failureOf(runtime.podSandboxStatus(missingId as SandboxId))).toMatchObject({ code: "NOT_FOUND" });
      expect(await failureOf(runtime.containerStatus(missingId as ContainerId))).toMatchObject({ code: "NOT_FOUND" });
      expect(await failureOf(runtime.startContainer(missingId as ContainerId))).toMatchObject({ code: "NOT_FOUND" });
    });

    test("a container is created, runs and exits, and lists show each state in turn", async () => {
      const { sandbox, container, uid } = await runPod("obeys-term", { start: false });
      const listed = async () =>
        (await runtime.listContainers({ podUid: uid })).map(({ id, state }) => ({ id, state }));
      expect(await listed()).toEqual([{ id: container, state: ContainerState.CONTAINER_CREATED }]);
      const created = await runtime.containerStatus(container);
      expect(created).toMatchObject({ startedAt: 0n, finishedAt: 0n, exitCode: 0, reason: "" });

      await runtime.startContainer(container);
      expect(await listed()).toEqual([{ id: container, state: ContainerState.CONTAINER_RUNNING }]);
      const running = await runtime.containerStatus(container);
      expect(running.startedAt).toBeGreaterThan(running.createdAt);
      expect(running.finishedAt).toBe(0n);

      await runtime.stopContainer(container, 30);
      expect(await listed()).toEqual([{ id: container, state: ContainerState.CONTAINER_EXITED }]);
      const { finishedAt } = await exited(container);
      expect(finishedAt).toBeGreaterThan(running.startedAt);
      expect((await runtime.listContainers({ podSandboxId: sandbox })).map(({ id }) => id)).toEqual([container]);
    });

    test("the status returns metadata, labels, annotations and the log's absolute path", async () => {
      const { config, container, sandbox } = await runPod("obeys-term");
      const containerConfig = buildContainerConfig("obeys-term", config.metadata!.uid);
      const { metadata, labels, annotations } = containerConfig;
      const status = await runtime.containerStatus(container);
      expect(status).toMatchObject({ metadata: metadata!, labels, annotations });
      expect(status.logPath).toBe(`${config.logDirectory}/${containerConfig.logPath}`);
      const [listed] = await runtime.listContainers({ id: container });
      expect(listed).toMatchObject({ podSandboxId: sandbox, metadata: metadata!, labels, annotations });
    });

    test("a container's status shows the image's name, with an id or a digest as its reference", async () => {
      const id = (await runtime.imageStatus(subject.image))!.id;
      const config = buildSandboxConfig();
      const sandbox = await runtime.runPodSandbox(config, "");
      const byId = buildContainerConfig("obeys-term", config.metadata!.uid, id);
      const container = await runtime.createContainer(sandbox, byId, config);
      const { image, imageRef } = await runtime.containerStatus(container);
      expect(image?.image).toBe(subject.image);
      expect(imageRef).toMatch(/sha256:[0-9a-f]{64}$/);
    });

    for (const [behaviour, exitCode, reason] of [
      ["exits-0", 0, "Completed"],
      ["exits-3", 3, "Error"],
    ] as const)
      test(`a container that exits with ${exitCode} is ${reason}`, async () => {
        const { container } = await runPod(behaviour);
        expect(await exited(container)).toMatchObject({ exitCode, reason });
      });

    test("a container that handles SIGTERM exits with its own code, long before the grace period ends", async () => {
      const { container } = await runPod("obeys-term");
      await ready(container);
      const started = performance.now();
      await runtime.stopContainer(container, 60);
      expect(performance.now() - started).toBeLessThan(30_000);
      expect(await exited(container)).toMatchObject({ exitCode: 143, reason: "Error" });
    });

    test("a container that ignores SIGTERM is killed after the grace period, and not before", async () => {
      const { container } = await runPod("ignores-term");
      await ready(container);
      const started = performance.now();
      await runtime.stopContainer(container, 1);
      expect(performance.now() - started).toBeGreaterThanOrEqual(990);
      expect(await exited(container)).toMatchObject({ exitCode: 137, reason: "Error" });
    });

    test("without a grace period SIGKILL comes at once", async () => {
      const { container } = await runPod("ignores-term");
      const countedMs = startStopwatch();
      await runtime.stopContainer(container, 0);
      expect(countedMs()).toBeLessThan(5_000);
      expect((await exited(container)).exitCode).toBe(137);
    });

    for (const [what, behaviour, graceSeconds, exitCode] of [
      ["obeys SIGTERM", "obeys-term", 60, 143],
      ["is killed after the grace period", "ignores-term", 1, 137],
      ["is killed at once", "ignores-term", 0, 137],
    ] as const)
      test(`when StopContainer returns, the status shows the exit of a container that ${what}`, async () => {
        const { container } = await runPod(behaviour);
        await ready(container);
        await runtime.stopContainer(container, graceSeconds);
        const status = await runtime.containerStatus(container);
        expect(status).toMatchObject({ state: ContainerState.CONTAINER_EXITED, exitCode });
      });

    test("two concurrent stops of the same container both succeed", async () => {
      const { container } = await runPod("obeys-term");
      await Promise.all([runtime.stopContainer(container, 5), runtime.stopContainer(container, 5)]);
      expect(await stateOf(container)).toBe(ContainerState.CONTAINER_EXITED);
    });

    test("stopping a container that has never run leaves it created", async () => {
      const { container } = await runPod("obeys-term", { start: false });
      await runtime.stopContainer(container, 5);
      expect(await stateOf(container)).toBe(ContainerState.CONTAINER_CREATED);
    });

    test("a created container whose state the runtime has lost is unknown, does not start, and can be removed", async () => {
      const { container } = await runPod("obeys-term", { start: false });
      await subject.loseState(container);
      expect(await stateOf(container)).toBe(ContainerState.CONTAINER_UNKNOWN);
      expect(await failureOf(runtime.startContainer(container))).toMatchObject({ name: "CriError", code: "UNKNOWN" });
      expect(await stateOf(container)).toBe(ContainerState.CONTAINER_UNKNOWN);
      await runtime.removeContainer(container);
      expect(await failureOf(runtime.containerStatus(container))).toMatchObject({ code: "NOT_FOUND" });
    });

    test("a container starts only once", async () => {
      const { container } = await runPod("obeys-term");
      expect(await failureOf(runtime.startContainer(container))).toBeInstanceOf(CriError);
      expect(await stateOf(container)).toBe(ContainerState.CONTAINER_RUNNING);
      await runtime.stopContainer(container, 0);
      expect(await failureOf(runtime.startContainer(container))).toBeInstanceOf(CriError);
      expect(await stateOf(container)).toBe(ContainerState.CONTAINER_EXITED);
    });

    test("a container whose binary is missing fails to start and has exited with StartError and 128", async () => {
      const { container } = await runPod("has-no-binary", { start: false });
      expect(await failureOf(runtime.startContainer(container))).toMatchObject({ name: "CriError", code: "UNKNOWN" });
      const status = await exited(container);
      expect(status).toMatchObject({ exitCode: 128, reason: "StartError", startedAt: 0n });
      expect(status.message).toContain("no such file or directory");
      expect(status.finishedAt).toBeGreaterThan(status.createdAt);
    });

    test("the failed start of a container without its binary causes no event", async () => {
      const { changesOf, stopListening } = await followChanges(runtime);
      const { container } = await runPod("has-no-binary", { start: false });
      expect(await failureOf(runtime.startContainer(container))).toMatchObject({ code: "UNKNOWN" });
      // The events of a later container come after those of the failed start.
      const later = await runPod("obeys-term");
      await runtime.stopContainer(later.container, 0);
      await pollUntil("the end of the later container", 30_000, () => changesOf(later.container).includes("stopped"));
      expect(changesOf(container).filter((change) => change !== "created")).toEqual([]);
      await stopListening();
    });

    test("ExecSync runs a command in a running container and kills a slow one", async () => {
      const { container } = await runPod("obeys-term");
      const text = (bytes: Uint8Array) => String(Buffer.from(bytes));
      const argv = ["sh", "-c", "echo out; echo err >&2; exit 4"];
      const { stdout, stderr, exitCode } = await runtime.execSync(container, argv, 60);
      expect([text(stdout), text(stderr), exitCode]).toEqual(["out\n", "err\n", 4]);
      expect(await failureOf(runtime.execSync(container, ["sleep", "60"], 1))).toMatchObject({
        name: "CriError",
        code: "DEADLINE_EXCEEDED",
      });
      await runtime.stopContainer(container, 0);
      expect(await failureOf(runtime.execSync(container, ["true"], 5))).toMatchObject({
        name: "CriError",
        code: "UNKNOWN",
      });
      await runtime.removeContainer(container);
      expect(await failureOf(runtime.execSync(container, ["true"], 5))).toMatchObject({
        name: "CriError",
        code: "NOT_FOUND",
      });
    });

    test("reopenContainerLog succeeds for a running container; UNKNOWN if it is not running, NOT_FOUND if it is missing", async () => {
      const { container } = await runPod("obeys-term");
      await runtime.reopenContainerLog(container);
      await runtime.stopContainer(container, 0);
      expect(await failureOf(runtime.reopenContainerLog(container))).toMatchObject({ code: "UNKNOWN" });
      await runtime.removeContainer(container);
      expect(await failureOf(runtime.reopenContainerLog(container))).toMatchObject({ code: "NOT_FOUND" });
    });

    test("exec, attach and portForward of what runs return a URL of the streaming server", async () => {
      const { container, sandbox } = await runPod("obeys-term");
      const streams = { stdin: false, stdout: true, stderr: true, tty: false };
      const urls = [
        await runtime.exec(container, ["true"], streams),
        await runtime.attach(container, streams),
        await runtime.portForward(sandbox, []),
      ];
      expect(urls.map((url) => url.replace(/:\d+\/(\w+)\/.+$/, ":PORT/$1/TOKEN"))).toEqual([
        "http://127.0.0.1:PORT/exec/TOKEN",
        "http://127.0.0.1:PORT/attach/TOKEN",
        "http://127.0.0.1:PORT/portforward/TOKEN",
      ]);
      expect(new Set(urls).size).toBe(3);
    });

    test("exec, attach and portForward fail if nothing runs: UNKNOWN, or NOT_FOUND if it is missing", async () => {
      const stopped = await runPod("obeys-term");
      const streams = { stdin: false, stdout: true, stderr: true, tty: false };
      await runtime.stopContainer(stopped.container, 0);
      await runtime.stopPodSandbox(stopped.sandbox);
      for (const [container, sandbox, code] of [
        [stopped.container, stopped.sandbox, "UNKNOWN"],
        ["missing" as ContainerId, "missing" as SandboxId, "NOT_FOUND"],
      ] as const) {
        const failure = { name: "CriError", code };
        expect(await failureOf(runtime.exec(container, ["true"], streams))).toMatchObject(failure);
        expect(await failureOf(runtime.attach(container, streams))).toMatchObject(failure);
        expect(await failureOf(runtime.portForward(sandbox, []))).toMatchObject(failure);
      }
    });

    test("an update changes a running container, and its status shows that", async () => {
      const { container } = await runPod("obeys-term");
      const update = { memoryLimitInBytes: 64n * MI, cpuShares: 512n, cpuPeriod: 100_000n, cpuQuota: 50_000n };
      await runtime.updateContainerResources(container, LinuxContainerResources.fromPartial(update));
      const shown = async () => (await runtime.containerStatus(container)).resources?.linux;
      expect(await shown()).toMatchObject(update);
      await runtime.updateContainerResources(container, LinuxContainerResources.fromPartial({ cpuShares: 256n }));
      expect(await shown()).toMatchObject({ ...update, cpuShares: 256n });
    });

    test("the update of a container that has exited succeeds, and that of a missing one is NOT_FOUND", async () => {
      const { container } = await runPod("exits-0");
      await exited(container);
      const update = LinuxContainerResources.fromPartial({ cpuShares: 512n });
      await runtime.updateContainerResources(container, update);
      const missing = runtime.updateContainerResources("missing" as ContainerId, update);
      expect(await failureOf(missing)).toMatchObject({ code: "NOT_FOUND" });
    });

    test("the stats of a running container have its memory usage", async () => {
      const { container } = await runPod("obeys-term");
      const { memory } = await runtime.containerStats(container);
      expect(Number(memory?.usageBytes?.value)).toBeGreaterThan(0);
      const missing = runtime.containerStats("missing" as ContainerId);
      expect(await failureOf(missing)).toMatchObject({ code: "NOT_FOUND" });
    });

    test("the stats of all containers name them, of those that run they have CPU time and memory", async () => {
      const { sandbox, container } = await runPod("obeys-term");
      const other = await runPod("exits-0");
      await exited(other.container);
      const all = await runtime.listContainerStats({});
      expect(all.map(({ attributes }) => attributes?.id).toSorted()).toEqual([container, other.container].toSorted());
      const ended = all.find(({ attributes }) => attributes?.id === other.container);
      expect([ended?.cpu, ended?.memory]).toEqual([undefined, undefined]);
      const [{ attributes, cpu, memory } = {}] = await runtime.listContainerStats({
        podSandboxId: sandbox,
      });
      expect(attributes?.metadata?.name).toBe("obeys-term");
      expect(Number(cpu?.usageCoreNanoSeconds?.value)).toBeGreaterThan(0);
      expect(Number(memory?.workingSetBytes?.value)).toBeGreaterThan(0);
      expect(await runtime.listContainerStats({ id: "missing" as ContainerId })).toEqual([]);
    });

    test("the stats of a container have what it has written to its root file system, and not what another has", async () => {
      const { container } = await runPod("writes");
      const other = await runPod("obeys-term");
      const usedBytes = async (id: ContainerId) => {
        const { writableLayer } = await runtime.containerStats(id);
        return writableLayer?.usedBytes && Number(writableLayer.usedBytes.value);
      };
      const isMeasured = async () => ((await usedBytes(container)) ?? 0) >= WRITTEN_BYTES;
      await pollUntil("the size of the layer", MEASURED_WITHIN_MS, isMeasured);
      const ofOther = await pollUntil("that of the other", MEASURED_WITHIN_MS, () => usedBytes(other.container));
      expect(await usedBytes(container)).toBeLessThan(2 * WRITTEN_BYTES);
      expect(ofOther).toBeLessThan(WRITTEN_BYTES);
    });

    test("the stats of a sandbox without a cgroup of its pod name it, or are refused, by the runtime", async () => {
      const { sandbox } = await runPod("obeys-term");
      const answer = await runtime.listPodSandboxStats({}).then(
        (stats) => stats.map(({ attributes }) => attributes?.id),
        ({ code }) => code,
      );
      expect(answer).toEqual(subject.answers.sandboxStats === "listed" ? [sandbox] : "UNKNOWN");
    });

    test("a sandbox that is ready has a process, and a stopped one has none", async () => {
      const { sandbox } = await runPod("obeys-term");
      const { pid, image } = await runtime.podSandboxProcess(sandbox);
      expect(pid).toBeGreaterThan(0);
      expect(image).toContain("pause");
      await runtime.stopPodSandbox(sandbox);
      expect((await runtime.podSandboxProcess(sandbox)).pid).toBeUndefined();
      expect(await failureOf(runtime.podSandboxProcess("missing" as SandboxId))).toMatchObject({ code: "NOT_FOUND" });
    });

    test("an update of a sandbox is accepted, or not implemented, by the runtime", async () => {
      const { sandbox } = await runPod("obeys-term");
      const resources = LinuxContainerResources.fromPartial({ cpuShares: 512n });
      const answer = await runtime.updatePodSandboxResources(sandbox, { resources, overhead: undefined }).then(
        () => "accepted",
        ({ code }) => code,
      );
      expect(answer).toBe(subject.answers.sandboxUpdate);
    });

    test("a running container can be removed", async () => {
      const { container, uid } = await runPod("ignores-term");
      await runtime.removeContainer(container);
      expect(await runtime.listContainers({ podUid: uid })).toEqual([]);
    });

    test("stopping a sandbox kills its containers", async () => {
      const { sandbox, container } = await runPod("ignores-term");
      await runtime.stopPodSandbox(sandbox);
      expect(await exited(container)).toMatchObject({ exitCode: 137, reason: "Error" });
    });

    test("removing a running sandbox removes its containers too", async () => {
      const { sandbox, uid } = await runPod("ignores-term");
      await runtime.removePodSandbox(sandbox);
      expect(await runtime.listContainers({ podUid: uid })).toEqual([]);
      expect(await runtime.listPodSandbox({ podUid: uid })).toEqual([]);
    });

    test("lists are filtered by pod, by sandbox and by id, and all conditions must hold", async () => {
      const [a, b] = [await runPod("obeys-term"), await runPod("obeys-term")];
      const ids = async (filter: Parameters<Runtime["listContainers"]>[0]) =>
        (await runtime.listContainers(filter)).map(({ id }) => id).sort();
      expect(await ids({})).toEqual([a.container, b.container].sort());
      expect(await ids({ podUid: a.uid })).toEqual([a.container]);
      expect(await ids({ podSandboxId: b.sandbox })).toEqual([b.container]);
      expect(await ids({ id: a.container })).toEqual([a.container]);
      expect(await ids({ id: a.container, podUid: b.uid })).toEqual([]);
      expect((await runtime.listPodSandbox({})).map(({ id }) => id).sort()).toEqual([a.sandbox, b.sandbox].sort());
      expect((await runtime.listPodSandbox({ podUid: b.uid })).map(({ id }) => id)).toEqual([b.sandbox]);
      expect(await runtime.listPodSandbox({ id: a.sandbox, podUid: b.uid })).toEqual([]);
    });

    test("creating a container of a missing image is NOT_FOUND", async () => {
      const config = buildSandboxConfig();
      const sandbox = await runtime.runPodSandbox(config, "");
      const container = buildContainerConfig("obeys-term", config.metadata!.uid, "berth.test/never-was:1");
      const creation = runtime.createContainer(sandbox, container, config);
      expect(await failureOf(creation)).toMatchObject({ code: "NOT_FOUND" });
    });

    test("creating a container in a missing sandbox is NOT_FOUND", async () => {
      const config = buildSandboxConfig();
      const creation = runtime.createContainer(
        "0123abcd" as SandboxId,
        buildContainerConfig("obeys-term", "u"),
        config,
      );
      expect(await failureOf(creation)).toMatchObject({ code: "NOT_FOUND" });
    });

    test("imageStatus finds an image by name and by id, and returns undefined for a missing one", async () => {
      const image = await runtime.imageStatus(subject.image);
      expect(image?.repoTags).toContain(subject.image);
      expect(image?.size).toBeGreaterThan(0n);
      expect(await runtime.imageStatus(image!.id)).toEqual(image!);
      expect(await runtime.imageStatus("berth.test/never-was:1")).toBeUndefined();
      expect((await runtime.listImages()).map(({ id }) => id)).toContain(image!.id);
    });

    test("imageFsInfo names the mount point of the images", async () => {
      const { imageFilesystems } = await runtime.imageFsInfo();
      expect(imageFilesystems[0]?.fsId?.mountpoint).toStartWith("/");
    });

    test("pulling from an unreachable registry fails soon", async () => {
      const countedMs = startStopwatch();
      const pull = runtime.pullImage("127.0.0.1:1/never-was:1", undefined, undefined);
      expect(await failureOf(pull)).toBeInstanceOf(CriError);
      expect(countedMs()).toBeLessThan(10_000);
    });

    test("a call that outlives its deadline is DEADLINE_EXCEEDED", async () => {
      const { container } = await runPod("ignores-term");
      await ready(container);
      const stop = runtime.stopContainer(container, 60, { deadlineMs: 300 });
      expect(await failureOf(stop)).toMatchObject({
        name: "CriError",
        code: "DEADLINE_EXCEEDED",
        verb: expect.any(String),
      });
      expect(await stateOf(container)).toBe(ContainerState.CONTAINER_RUNNING);
    });

    test("a call that the caller aborts is CANCELLED, whether it was sent or not", async () => {
      const { container } = await runPod("ignores-term");
      await ready(container);
      const caller = new AbortController();
      const stop = runtime.stopContainer(container, 60, { signal: caller.signal });
      setTimeout(() => caller.abort(), 100);
      expect(await failureOf(stop)).toMatchObject({ name: "CriError", code: "CANCELLED" });
      expect(await failureOf(runtime.version({ signal: caller.signal }))).toMatchObject({ code: "CANCELLED" });
      expect(await stateOf(container)).toBe(ContainerState.CONTAINER_RUNNING);
    });

    test("events report sandboxes and containers until they are removed or the listener aborts", async () => {
      const received: RuntimeEvent[] = [];
      const listener = new AbortController();
      const following = runtime.events((event) => received.push(event), listener.signal);
      await pollUntil("the connection", 30_000, () => received.length > 0);
      expect(received[0]).toMatchObject({ kind: "connected" });
      const { sandbox, container, uid } = await runPod("ignores-term");
      await runtime.stopContainer(container, 0);
      await runtime.removeContainer(container);
      await runtime.stopPodSandbox(sandbox);
      await runtime.removePodSandbox(sandbox);
      const about = (id: string) => received.filter(isChange).filter(({ containerId }) => containerId === id);
      // Some runtimes report an exit twice.
      const changes = (id: string) => [...new Set(about(id).map(({ change }) => change))];
      const isOfCri = source === "cri-events";
      const expectedChanges: ContainerChange[] = [
        ...(isOfCri ? ["created" as const] : []),
        "started",
        "stopped",
        "deleted",
      ];
      await pollUntil("the last event", 30_000, () => changes(sandbox).includes("deleted"));
      expect(changes(container)).toEqual(expectedChanges);
      expect(changes(sandbox)).toEqual(expectedChanges);
      if (isOfCri)
        for (const [id, isSandbox] of [
          [sandbox, true],
          [container, false],
        ] as const)
          expect(about(id)[0]).toMatchObject({ podUid: uid, podSandboxId: sandbox, isSandbox });
      listener.abort();
      await following;
      const count = received.length;
      // Not one that exits by itself: containerd 2.1 fails to remove the sandbox of a container that exits just then.
      await runtime.removePodSandbox((await runPod("ignores-term")).sandbox);
      expect(received).toHaveLength(count);
    });

    if (source === "cri-events")
      test("the status shows an exit when its CRI event arrives", async () => {
        const listener = new AbortController();
        const connected = Promise.withResolvers<void>();
        const reported = Promise.withResolvers<ContainerStatus>();
        let container: ContainerId | undefined;
        const following = runtime.events((event) => {
          if (event.kind === "connected") connected.resolve();
          if (isChange(event) && event.change === "stopped" && event.containerId === container)
            runtime.containerStatus(container).then(reported.resolve, reported.reject);
        }, listener.signal);
        try {
          await connected.promise;
          ({ container } = await runPod("exits-3", { start: false }));
          await runtime.startContainer(container);
          const status = await reported.promise;
          expect(status).toMatchObject({ state: ContainerState.CONTAINER_EXITED, exitCode: 3 });
        } finally {
          listener.abort();
          await following;
        }
      });

    test("an exit is reported within a second; containerd's own event carries the status's exit code and time", async () => {
      const stopped = Promise.withResolvers<{ readonly at: number; readonly exit: EventExit | undefined }>();
      const connected = Promise.withResolvers<void>();
      const listener = new AbortController();
      let container: ContainerId | undefined;
      const following = runtime.events((event) => {
        if (event.kind === "connected") connected.resolve();
        if (isChange(event) && event.change === "stopped" && event.containerId === container)
          stopped.resolve({ at: Date.now(), exit: event.exit });
      }, listener.signal);
      await connected.promise;
      container = (await runPod("obeys-term")).container;
      await runtime.stopContainer(container, 0);
      const { finishedAt, exitCode } = await runtime.containerStatus(container);
      const { at, exit } = await stopped.promise;
      expect(at - Number(finishedAt / 1_000_000n)).toBeLessThan(1_000);
      expect(exit).toEqual(source === "containerd-events" ? { exitCode, finishedAt } : undefined);
      listener.abort();
      await following;
    });
  });
}
