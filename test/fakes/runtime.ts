import { isDeepStrictEqual } from "node:util";
import { CriError } from "../../cri/error.ts";
import type {
  CallOptions,
  ContainerChange,
  ContainerFilter,
  EventSource,
  PullOptions,
  Runtime,
  RuntimeEvent,
  RuntimeEventListener,
  SandboxFilter,
} from "../../cri/runtime.ts";
import { type Clock, sleep } from "../../host/clock.ts";
import {
  type AuthConfig,
  type Container,
  type ContainerConfig,
  ContainerState,
  ContainerStatus,
  type ContainerUser,
  ExecSyncResponse,
  Image,
  ImageFsInfoResponse,
  NamespaceMode,
  type PodSandbox,
  type PodSandboxConfig,
  PodSandboxState,
  PodSandboxStatus,
  StatusResponse,
  SupplementalGroupsPolicy,
  type UserNamespace,
  VersionResponse,
} from "../../proto/cri/gen/api.ts";
import type { ContainerId, ImageRef, PodUid, SandboxId } from "../../proto/ids.ts";
import { podUidLabel } from "../../proto/kubernetes/well-known-names.ts";

export type RuntimeVerb = Exclude<keyof Runtime, "events">;
/** What a call is about, as the journal shows it: "web/a #0", an id, an image. */
export type Hook = (about: string) => Promise<void> | void;

/** How a container's process behaves. Without a word it runs until it is told to stop, and then stops at once. */
export interface Program {
  readonly exitsAfterMs?: number;
  readonly exitCode?: number;
  /** What SIGTERM does; `ignores` makes the grace period pass. */
  readonly onTerm?: "exits" | "ignores";
  /** Makes StartContainer fail, as for a binary that does not exist. */
  readonly startError?: string;
}

/** What a command does that is run in a container. */
export interface Command {
  readonly exitCode?: number;
  readonly stdout?: string;
  readonly stderr?: string;
  readonly lastsMs?: number;
}

export interface FakeRuntimeOptions {
  readonly clock: Clock;
  readonly source?: EventSource;
  readonly requestTimeoutMs?: number;
}

/** One change of the fake's world, whoever caused it. */
export interface Happening {
  readonly at: number;
  readonly what: "sandbox" | "container";
  readonly change: Exclude<ContainerChange, "unknown">;
  readonly id: string;
  /** Equal for two things of which only one may run at a time: the pod's uid, with the container's name for containers. */
  readonly role: string;
}

interface FakeSandbox {
  readonly id: SandboxId;
  readonly config: PodSandboxConfig;
  readonly runtimeHandler: string;
  readonly createdAt: bigint;
  readonly ip: string;
  state: PodSandboxState;
}

interface FakeContainer {
  readonly id: ContainerId;
  readonly sandbox: FakeSandbox;
  readonly config: ContainerConfig;
  readonly imageRef: string;
  readonly createdAt: bigint;
  state: ContainerState;
  startedAt: bigint;
  finishedAt: bigint;
  exitCode: number;
  reason: string;
  message: string;
  cancelTimer: () => void;
  readonly whenEnded: Set<() => void>;
}

const disconnected = {
  kind: "disconnected",
  error: new CriError("UNAVAILABLE", "events", "the runtime is down"),
  socket: "/run/fake.sock",
} as const;

/** An in-memory container runtime that behaves as containerd does, as far as the contract goes. */
export class FakeRuntime implements Runtime {
  readonly sandboxes = new Map<SandboxId, FakeSandbox>();
  readonly containers = new Map<ContainerId, FakeContainer>();
  /** What is on the node; `addImage` fills it. */
  readonly images = new Map<string, Image>();
  /** What can be pulled; an error makes the pull fail with it, each time. */
  readonly registry = new Map<string, CriError | undefined>();
  /** Those that are pulled only by this login, `user:password`. */
  readonly privateImages = new Map<string, string>();
  /** The annotations that came with each pull. */
  readonly pullAnnotations: Readonly<Record<string, string>>[] = [];
  /** By which login each pull was tried. */
  readonly logins: (string | undefined)[] = [];
  /** By container name or by image; the name wins. */
  readonly programs = new Map<string, Program>();
  /** By its words with spaces between them; one that is not known succeeds at once, and says nothing. */
  readonly commands = new Map<string, Command>();
  /** Fails the next calls of a verb before they have any effect, oldest first. */
  failures: Partial<Record<RuntimeVerb, CriError[]>> = {};
  /** Awaited before a verb has its effect; it may throw. */
  before: Partial<Record<RuntimeVerb, Hook>> = {};
  /** Awaited between a verb's effect and its answer; it may throw. */
  after: Partial<Record<RuntimeVerb, Hook>> = {};
  /** Every call, in order: the verb and what it is about. */
  readonly calls: string[] = [];
  /** Those of them that their caller gave up. */
  readonly givenUp: string[] = [];
  readonly timeline: Happening[] = [];
  /** While true, changes happen without events. */
  losesEvents = false;
  conditions = { RuntimeReady: true, NetworkReady: true };
  /** What it says that it can do, for the default handler and one called `runc`; undefined: it is too old to say. */
  abilities: { userNamespaces: boolean; supplementalGroupsPolicy: boolean } | undefined = {
    userNamespaces: true,
    supplementalGroupsPolicy: true,
  };
  /** By user, the further groups that the images' own files give it. */
  readonly groupsInImages = new Map<bigint, readonly bigint[]>();

  readonly #clock: Clock;
  readonly #source: EventSource;
  readonly #requestTimeoutMs: number;
  readonly #listeners = new Set<RuntimeEventListener>();
  readonly #interrupts = new Set<(error: CriError) => void>();
  #ids = 0;
  #ticks = 0n;
  #isDown = false;

  constructor({ clock, source = "cri-events", requestTimeoutMs = 120_000 }: FakeRuntimeOptions) {
    this.#clock = clock;
    this.#source = source;
    this.#requestTimeoutMs = requestTimeoutMs;
  }

  version(options?: CallOptions): Promise<VersionResponse> {
    return this.#call("version", "", options, () =>
      VersionResponse.fromPartial({
        version: "0.1.0",
        runtimeName: "fake",
        runtimeVersion: "1.0.0",
        runtimeApiVersion: "v1",
      }),
    );
  }

  status(options?: CallOptions): Promise<StatusResponse> {
    return this.#call("status", "", options, () =>
      StatusResponse.fromPartial({
        status: { conditions: Object.entries(this.conditions).map(([type, status]) => ({ type, status })) },
        ...this.#told(),
      }),
    );
  }

  runPodSandbox(config: PodSandboxConfig, runtimeHandler: string, options?: CallOptions): Promise<SandboxId> {
    const about = aboutSandbox(config);
    return this.#call(
      "runPodSandbox",
      about,
      options,
      () => {
        if (config.metadata === undefined) throw refusal("runPodSandbox", "sandbox config must include metadata");
        for (const other of this.sandboxes.values())
          if (isSameSandbox(other.config, config))
            throw refusal("runPodSandbox", `name "${about}" is reserved for "${other.id}"`);
        const sandbox = this.#newSandbox(config, runtimeHandler);
        this.#happened(sandbox, "created");
        this.#happened(sandbox, "started");
        return sandbox.id;
      },
      2 * this.#requestTimeoutMs,
    );
  }

  stopPodSandbox(id: SandboxId, options?: CallOptions): Promise<void> {
    return this.#call("stopPodSandbox", id, options, () => {
      const sandbox = this.sandboxes.get(id);
      if (sandbox !== undefined) this.#stopSandbox(sandbox);
    });
  }

  removePodSandbox(id: SandboxId, options?: CallOptions): Promise<void> {
    return this.#call("removePodSandbox", id, options, () => {
      const sandbox = this.sandboxes.get(id);
      if (sandbox === undefined) return;
      this.#stopSandbox(sandbox);
      for (const container of this.#containersOf(sandbox)) this.#remove(container);
      this.sandboxes.delete(id);
      this.#happened(sandbox, "deleted");
    });
  }

  podSandboxStatus(id: SandboxId, options?: CallOptions): Promise<PodSandboxStatus> {
    return this.#call("podSandboxStatus", id, options, () => {
      const { config, createdAt, state, runtimeHandler, ip } = this.#sandbox("podSandboxStatus", id);
      const namespaces = { options: config.linux?.securityContext?.namespaceOptions ?? {} };
      return PodSandboxStatus.fromPartial({
        id,
        ...(config.metadata === undefined ? {} : { metadata: config.metadata }),
        state,
        createdAt,
        network: { ip: state === PodSandboxState.SANDBOX_READY ? ip : "" },
        linux: { namespaces },
        labels: config.labels,
        annotations: config.annotations,
        runtimeHandler,
      });
    });
  }

  listPodSandbox({ id, podUid }: SandboxFilter, options?: CallOptions): Promise<readonly PodSandbox[]> {
    return this.#call("listPodSandbox", podUid ?? id ?? "", options, () =>
      [...this.sandboxes.values()]
        .filter(
          (sandbox) =>
            (id === undefined || sandbox.id === id) &&
            (podUid === undefined || sandbox.config.labels[podUidLabel] === podUid),
        )
        .map(({ id, config, state, createdAt, runtimeHandler }) => ({
          id,
          metadata: config.metadata,
          state,
          createdAt,
          labels: config.labels,
          annotations: config.annotations,
          runtimeHandler,
        })),
    );
  }

  createContainer(
    sandboxId: SandboxId,
    config: ContainerConfig,
    sandboxConfig: PodSandboxConfig,
    options?: CallOptions,
  ): Promise<ContainerId> {
    const about = aboutContainer(sandboxConfig, config);
    return this.#call("createContainer", about, options, () => {
      const sandbox = this.#sandbox("createContainer", sandboxId);
      if (sandbox.state !== PodSandboxState.SANDBOX_READY)
        throw absent("createContainer", `no running task found for sandbox "${sandboxId}"`);
      const image = config.image?.image ?? "";
      if (this.#image(image) === undefined) throw absent("createContainer", `failed to resolve image "${image}"`);
      if (!isDeepStrictEqual(usersOf(config.linux), usersOf(sandbox.config.linux)))
        throw refusal("createContainer", "user namespace config for sandbox is different from container");
      for (const other of this.#containersOf(sandbox))
        if (aboutContainer(sandbox.config, other.config) === about)
          throw refusal("createContainer", `name "${about}" is reserved for "${other.id}"`);
      const container = this.#newContainer(sandbox, config);
      this.#happened(container, "created");
      return container.id;
    });
  }

  startContainer(id: ContainerId, options?: CallOptions): Promise<void> {
    return this.#call("startContainer", this.#about(id), options, () => {
      const container = this.#container("startContainer", id);
      if (container.state !== ContainerState.CONTAINER_CREATED)
        throw refusal("startContainer", `container "${id}" is in another state than created`);
      const { exitsAfterMs, exitCode = 0, startError } = this.#programOf(container);
      if (startError !== undefined) {
        const message = `failed to create containerd task: ${startError}`;
        this.#end(container, { exitCode: 128, reason: "StartError", message });
        // Nobody is told, since no process has ended; but the container is live no more.
        this.#record(container, "stopped");
        throw refusal("startContainer", message);
      }
      container.state = ContainerState.CONTAINER_RUNNING;
      container.startedAt = this.#nanoseconds();
      this.#happened(container, "started");
      if (exitsAfterMs !== undefined)
        container.cancelTimer = this.#clock.wakeAt(this.#clock.now() + exitsAfterMs, () => this.exit(id, exitCode));
    });
  }

  stopContainer(id: ContainerId, timeoutSeconds: number, options?: CallOptions): Promise<void> {
    const deadlineMs = this.#requestTimeoutMs + timeoutSeconds * 1000;
    const about = `${this.#about(id)} within ${timeoutSeconds}s`;
    return this.#call(
      "stopContainer",
      about,
      options,
      (interrupted) => this.#stop(id, timeoutSeconds, interrupted),
      deadlineMs,
    );
  }

  removeContainer(id: ContainerId, options?: CallOptions): Promise<void> {
    return this.#call("removeContainer", this.#about(id), options, () => {
      const container = this.containers.get(id);
      if (container === undefined) return;
      this.#kill(container);
      this.#remove(container);
    });
  }

  execSync(
    id: ContainerId,
    cmd: readonly string[],
    timeoutSeconds: number,
    options?: CallOptions,
  ): Promise<ExecSyncResponse> {
    return this.#call("execSync", `${this.#about(id)}: ${cmd.join(" ")}`, options, async (interrupted) => {
      if (this.#container("execSync", id).state !== ContainerState.CONTAINER_RUNNING)
        throw new CriError("UNKNOWN", "execSync", `container ${id} is not running`);
      const { exitCode = 0, stdout = "", stderr = "", lastsMs = 0 } = this.commands.get(cmd.join(" ")) ?? {};
      const limitMs = timeoutSeconds === 0 ? lastsMs : timeoutSeconds * 1000;
      if (lastsMs > 0) await sleep(this.#clock, Math.min(lastsMs, limitMs), interrupted);
      if (lastsMs > limitMs) throw new CriError("DEADLINE_EXCEEDED", "execSync", `timeout ${timeoutSeconds}s exceeded`);
      const bytes = (text: string) => new TextEncoder().encode(text);
      return ExecSyncResponse.fromPartial({ exitCode, stdout: bytes(stdout), stderr: bytes(stderr) });
    });
  }

  containerStatus(id: ContainerId, options?: CallOptions): Promise<ContainerStatus> {
    return this.#call("containerStatus", this.#about(id), options, () => {
      const { config, sandbox, ...container } = this.#container("containerStatus", id);
      const { imageRef, state, createdAt, startedAt, finishedAt, exitCode, reason, message } = container;
      return ContainerStatus.fromPartial({
        id,
        imageRef,
        state,
        createdAt,
        startedAt,
        finishedAt,
        exitCode,
        reason,
        message,
        ...(config.metadata === undefined ? {} : { metadata: config.metadata }),
        image: { ...config.image, image: this.#image(imageRef)?.repoTags[0] ?? config.image?.image ?? "" },
        labels: config.labels,
        annotations: config.annotations,
        mounts: config.mounts,
        ...this.#userOf(config),
        logPath: config.logPath === "" ? "" : `${sandbox.config.logDirectory}/${config.logPath}`,
      });
    });
  }

  listContainers(filter: ContainerFilter, options?: CallOptions): Promise<readonly Container[]> {
    const { id, podSandboxId, podUid } = filter;
    return this.#call("listContainers", podUid ?? podSandboxId ?? id ?? "", options, () =>
      [...this.containers.values()]
        .filter(
          (container) =>
            (id === undefined || container.id === id) &&
            (podSandboxId === undefined || container.sandbox.id === podSandboxId) &&
            (podUid === undefined || container.config.labels[podUidLabel] === podUid),
        )
        .map(({ id, sandbox, config, imageRef, state, createdAt }) => ({
          id,
          podSandboxId: sandbox.id,
          metadata: config.metadata,
          image: config.image,
          imageRef,
          state,
          createdAt,
          labels: config.labels,
          annotations: config.annotations,
          imageId: "",
        })),
    );
  }

  imageStatus(image: string, options?: CallOptions): Promise<Image | undefined> {
    return this.#call("imageStatus", image, options, () => this.#image(image));
  }

  pullImage(
    image: string,
    auth: AuthConfig | undefined,
    _sandboxConfig: PodSandboxConfig | undefined,
    options?: PullOptions,
  ): Promise<ImageRef> {
    const pull = (): ImageRef => {
      this.pullAnnotations.push(options?.annotations ?? {});
      const error = this.registry.get(image);
      if (error !== undefined) throw error;
      const login = auth === undefined ? undefined : `${auth.username}:${auth.password}`;
      this.logins.push(login);
      if (this.privateImages.has(image) && this.privateImages.get(image) !== login)
        throw refusal("pullImage", `failed to resolve reference "${image}": pull access denied`);
      if (!this.registry.has(image)) throw refusal("pullImage", `failed to resolve reference "${image}"`);
      return this.addImage(image);
    };
    return this.#call("pullImage", image, options, pull, Number.POSITIVE_INFINITY);
  }

  listImages(options?: CallOptions): Promise<readonly Image[]> {
    return this.#call("listImages", "", options, () => [...this.images.values()]);
  }

  removeImage(image: string, options?: CallOptions): Promise<void> {
    return this.#call("removeImage", image, options, () => {
      const found = this.#image(image);
      for (const [name, { id }] of this.images) if (id === found?.id) this.images.delete(name);
    });
  }

  imageFsInfo(options?: CallOptions): Promise<ImageFsInfoResponse> {
    const fsId = { mountpoint: "/var/lib/fake/images" };
    return this.#call("imageFsInfo", "", options, () =>
      ImageFsInfoResponse.fromPartial({ imageFilesystems: [{ timestamp: 0n, fsId }] }),
    );
  }

  events(listener: RuntimeEventListener, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.resolve();
    this.#listeners.add(listener);
    listener(this.#isDown ? disconnected : { kind: "connected", source: this.#source });
    return new Promise((resolve) => {
      const end = () => {
        this.#listeners.delete(listener);
        resolve();
      };
      signal.addEventListener("abort", end, { once: true });
    });
  }

  // What a test does to the world.

  /** Puts an image on the node, as if it had been pulled. */
  addImage(name: string): ImageRef {
    const id = `sha256:${new Bun.CryptoHasher("sha256").update(name).digest("hex")}`;
    this.images.set(name, Image.fromPartial({ id, repoTags: [name], size: 1_000_000n }));
    return id as ImageRef;
  }

  /** A running container ends by itself. */
  exit(id: ContainerId, exitCode: number, reason = exitCode === 0 ? "Completed" : "Error"): void {
    const container = this.#container("exit", id);
    if (container.state === ContainerState.CONTAINER_RUNNING) this.#end(container, { exitCode, reason, message: "" });
  }

  /** Why a container has ended reaches the runtime only now; no event tells of it. */
  tellReason(id: ContainerId, reason: string): void {
    this.#container("tellReason", id).reason = reason;
  }

  /** The sandbox's pause process dies; its containers run on. */
  exitSandbox(id: SandboxId): void {
    const sandbox = this.#sandbox("exitSandbox", id);
    sandbox.state = PodSandboxState.SANDBOX_NOTREADY;
    this.#happened(sandbox, "stopped");
  }

  /** The container is gone from the runtime, and nobody is told. */
  loseContainer(id: ContainerId): void {
    const container = this.#container("loseContainer", id);
    container.cancelTimer();
    this.containers.delete(id);
    this.#record(container, "deleted");
  }

  /** The runtime does not know any more what the container does. */
  loseTrack(id: ContainerId): void {
    this.#container("loseTrack", id).state = ContainerState.CONTAINER_UNKNOWN;
  }

  /** A sandbox that somebody else has made: without Kubernetes' labels unless the configuration has them. */
  addForeignSandbox(config: PodSandboxConfig): SandboxId {
    const sandbox = this.#newSandbox(config, "");
    this.#happened(sandbox, "created");
    this.#happened(sandbox, "started");
    return sandbox.id;
  }

  /** A running container that somebody else has made. */
  addForeignContainer(sandboxId: SandboxId, config: ContainerConfig): ContainerId {
    const container = this.#newContainer(this.#sandbox("addForeignContainer", sandboxId), config);
    this.#happened(container, "created");
    container.state = ContainerState.CONTAINER_RUNNING;
    container.startedAt = this.#nanoseconds();
    this.#happened(container, "started");
    return container.id;
  }

  /** Holds every call of the verb, before it has any effect, until the function returned is called. */
  hang(verb: RuntimeVerb): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    const hook = () => promise;
    this.before[verb] = hook;
    return () => {
      if (this.before[verb] === hook) delete this.before[verb];
      resolve();
    };
  }

  /** The runtime's process dies; containers run on. Calls fail with UNAVAILABLE until `comeBack`. */
  goDown(): void {
    this.#isDown = true;
    for (const interrupt of this.#interrupts) interrupt(disconnected.error);
    this.#tell(disconnected);
  }

  comeBack(): void {
    this.#isDown = false;
    this.#tell({ kind: "connected", source: this.#source });
  }

  /** Dies and is back at once. */
  restart(): void {
    this.goDown();
    this.comeBack();
  }

  async #call<T>(
    verb: RuntimeVerb,
    about: string,
    options: CallOptions | undefined,
    effect: (interrupted: AbortSignal) => T | Promise<T>,
    deadlineMs = this.#requestTimeoutMs,
  ): Promise<T> {
    const name = about === "" ? verb : `${verb} ${about}`;
    this.calls.push(name);
    const interruption = this.#interruptible(verb, { deadlineMs, ...options });
    const giveUp = () => void this.givenUp.push(name);
    options?.signal?.addEventListener("abort", giveUp, { once: true });
    const run = async () => {
      await this.before[verb]?.(about);
      interruption.signal.throwIfAborted();
      const failure = this.failures[verb]?.shift();
      if (failure !== undefined) throw failure;
      const result = await effect(interruption.signal);
      await this.after[verb]?.(about);
      return result;
    };
    try {
      return await Promise.race([interruption.promise, run()]);
    } finally {
      options?.signal?.removeEventListener("abort", giveUp);
      interruption.end();
    }
  }

  /** A promise that rejects when the caller cancels, the deadline passes or the runtime dies. */
  #interruptible(verb: RuntimeVerb, { signal, deadlineMs = Number.POSITIVE_INFINITY }: CallOptions) {
    const { promise, reject } = Promise.withResolvers<never>();
    const controller = new AbortController();
    const interrupt = (error: CriError) => {
      controller.abort(error);
      reject(error);
    };
    const onAbort = () => interrupt(new CriError("CANCELLED", verb, "cancelled"));
    const onDeadline = () => interrupt(new CriError("DEADLINE_EXCEEDED", verb, `no answer within ${deadlineMs} ms`));
    const cancelTimer = Number.isFinite(deadlineMs)
      ? this.#clock.wakeAt(this.#clock.now() + deadlineMs, onDeadline)
      : nothing;
    this.#interrupts.add(interrupt);
    signal?.addEventListener("abort", onAbort, { once: true });
    if (signal?.aborted) onAbort();
    else if (this.#isDown) interrupt(new CriError("UNAVAILABLE", verb, "the runtime is down"));
    const end = () => {
      cancelTimer();
      this.#interrupts.delete(interrupt);
      signal?.removeEventListener("abort", onAbort);
    };
    return { promise, signal: controller.signal, end };
  }

  #newSandbox(config: PodSandboxConfig, runtimeHandler: string): FakeSandbox {
    const number = ++this.#ids;
    const usesHostNetwork = config.linux?.securityContext?.namespaceOptions?.network === NamespaceMode.NODE;
    const sandbox: FakeSandbox = {
      id: `sandbox-${number}` as SandboxId,
      config,
      runtimeHandler,
      createdAt: this.#nanoseconds(),
      ip: usesHostNetwork ? "" : `10.88.${number >> 8}.${number & 255}`,
      state: PodSandboxState.SANDBOX_READY,
    };
    this.sandboxes.set(sandbox.id, sandbox);
    return sandbox;
  }

  #newContainer(sandbox: FakeSandbox, config: ContainerConfig): FakeContainer {
    const container: FakeContainer = {
      id: `container-${++this.#ids}` as ContainerId,
      sandbox,
      config,
      imageRef: this.#image(config.image?.image ?? "")?.id ?? "",
      createdAt: this.#nanoseconds(),
      state: ContainerState.CONTAINER_CREATED,
      startedAt: 0n,
      finishedAt: 0n,
      exitCode: 0,
      reason: "",
      message: "",
      cancelTimer: nothing,
      whenEnded: new Set(),
    };
    this.containers.set(container.id, container);
    return container;
  }

  /** As containerd does it: SIGTERM, the grace period, SIGKILL. What does not run needs no stop. */
  #stop(id: ContainerId, timeoutSeconds: number, interrupted: AbortSignal): Promise<void> | void {
    const container = this.containers.get(id);
    if (container?.state === ContainerState.CONTAINER_UNKNOWN) return this.#kill(container);
    if (container?.state !== ContainerState.CONTAINER_RUNNING) return;
    if (timeoutSeconds <= 0) return this.#kill(container);
    if (this.#programOf(container).onTerm !== "ignores") return this.exit(id, 143);
    return new Promise((resolve) => {
      const cancelKill = this.#clock.wakeAt(this.#clock.now() + timeoutSeconds * 1000, () => this.#kill(container));
      interrupted.addEventListener("abort", cancelKill, { once: true });
      container.whenEnded.add(() => {
        cancelKill();
        resolve();
      });
    });
  }

  #stopSandbox(sandbox: FakeSandbox): void {
    for (const container of this.#containersOf(sandbox)) this.#kill(container);
    if (sandbox.state !== PodSandboxState.SANDBOX_READY) return;
    sandbox.state = PodSandboxState.SANDBOX_NOTREADY;
    this.#happened(sandbox, "stopped");
  }

  #kill(container: FakeContainer): void {
    const { state } = container;
    if (state === ContainerState.CONTAINER_RUNNING || state === ContainerState.CONTAINER_UNKNOWN)
      this.#end(container, { exitCode: 137, reason: "Error", message: "" });
  }

  #end(container: FakeContainer, exit: Pick<FakeContainer, "exitCode" | "reason" | "message">): void {
    container.cancelTimer();
    const hasRun = container.state !== ContainerState.CONTAINER_CREATED;
    Object.assign(container, exit, { state: ContainerState.CONTAINER_EXITED, finishedAt: this.#nanoseconds() });
    // containerd has no event for a container that could not be started: the failed call tells it.
    if (hasRun) this.#happened(container, "stopped");
    for (const tell of container.whenEnded) tell();
    container.whenEnded.clear();
  }

  #remove(container: FakeContainer): void {
    this.containers.delete(container.id);
    this.#happened(container, "deleted");
  }

  #happened(thing: FakeSandbox | FakeContainer, change: Happening["change"]): void {
    this.#record(thing, change);
    if (this.losesEvents || this.#isDown || this.#source === "none") return;
    const sandbox = "sandbox" in thing ? thing.sandbox : thing;
    const uid = sandbox.config.metadata?.uid;
    const isKnown = this.#source === "cri-events";
    // Of containerd's own events creations are not asked for.
    if (change === "created" && !isKnown) return;
    this.#tell({
      kind: "container",
      change,
      containerId: thing.id,
      isSandbox: isKnown ? thing === sandbox : undefined,
      ...(!isKnown && change === "stopped" && "exitCode" in thing ? { exit: exitOf(thing) } : {}),
      ...(isKnown ? { podSandboxId: sandbox.id } : {}),
      ...(isKnown && uid !== undefined ? { podUid: uid as PodUid } : {}),
    });
  }

  #record(thing: FakeSandbox | FakeContainer, change: Happening["change"]): void {
    const isContainer = "sandbox" in thing;
    const uid = (isContainer ? thing.sandbox : thing).config.metadata?.uid ?? "";
    const role = isContainer ? `${uid}/${thing.config.metadata?.name}` : uid;
    const at = this.#clock.now();
    this.timeline.push({ at, what: isContainer ? "container" : "sandbox", change, id: thing.id, role });
  }

  #tell(event: RuntimeEvent): void {
    for (const listener of [...this.#listeners]) listener(event);
  }

  #sandbox(verb: string, id: SandboxId): FakeSandbox {
    const sandbox = this.sandboxes.get(id);
    if (sandbox === undefined) throw absent(verb, `sandbox "${id}"`);
    return sandbox;
  }

  #container(verb: string, id: ContainerId): FakeContainer {
    const container = this.containers.get(id);
    if (container === undefined) throw absent(verb, `container "${id}"`);
    return container;
  }

  #containersOf(sandbox: FakeSandbox): FakeContainer[] {
    return [...this.containers.values()].filter((container) => container.sandbox === sandbox);
  }

  /** By name or by id. */
  #image(image: string): Image | undefined {
    return this.images.get(image) ?? [...this.images.values()].find(({ id }) => id === image);
  }

  #programOf({ config }: FakeContainer): Program {
    return this.programs.get(config.metadata?.name ?? "") ?? this.programs.get(config.image?.image ?? "") ?? {};
  }

  #about(id: ContainerId): string {
    const container = this.containers.get(id);
    return container === undefined ? id : aboutContainer(container.sandbox.config, container.config);
  }

  #told(): Pick<StatusResponse, "runtimeHandlers"> & Partial<Pick<StatusResponse, "features">> {
    if (this.abilities === undefined) return { runtimeHandlers: [] };
    const { userNamespaces, supplementalGroupsPolicy } = this.abilities;
    const features = { userNamespaces, recursiveReadOnlyMounts: false };
    return {
      runtimeHandlers: ["", "runc"].map((name) => ({ name, features })),
      features: { supplementalGroupsPolicy, userNamespacesHostNetwork: false },
    };
  }

  /** As whom the first process runs, which newer runtimes tell; like containerd it counts the first group among the further ones. */
  #userOf({ linux }: ContainerConfig): { readonly user?: Pick<ContainerUser, "linux"> } {
    if (this.abilities === undefined) return {};
    const { runAsUser, runAsGroup, supplementalGroups = [], supplementalGroupsPolicy } = linux?.securityContext ?? {};
    const [uid, gid] = [runAsUser?.value ?? 0n, runAsGroup?.value ?? 0n];
    const isStrict = supplementalGroupsPolicy === SupplementalGroupsPolicy.Strict;
    const ofImage = isStrict ? [] : (this.groupsInImages.get(uid) ?? []);
    const groups = [...new Set([gid, ...supplementalGroups, ...ofImage])];
    return { user: { linux: { uid, gid, supplementalGroups: groups } } };
  }

  /** Strictly growing, so that no two things begin at the same moment. */
  #nanoseconds(): bigint {
    return BigInt(this.#clock.now()) * 1_000_000n + ++this.#ticks;
  }
}

const nothing = () => {};
const absent = (verb: string, what: string) => new CriError("NOT_FOUND", verb, `${what}: not found`);
const refusal = (verb: string, why: string) => new CriError("UNKNOWN", verb, why);

function aboutSandbox({ metadata }: PodSandboxConfig): string {
  return `${metadata?.namespace}/${metadata?.name} #${metadata?.attempt}`;
}

/** Its uid is a part of the name that a runtime keeps for a sandbox: two pods may have the same name. */
function isSameSandbox(a: PodSandboxConfig, b: PodSandboxConfig): boolean {
  return aboutSandbox(a) === aboutSandbox(b) && a.metadata?.uid === b.metadata?.uid;
}

function aboutContainer(sandbox: PodSandboxConfig, { metadata }: ContainerConfig): string {
  return `${sandbox.metadata?.namespace}/${sandbox.metadata?.name}/${metadata?.name} #${metadata?.attempt}`;
}

/** The users of a namespace of its own; undefined for those of the node. */
function usersOf(linux: ContainerConfig["linux"] | PodSandboxConfig["linux"]): UserNamespace | undefined {
  const users = linux?.securityContext?.namespaceOptions?.usernsOptions;
  return users?.mode === NamespaceMode.POD && users.uids.length > 0 ? users : undefined;
}

const exitOf = ({ exitCode, finishedAt }: FakeContainer) => ({ exitCode, finishedAt });
