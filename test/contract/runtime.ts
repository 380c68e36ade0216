import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { CriError } from "../../cri/error.ts";
import type { ContainerChange, EventSource, Runtime, RuntimeEvent, ToldExit } from "../../cri/runtime.ts";
import {
  ContainerConfig,
  ContainerState,
  LinuxContainerSecurityContext,
  NamespaceMode,
  PodSandboxConfig,
  PodSandboxState,
  SupplementalGroupsPolicy,
} from "../../proto/cri/gen/api.ts";
import type { ContainerId, PodUid, SandboxId } from "../../proto/ids.ts";
import { podUidLabel } from "../../proto/kubernetes/well-known-names.ts";
import { until } from "../bed/poll-until.ts";
import type { Command, Program } from "../fakes/runtime.ts";

/** A runtime under test. */
export interface RuntimeSubject {
  readonly runtime: Runtime;
  /** An image that is on the node and has busybox' commands. */
  readonly image: string;
  /** A folder for logs, below which the suite may write anything. */
  readonly logFolder: string;
  /** Whether a container has written its first line, "ready". */
  hasSpoken(logPath: string): Promise<boolean>;
  /** What it says that it can do; undefined: it is too old to say. */
  readonly abilities: { readonly userNamespaces: boolean; readonly supplementalGroupsPolicy: boolean } | undefined;
  /** Where its events come from. Only those of the CRI say which pod they are about, and tell of what was only created. */
  readonly source: EventSource;
  end(): Promise<void>;
}

/** What the containers of this suite do: the command for a real runtime, and the same in the fake's words. */
export const behaviours = {
  "exits-0": { command: ["true"], program: { exitsAfterMs: 0, exitCode: 0 } },
  "exits-3": { command: ["sh", "-c", "exit 3"], program: { exitsAfterMs: 0, exitCode: 3 } },
  "obeys-term": {
    command: ["sh", "-c", "trap 'exit 143' TERM; echo ready; while true; do sleep 0.02; done"],
    program: { onTerm: "exits" },
  },
  "ignores-term": { command: ["sh", "-c", "trap '' TERM; echo ready; sleep 600"], program: { onTerm: "ignores" } },
  "has-no-binary": { command: ["/does-not-exist"], program: { startError: "no such file or directory" } },
} as const satisfies Readonly<Record<string, { readonly command: readonly string[]; readonly program: Program }>>;

/** What is run in a container, for the fake's sake. */
export const commands: ReadonlyMap<string, Command> = new Map([
  ["sh -c echo out; echo err >&2; exit 4", { stdout: "out\n", stderr: "err\n", exitCode: 4 }],
  ["sleep 60", { lastsMs: 60_000 }],
]);

export type Behaviour = keyof typeof behaviours;

/**
 * The error that a call ends with. Unlike `expect().rejects`, which spins Bun's event loop in place, it may be used right
 * after another answer has come over the same socket.
 */
export const failureOf = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    (answer) => new Error(`it succeeded: ${JSON.stringify(answer)}`),
    (error: unknown) => error,
  );

type Change = Extract<RuntimeEvent, { kind: "container" }>;
const isChange = (event: RuntimeEvent): event is Change => event.kind === "container";

/** What every implementation of `Runtime` must do, the fake and the real ones alike. */
export function runtimeContract(name: string, make: () => Promise<RuntimeSubject>): void {
  // When a test times out, Bun kills all children of the process, a containerd that other tests still need among them.
  setDefaultTimeout(60_000);
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
      for (const { id } of sandboxes) await runtime.removePodSandbox(id as SandboxId);
    });
    afterAll(() => subject.end());

    function aSandbox(overrides: Parameters<typeof PodSandboxConfig.fromPartial>[0] = {}): PodSandboxConfig {
      const uid = `pod-${++pods}`;
      return PodSandboxConfig.fromPartial({
        metadata: { name: uid, uid, namespace: "contract", attempt: 2 },
        logDirectory: `${subject.logFolder}/${uid}`,
        labels: { [podUidLabel]: uid, colour: "green" },
        annotations: { "example.test/note": "kept verbatim: ✓" },
        linux: {},
        ...overrides,
      });
    }
    function aContainer(behaviour: Behaviour, uid: string, image = subject.image): ContainerConfig {
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
    /** A pod with one container, which is started unless it is only to be created. */
    async function aPod(behaviour: Behaviour, { start = true } = {}) {
      const config = aSandbox();
      const uid = config.metadata!.uid as PodUid;
      const sandbox = await runtime.runPodSandbox(config, "");
      const container = await runtime.createContainer(sandbox, aContainer(behaviour, uid), config);
      if (start) await runtime.startContainer(container);
      return { config, uid, sandbox, container };
    }
    const exited = (id: ContainerId) =>
      until("the container's end", 5_000, async () => {
        const status = await runtime.containerStatus(id);
        return status.state === ContainerState.CONTAINER_EXITED && status;
      });
    /** A shell needs a moment until it has set its trap. */
    const ready = async (id: ContainerId) => {
      const { logPath } = await runtime.containerStatus(id);
      await until("the container's first line", 5_000, () => subject.hasSpoken(logPath));
    };
    const stateOf = async (id: ContainerId) => (await runtime.containerStatus(id)).state;

    test("speaks CRI v1 and says its name", async () => {
      const { runtimeApiVersion, runtimeName, runtimeVersion } = await runtime.version();
      expect(runtimeApiVersion).toBe("v1");
      expect(runtimeName).not.toBe("");
      expect(runtimeVersion).toMatch(/\d+\.\d+/);
    });

    test("is ready, its network too", async () => {
      const { status } = await runtime.status();
      const ready = status?.conditions.filter(({ status }) => status).map(({ type }) => type);
      expect(ready).toEqual(expect.arrayContaining(["RuntimeReady", "NetworkReady"]));
    });

    test("says what it can do, as far as it is new enough to say", async () => {
      const { runtimeHandlers, features } = await runtime.status();
      const byDefault = runtimeHandlers.find(({ name }) => name === "")?.features;
      const { userNamespaces, supplementalGroupsPolicy } = subject.abilities ?? {};
      expect(byDefault?.userNamespaces).toBe(userNamespaces);
      expect(features?.supplementalGroupsPolicy).toBe(supplementalGroupsPolicy);
    });

    for (const [policy, groups] of [
      [SupplementalGroupsPolicy.Merge, [3000n, 5000n, 50_000n]],
      [SupplementalGroupsPolicy.Strict, [3000n, 5000n]],
    ] as const)
      test(`tells the groups of a container, ${policy === SupplementalGroupsPolicy.Strict ? "none but those asked for" : "with those that the image gives its user"}`, async () => {
        const config = aSandbox();
        const sandbox = await runtime.runPodSandbox(config, "");
        const wanted = aContainer("obeys-term", config.metadata!.uid);
        const securityContext = LinuxContainerSecurityContext.fromPartial({
          namespaceOptions: { pid: NamespaceMode.CONTAINER },
          runAsUser: { value: 4242n },
          runAsGroup: { value: 3000n },
          supplementalGroups: [5000n],
          supplementalGroupsPolicy: policy,
        });
        const asUser = ContainerConfig.fromPartial({ ...wanted, linux: { securityContext } });
        const container = await runtime.createContainer(sandbox, asUser, config);
        await runtime.startContainer(container);
        const { user } = await runtime.containerStatus(container);
        const linux = { uid: 4242n, gid: 3000n, supplementalGroups: [...groups] };
        expect(user?.linux).toEqual(subject.abilities === undefined ? undefined : linux);
      });

    test("a sandbox runs, has an address, stops, loses it, and goes", async () => {
      const config = aSandbox();
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

    test("a sandbox on the host's network has no address of its own", async () => {
      const namespaceOptions = { network: NamespaceMode.NODE };
      const id = await runtime.runPodSandbox(aSandbox({ linux: { securityContext: { namespaceOptions } } }), "");
      const { network, linux } = await runtime.podSandboxStatus(id);
      expect(network?.ip ?? "").toBe("");
      expect(linux?.namespaces?.options?.network).toBe(NamespaceMode.NODE);
    });

    test("a second sandbox with the same metadata is refused", async () => {
      const config = aSandbox();
      await runtime.runPodSandbox(config, "");
      expect(await failureOf(runtime.runPodSandbox(config, ""))).toBeInstanceOf(CriError);
      expect(await runtime.listPodSandbox({ podUid: config.metadata!.uid as PodUid })).toHaveLength(1);
    });

    test("pods of the same name and another uid live side by side", async () => {
      const sandboxes: SandboxId[] = [];
      for (const uid of ["one", "other"]) {
        const config = aSandbox({ metadata: { name: "same", uid, namespace: "contract", attempt: 0 } });
        const sandbox = await runtime.runPodSandbox(config, "");
        await runtime.createContainer(sandbox, aContainer("obeys-term", uid), config);
        sandboxes.push(sandbox);
      }
      expect(new Set(sandboxes).size).toBe(2);
    });

    test("stopping and removing twice, or what never was, succeeds", async () => {
      const { sandbox, container } = await aPod("obeys-term");
      for (const _ of ["once", "twice"]) await runtime.stopContainer(container, 5);
      for (const _ of ["once", "twice"]) await runtime.removeContainer(container);
      await runtime.stopContainer(container, 5);
      for (const _ of ["once", "twice"]) await runtime.stopPodSandbox(sandbox);
      for (const _ of ["once", "twice"]) await runtime.removePodSandbox(sandbox);
      await runtime.stopPodSandbox(sandbox);
      await runtime.removeImage("berth.test/never-was:1");
    });

    test("the status of what is absent is NOT_FOUND", async () => {
      const nobody = "0123456789abcdef";
      expect(await failureOf(runtime.podSandboxStatus(nobody as SandboxId))).toMatchObject({ code: "NOT_FOUND" });
      expect(await failureOf(runtime.containerStatus(nobody as ContainerId))).toMatchObject({ code: "NOT_FOUND" });
      expect(await failureOf(runtime.startContainer(nobody as ContainerId))).toMatchObject({ code: "NOT_FOUND" });
    });

    test("a container is created, runs and exits, and lists show each state", async () => {
      const { sandbox, container, uid } = await aPod("obeys-term", { start: false });
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

    test("metadata, labels and annotations come back, and the log's absolute path", async () => {
      const { config, container, sandbox } = await aPod("obeys-term");
      const wanted = aContainer("obeys-term", config.metadata!.uid);
      const { metadata, labels, annotations } = wanted;
      const status = await runtime.containerStatus(container);
      expect(status).toMatchObject({ metadata: metadata!, labels, annotations });
      expect(status.logPath).toBe(`${config.logDirectory}/${wanted.logPath}`);
      const [listed] = await runtime.listContainers({ id: container });
      expect(listed).toMatchObject({ podSandboxId: sandbox, metadata: metadata!, labels, annotations });
    });

    test("the image is shown by name, its reference is an id or a digest", async () => {
      const id = (await runtime.imageStatus(subject.image))!.id;
      const config = aSandbox();
      const sandbox = await runtime.runPodSandbox(config, "");
      const byId = aContainer("obeys-term", config.metadata!.uid, id);
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
        const { container } = await aPod(behaviour);
        expect(await exited(container)).toMatchObject({ exitCode, reason });
      });

    test("a container that obeys SIGTERM ends with its own code, long before the grace period does", async () => {
      const { container } = await aPod("obeys-term");
      await ready(container);
      const started = performance.now();
      await runtime.stopContainer(container, 30);
      expect(performance.now() - started).toBeLessThan(5_000);
      expect(await exited(container)).toMatchObject({ exitCode: 143, reason: "Error" });
    });

    test("a container that ignores SIGTERM is killed after the grace period, and not before", async () => {
      const { container } = await aPod("ignores-term");
      await ready(container);
      const started = performance.now();
      await runtime.stopContainer(container, 1);
      expect(performance.now() - started).toBeGreaterThanOrEqual(990);
      expect(await exited(container)).toMatchObject({ exitCode: 137, reason: "Error" });
    });

    test("without a grace period SIGKILL comes at once", async () => {
      const { container } = await aPod("ignores-term");
      const started = performance.now();
      await runtime.stopContainer(container, 0);
      expect(performance.now() - started).toBeLessThan(5_000);
      expect((await exited(container)).exitCode).toBe(137);
    });

    test("two who stop the same container both succeed", async () => {
      const { container } = await aPod("obeys-term");
      await Promise.all([runtime.stopContainer(container, 5), runtime.stopContainer(container, 5)]);
      expect(await stateOf(container)).toBe(ContainerState.CONTAINER_EXITED);
    });

    test("stopping a container that has never run leaves it created", async () => {
      const { container } = await aPod("obeys-term", { start: false });
      await runtime.stopContainer(container, 5);
      expect(await stateOf(container)).toBe(ContainerState.CONTAINER_CREATED);
    });

    test("a container starts only once", async () => {
      const { container } = await aPod("obeys-term");
      expect(await failureOf(runtime.startContainer(container))).toBeInstanceOf(CriError);
      expect(await stateOf(container)).toBe(ContainerState.CONTAINER_RUNNING);
      await runtime.stopContainer(container, 0);
      expect(await failureOf(runtime.startContainer(container))).toBeInstanceOf(CriError);
      expect(await stateOf(container)).toBe(ContainerState.CONTAINER_EXITED);
    });

    test("a container without its binary fails to start and is exited with StartError and 128", async () => {
      const { container } = await aPod("has-no-binary", { start: false });
      expect(await failureOf(runtime.startContainer(container))).toMatchObject({ name: "CriError", code: "UNKNOWN" });
      const status = await exited(container);
      expect(status).toMatchObject({ exitCode: 128, reason: "StartError", startedAt: 0n });
      expect(status.message).toContain("no such file or directory");
      expect(status.finishedAt).toBeGreaterThan(status.createdAt);
    });

    test("a command is run in a container that runs, and a slow one is killed", async () => {
      const { container } = await aPod("obeys-term");
      const text = (bytes: Uint8Array) => String(Buffer.from(bytes));
      const argv = ["sh", "-c", "echo out; echo err >&2; exit 4"];
      const { stdout, stderr, exitCode } = await runtime.execSync(container, argv, 5);
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

    test("a running container can be removed", async () => {
      const { container, uid } = await aPod("ignores-term");
      await runtime.removeContainer(container);
      expect(await runtime.listContainers({ podUid: uid })).toEqual([]);
    });

    test("stopping a sandbox kills what runs in it", async () => {
      const { sandbox, container } = await aPod("ignores-term");
      await runtime.stopPodSandbox(sandbox);
      expect(await exited(container)).toMatchObject({ exitCode: 137, reason: "Error" });
    });

    test("removing a running sandbox removes its containers too", async () => {
      const { sandbox, uid } = await aPod("ignores-term");
      await runtime.removePodSandbox(sandbox);
      expect(await runtime.listContainers({ podUid: uid })).toEqual([]);
      expect(await runtime.listPodSandbox({ podUid: uid })).toEqual([]);
    });

    test("lists are filtered by pod, by sandbox and by id, and all conditions must hold", async () => {
      const [a, b] = [await aPod("obeys-term"), await aPod("obeys-term")];
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

    test("a container of an image that is not there is NOT_FOUND", async () => {
      const config = aSandbox();
      const sandbox = await runtime.runPodSandbox(config, "");
      const container = aContainer("obeys-term", config.metadata!.uid, "berth.test/never-was:1");
      const creation = runtime.createContainer(sandbox, container, config);
      expect(await failureOf(creation)).toMatchObject({ code: "NOT_FOUND" });
    });

    test("a container in a sandbox that is not there is NOT_FOUND", async () => {
      const config = aSandbox();
      const creation = runtime.createContainer("0123abcd" as SandboxId, aContainer("obeys-term", "u"), config);
      expect(await failureOf(creation)).toMatchObject({ code: "NOT_FOUND" });
    });

    test("an image is found by name and by id, or is undefined", async () => {
      const image = await runtime.imageStatus(subject.image);
      expect(image?.repoTags).toContain(subject.image);
      expect(image?.size).toBeGreaterThan(0n);
      expect(await runtime.imageStatus(image!.id)).toEqual(image!);
      expect(await runtime.imageStatus("berth.test/never-was:1")).toBeUndefined();
      expect((await runtime.listImages()).map(({ id }) => id)).toContain(image!.id);
    });

    test("images live on a file system of this machine", async () => {
      const { imageFilesystems } = await runtime.imageFsInfo();
      expect(imageFilesystems[0]?.fsId?.mountpoint).toStartWith("/");
    });

    test("pulling an image that nobody has fails, and soon", async () => {
      const started = performance.now();
      const pull = runtime.pullImage("127.0.0.1:1/never-was:1", undefined, undefined);
      expect(await failureOf(pull)).toBeInstanceOf(CriError);
      expect(performance.now() - started).toBeLessThan(10_000);
    });

    test("a call that outlives its deadline is DEADLINE_EXCEEDED", async () => {
      const { container } = await aPod("ignores-term");
      await ready(container);
      const stop = runtime.stopContainer(container, 60, { deadlineMs: 300 });
      expect(await failureOf(stop)).toMatchObject({
        name: "CriError",
        code: "DEADLINE_EXCEEDED",
        verb: expect.any(String),
      });
      expect(await stateOf(container)).toBe(ContainerState.CONTAINER_RUNNING);
    });

    test("a call that the caller gives up is CANCELLED, whether it was sent or not", async () => {
      const { container } = await aPod("ignores-term");
      await ready(container);
      const caller = new AbortController();
      const stop = runtime.stopContainer(container, 60, { signal: caller.signal });
      setTimeout(() => caller.abort(), 100);
      expect(await failureOf(stop)).toMatchObject({ name: "CriError", code: "CANCELLED" });
      expect(await failureOf(runtime.version({ signal: caller.signal }))).toMatchObject({ code: "CANCELLED" });
      expect(await stateOf(container)).toBe(ContainerState.CONTAINER_RUNNING);
    });

    test("events tell of sandboxes and containers until their removal, and until the listener leaves", async () => {
      const heard: RuntimeEvent[] = [];
      const listener = new AbortController();
      const following = runtime.events((event) => heard.push(event), listener.signal);
      await until("the connection", 5_000, () => heard.length > 0);
      expect(heard[0]).toMatchObject({ kind: "connected" });
      const { sandbox, container, uid } = await aPod("ignores-term");
      await runtime.stopContainer(container, 0);
      await runtime.removeContainer(container);
      await runtime.stopPodSandbox(sandbox);
      await runtime.removePodSandbox(sandbox);
      const about = (id: string) => heard.filter(isChange).filter(({ containerId }) => containerId === id);
      // Some runtimes tell of an end twice.
      const changes = (id: string) => [...new Set(about(id).map(({ change }) => change))];
      const isOfCri = subject.source === "cri-events";
      const life: ContainerChange[] = [...(isOfCri ? ["created" as const] : []), "started", "stopped", "deleted"];
      await until("the last event", 5_000, () => changes(sandbox).includes("deleted"));
      expect(changes(container)).toEqual(life);
      expect(changes(sandbox)).toEqual(life);
      if (isOfCri)
        for (const [id, isSandbox] of [
          [sandbox, true],
          [container, false],
        ] as const)
          expect(about(id)[0]).toMatchObject({ podUid: uid, podSandboxId: sandbox, isSandbox });
      listener.abort();
      await following;
      const count = heard.length;
      await runtime.removePodSandbox((await aPod("exits-0")).sandbox);
      expect(heard).toHaveLength(count);
    });

    test("an end is told within a second, and by containerd's own events as the status will have it", async () => {
      const stopped = Promise.withResolvers<{ readonly at: number; readonly exit: ToldExit | undefined }>();
      const connected = Promise.withResolvers<void>();
      const listener = new AbortController();
      let container: ContainerId | undefined;
      const following = runtime.events((event) => {
        if (event.kind === "connected") connected.resolve();
        if (isChange(event) && event.change === "stopped" && event.containerId === container)
          stopped.resolve({ at: Date.now(), exit: event.exit });
      }, listener.signal);
      await connected.promise;
      container = (await aPod("obeys-term")).container;
      await runtime.stopContainer(container, 0);
      const { finishedAt, exitCode } = await runtime.containerStatus(container);
      const { at, exit } = await stopped.promise;
      expect(at - Number(finishedAt / 1_000_000n)).toBeLessThan(1_000);
      expect(exit).toEqual(subject.source === "containerd-events" ? { exitCode, finishedAt } : undefined);
      listener.abort();
      await following;
    });
  });
}
