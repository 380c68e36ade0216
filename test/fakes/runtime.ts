import { isDeepStrictEqual } from "node:util";
import { CriError } from "../../cri/error.ts";
import type {
  ContainerChange,
  ContainerFilter,
  CriCallOptions,
  EventExit,
  PullOptions,
  Runtime,
  RuntimeEvent,
  RuntimeEventListener,
  RuntimeEventSource,
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
/** Receives the subject of the call as `calls` shows it: "web/a #0", an id, an image. */
export type RuntimeHook = (subject: string) => Promise<void> | void;

/** How a container's process behaves. By default it runs until SIGTERM, and then exits at once. */
export interface Program {
  readonly exitsAfterMs?: number;
  readonly exitCode?: number;
  /** The reaction to SIGTERM; with `ignores` the whole grace period passes. */
  readonly onTerm?: "exits" | "ignores";
  /** Makes StartContainer fail, as for a binary that does not exist. */
  readonly startError?: string;
}

/** The result of a command that is run in a container by ExecSync. */
export interface FakeCommand {
  readonly exitCode?: number;
  readonly stdout?: string;
  readonly stderr?: string;
  readonly lastsMs?: number;
}

export interface FakeRuntimeOptions {
  readonly clock: Clock;
  readonly source?: RuntimeEventSource;
  /**
   * How long the next exit is not shown in the statuses. containerd's own event arrives at once, a CRI event only
   * together with the status, and a call that stops something returns only then. By default 0.
   */
  readonly exitLagMs?: () => number;
  readonly requestTimeoutMs?: number;
}

/** One change of a sandbox or container, by a call, by its program or by the test. */
export interface RuntimeChange {
  readonly at: number;
  readonly kind: "sandbox" | "container";
  readonly change: Exclude<ContainerChange, "unknown">;
  readonly id: string;
  /** The pod's uid, with `/name` for a container. Of one role only one instance may run at a time. */
  readonly role: string;
}

interface FakeSandbox {
  readonly id: SandboxId;
  readonly config: PodSandboxConfig;
  readonly runtimeHandler: string;
  readonly createdAt: bigint;
  readonly ip: string;
  state: PodSandboxState;
  /** Set once its process has exited, until its status shows that. */
  unshownExit: UnshownExit | undefined;
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
  /** Set once its process has exited, until its status shows that. */
  unshownExit: UnshownExit | undefined;
  readonly onEnd: Set<() => void>;
}

/** An exit that the runtime knows of and that its status does not show yet. */
interface UnshownExit {
  show(): void;
  readonly shown: Promise<void>;
}

const disconnected = {
  kind: "disconnected",
  error: new CriError("UNAVAILABLE", "events", "the runtime is down"),
  socket: "/run/fake.sock",
} as const;

/** A container runtime in memory that behaves as containerd does, as far as the contract suite checks. */
export class FakeRuntime implements Runtime {
  readonly sandboxes = new Map<SandboxId, FakeSandbox>();
  readonly containers = new Map<ContainerId, FakeContainer>();
  /** The images on the node, by name; `addImage` adds one. */
  readonly images = new Map<string, Image>();
  /** The images that can be pulled; a pull of an image with an error always fails with it. */
  readonly registry = new Map<string, CriError | undefined>();
  /** The images that need credentials, with the accepted `user:password`. */
  readonly privateImages = new Map<string, string>();
  /** The annotations of the ImageSpec of each PullImage call, oldest first. */
  readonly pullAnnotations: Readonly<Record<string, string>>[] = [];
  /** The credentials of each PullImage call, `user:password`, oldest first. */
  readonly pullCredentials: (string | undefined)[] = [];
  /** By container name or by image; the name takes precedence. */
  readonly programs = new Map<string, Program>();
  /** By the arguments, joined with spaces; an unknown command exits with 0 at once, without output. */
  readonly commands = new Map<string, FakeCommand>();
  /** The errors of the next calls of a verb, oldest first; a call that fails so has no effect. */
  failures: Partial<Record<RuntimeVerb, CriError[]>> = {};
  /** Awaited before a call takes effect; it may throw. */
  before: Partial<Record<RuntimeVerb, RuntimeHook>> = {};
  /** Awaited after a call took effect, before it is answered; it may throw. */
  after: Partial<Record<RuntimeVerb, RuntimeHook>> = {};
  /** Every call, in order: the verb and its subject. */
  readonly calls: string[] = [];
  /** The calls that their caller cancelled. */
  readonly cancelledCalls: string[] = [];
  readonly timeline: RuntimeChange[] = [];
  /** While true, changes cause no events. */
  losesEvents = false;
  conditions = { RuntimeReady: true, NetworkReady: true };
  /**
   * The features that Status reports, for the default handler and one called `runc`; undefined for a runtime too old to
   * report them.
   */
  features: { userNamespaces: boolean; supplementalGroupsPolicy: boolean } | undefined = {
    userNamespaces: true,
    supplementalGroupsPolicy: true,
  };
  /** The supplementary groups that the image's /etc/group gives to a user. */
  readonly imageGroups = new Map<bigint, readonly bigint[]>();

  readonly #clock: Clock;
  readonly #source: RuntimeEventSource;
  readonly #requestTimeoutMs: number;
  readonly #listeners = new Set<RuntimeEventListener>();
  readonly #interrupts = new Set<(error: CriError) => void>();
  #ids = 0;
  #ticks = 0n;
  #isDown = false;
  readonly #exitLagMs: () => number;

  constructor({
    clock,
    source = "containerd-events",
    exitLagMs = () => 0,
    requestTimeoutMs = 120_000,
  }: FakeRuntimeOptions) {
    this.#clock = clock;
    this.#source = source;
    this.#exitLagMs = exitLagMs;
    this.#requestTimeoutMs = requestTimeoutMs;
  }

  version(options?: CriCallOptions): Promise<VersionResponse> {
    return this.#call("version", "", options, () =>
      VersionResponse.fromPartial({
        version: "0.1.0",
        runtimeName: "fake",
        runtimeVersion: "1.0.0",
        runtimeApiVersion: "v1",
      }),
    );
  }

  status(options?: CriCallOptions): Promise<StatusResponse> {
    return this.#call("status", "", options, () =>
      StatusResponse.fromPartial({
        status: { conditions: Object.entries(this.conditions).map(([type, status]) => ({ type, status })) },
        ...this.#featureStatus(),
      }),
    );
  }

  runPodSandbox(config: PodSandboxConfig, runtimeHandler: string, options?: CriCallOptions): Promise<SandboxId> {
    const subject = sandboxName(config);
    return this.#call(
      "runPodSandbox",
      subject,
      options,
      () => {
        if (config.metadata === undefined) throw unknownError("runPodSandbox", "sandbox config must include metadata");
        for (const other of this.sandboxes.values())
          if (isSameSandbox(other.config, config))
            throw unknownError("runPodSandbox", `name "${subject}" is reserved for "${other.id}"`);
        const sandbox = this.#newSandbox(config, runtimeHandler);
        this.#changed(sandbox, "created");
        this.#changed(sandbox, "started");
        return sandbox.id;
      },
      2 * this.#requestTimeoutMs,
    );
  }

  stopPodSandbox(id: SandboxId, options?: CriCallOptions): Promise<void> {
    return this.#call("stopPodSandbox", id, options, () => {
      const sandbox = this.sandboxes.get(id);
      return sandbox && this.#stopSandbox(sandbox);
    });
  }

  removePodSandbox(id: SandboxId, options?: CriCallOptions): Promise<void> {
    return this.#call("removePodSandbox", id, options, async (interrupted) => {
      const sandbox = this.sandboxes.get(id);
      if (sandbox === undefined) return;
      await this.#stopSandbox(sandbox);
      if (interrupted.aborted || !this.sandboxes.has(id)) return;
      for (const container of this.#containersOf(sandbox)) this.#remove(container);
      this.sandboxes.delete(id);
      this.#changed(sandbox, "deleted");
    });
  }

  podSandboxStatus(id: SandboxId, options?: CriCallOptions): Promise<PodSandboxStatus> {
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

  listPodSandbox({ id, podUid }: SandboxFilter, options?: CriCallOptions): Promise<readonly PodSandbox[]> {
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
    options?: CriCallOptions,
  ): Promise<ContainerId> {
    const subject = containerName(sandboxConfig, config);
    return this.#call("createContainer", subject, options, () => {
      const sandbox = this.#sandbox("createContainer", sandboxId);
      if (sandbox.state !== PodSandboxState.SANDBOX_READY || sandbox.unshownExit !== undefined)
        throw notFound("createContainer", `no running task found for sandbox "${sandboxId}"`);
      const image = config.image?.image ?? "";
      if (this.#image(image) === undefined) throw notFound("createContainer", `failed to resolve image "${image}"`);
      if (!isDeepStrictEqual(userNamespaceOf(config.linux), userNamespaceOf(sandbox.config.linux)))
        throw unknownError("createContainer", "user namespace config for sandbox is different from container");
      for (const other of this.#containersOf(sandbox))
        if (containerName(sandbox.config, other.config) === subject)
          throw unknownError("createContainer", `name "${subject}" is reserved for "${other.id}"`);
      const container = this.#newContainer(sandbox, config);
      this.#changed(container, "created");
      return container.id;
    });
  }

  startContainer(id: ContainerId, options?: CriCallOptions): Promise<void> {
    return this.#call("startContainer", this.#subjectOf(id), options, () => {
      const container = this.#container("startContainer", id);
      if (container.state !== ContainerState.CONTAINER_CREATED)
        throw unknownError("startContainer", `container "${id}" is in another state than created`);
      const { exitsAfterMs, exitCode = 0, startError } = this.#programOf(container);
      if (startError !== undefined) {
        const message = `failed to create containerd task: ${startError}`;
        this.#failStart(container, message);
        throw unknownError("startContainer", message);
      }
      container.state = ContainerState.CONTAINER_RUNNING;
      container.startedAt = this.#nanoseconds();
      this.#changed(container, "started");
      if (exitsAfterMs !== undefined)
        container.cancelTimer = this.#clock.wakeAt(this.#clock.now() + exitsAfterMs, () => this.exit(id, exitCode));
    });
  }

  stopContainer(id: ContainerId, timeoutSeconds: number, options?: CriCallOptions): Promise<void> {
    const deadlineMs = this.#requestTimeoutMs + timeoutSeconds * 1000;
    const subject = `${this.#subjectOf(id)} within ${timeoutSeconds}s`;
    return this.#call(
      "stopContainer",
      subject,
      options,
      (interrupted) => this.#stop(id, timeoutSeconds, interrupted),
      deadlineMs,
    );
  }

  removeContainer(id: ContainerId, options?: CriCallOptions): Promise<void> {
    return this.#call("removeContainer", this.#subjectOf(id), options, async (interrupted) => {
      const container = this.containers.get(id);
      if (container === undefined) return;
      await this.#kill(container);
      if (!interrupted.aborted && this.containers.has(id)) this.#remove(container);
    });
  }

  execSync(
    id: ContainerId,
    cmd: readonly string[],
    timeoutSeconds: number,
    options?: CriCallOptions,
  ): Promise<ExecSyncResponse> {
    return this.#call("execSync", `${this.#subjectOf(id)}: ${cmd.join(" ")}`, options, async (interrupted) => {
      if (!isRunning(this.#container("execSync", id)))
        throw new CriError("UNKNOWN", "execSync", `container ${id} is not running`);
      const { exitCode = 0, stdout = "", stderr = "", lastsMs = 0 } = this.commands.get(cmd.join(" ")) ?? {};
      const limitMs = timeoutSeconds === 0 ? lastsMs : timeoutSeconds * 1000;
      if (lastsMs > 0) await sleep(this.#clock, Math.min(lastsMs, limitMs), interrupted);
      if (lastsMs > limitMs) throw new CriError("DEADLINE_EXCEEDED", "execSync", `timeout ${timeoutSeconds}s exceeded`);
      const bytes = (text: string) => new TextEncoder().encode(text);
      return ExecSyncResponse.fromPartial({ exitCode, stdout: bytes(stdout), stderr: bytes(stderr) });
    });
  }

  containerStatus(id: ContainerId, options?: CriCallOptions): Promise<ContainerStatus> {
    return this.#call("containerStatus", this.#subjectOf(id), options, () => {
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

  listContainers(filter: ContainerFilter, options?: CriCallOptions): Promise<readonly Container[]> {
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

  imageStatus(image: string, options?: CriCallOptions): Promise<Image | undefined> {
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
      const credentials = auth === undefined ? undefined : `${auth.username}:${auth.password}`;
      this.pullCredentials.push(credentials);
      if (this.privateImages.has(image) && this.privateImages.get(image) !== credentials)
        throw unknownError("pullImage", `failed to resolve reference "${image}": pull access denied`);
      if (!this.registry.has(image)) throw unknownError("pullImage", `failed to resolve reference "${image}"`);
      return this.addImage(image);
    };
    return this.#call("pullImage", image, options, pull, Number.POSITIVE_INFINITY);
  }

  listImages(options?: CriCallOptions): Promise<readonly Image[]> {
    return this.#call("listImages", "", options, () => [...this.images.values()]);
  }

  removeImage(image: string, options?: CriCallOptions): Promise<void> {
    return this.#call("removeImage", image, options, () => {
      const found = this.#image(image);
      for (const [name, { id }] of this.images) if (id === found?.id) this.images.delete(name);
    });
  }

  imageFsInfo(options?: CriCallOptions): Promise<ImageFsInfoResponse> {
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

  /** Whether a process has exited and its status does not show that yet. */
  get hasUnshownExit(): boolean {
    return [...this.sandboxes.values(), ...this.containers.values()].some(
      ({ unshownExit }) => unshownExit !== undefined,
    );
  }

  // Methods for tests: what happens to the runtime without a call of the agent.

  /** Puts an image on the node, as if it had been pulled. */
  addImage(name: string): ImageRef {
    const id = `sha256:${new Bun.CryptoHasher("sha256").update(name).digest("hex")}`;
    this.images.set(name, Image.fromPartial({ id, repoTags: [name], size: 1_000_000n }));
    return id as ImageRef;
  }

  /** Lets a running container exit by itself. */
  exit(id: ContainerId, exitCode: number, reason = exitCode === 0 ? "Completed" : "Error"): void {
    const container = this.#container("exit", id);
    if (isRunning(container)) this.#exited(container, { exitCode, reason, message: "" });
  }

  /** Sets the reason of an exit after the exit was reported, without an event. */
  setExitReason(id: ContainerId, reason: string): void {
    this.#container("setExitReason", id).reason = reason;
  }

  /** Lets the sandbox's pause process exit; its containers keep running. */
  exitSandbox(id: SandboxId): void {
    this.#sandboxExited(this.#sandbox("exitSandbox", id));
  }

  /** Removes a container from the runtime without an event. */
  loseContainer(id: ContainerId): void {
    const container = this.#container("loseContainer", id);
    container.cancelTimer();
    this.containers.delete(id);
    this.#record(container, "deleted");
  }

  /** Sets the state of a container to unknown. */
  setUnknown(id: ContainerId): void {
    this.#container("setUnknown", id).state = ContainerState.CONTAINER_UNKNOWN;
  }

  /** Adds a sandbox of another client: without Kubernetes' labels unless the configuration has them. */
  addForeignSandbox(config: PodSandboxConfig): SandboxId {
    const sandbox = this.#newSandbox(config, "");
    this.#changed(sandbox, "created");
    this.#changed(sandbox, "started");
    return sandbox.id;
  }

  /** Adds a running container of another client. */
  addForeignContainer(sandboxId: SandboxId, config: ContainerConfig): ContainerId {
    const container = this.#newContainer(this.#sandbox("addForeignContainer", sandboxId), config);
    this.#changed(container, "created");
    container.state = ContainerState.CONTAINER_RUNNING;
    container.startedAt = this.#nanoseconds();
    this.#changed(container, "started");
    return container.id;
  }

  /** Holds every call of the verb, before it takes effect, until the returned function is called. */
  hang(verb: RuntimeVerb): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    const hook = () => promise;
    this.before[verb] = hook;
    return () => {
      if (this.before[verb] === hook) delete this.before[verb];
      resolve();
    };
  }

  /**
   * Kills the runtime process; containers keep running. Calls fail with UNAVAILABLE until `comeBack`. Again with another
   * `reason`: the reason of the outage changes.
   */
  goDown(reason?: string): void {
    this.#isDown = true;
    const error = reason === undefined ? disconnected.error : new CriError("UNAVAILABLE", "events", reason);
    for (const interrupt of this.#interrupts) interrupt(error);
    this.#publish({ ...disconnected, error });
  }

  comeBack(): void {
    // Before it answers, the runtime looks for what has exited meanwhile; it sends no event of that.
    for (const { unshownExit } of [...this.sandboxes.values(), ...this.containers.values()]) unshownExit?.show();
    this.#isDown = false;
    this.#publish({ kind: "connected", source: this.#source });
  }

  /** Kills the runtime process and starts it again at once. */
  restart(): void {
    this.goDown();
    this.comeBack();
  }

  async #call<T>(
    verb: RuntimeVerb,
    subject: string,
    options: CriCallOptions | undefined,
    effect: (interrupted: AbortSignal) => T | Promise<T>,
    deadlineMs = this.#requestTimeoutMs,
  ): Promise<T> {
    const name = subject === "" ? verb : `${verb} ${subject}`;
    this.calls.push(name);
    const interruption = this.#interruptible(verb, { deadlineMs, ...options });
    const recordCancelled = () => void this.cancelledCalls.push(name);
    options?.signal?.addEventListener("abort", recordCancelled, { once: true });
    const run = async () => {
      await this.before[verb]?.(subject);
      interruption.signal.throwIfAborted();
      const failure = this.failures[verb]?.shift();
      if (failure !== undefined) throw failure;
      const result = await effect(interruption.signal);
      await this.after[verb]?.(subject);
      return result;
    };
    try {
      return await Promise.race([interruption.promise, run()]);
    } finally {
      options?.signal?.removeEventListener("abort", recordCancelled);
      interruption.end();
    }
  }

  /** Returns a promise that rejects when the caller cancels, the deadline passes or the runtime dies. */
  #interruptible(verb: RuntimeVerb, { signal, deadlineMs = Number.POSITIVE_INFINITY }: CriCallOptions) {
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
      : noop;
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
      unshownExit: undefined,
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
      cancelTimer: noop,
      unshownExit: undefined,
      onEnd: new Set(),
    };
    this.containers.set(container.id, container);
    return container;
  }

  /** As containerd does it: SIGTERM, the grace period, SIGKILL. Does nothing to a container that does not run. */
  #stop(id: ContainerId, timeoutSeconds: number, interrupted: AbortSignal): Promise<void> | void {
    const container = this.containers.get(id);
    if (container === undefined) return;
    if (!isRunning(container) || timeoutSeconds <= 0) return this.#kill(container);
    if (this.#programOf(container).onTerm !== "ignores") {
      this.exit(id, 143);
      return container.unshownExit?.shown;
    }
    return new Promise((resolve) => {
      const kill = () => void this.#kill(container);
      const cancelKill = this.#clock.wakeAt(this.#clock.now() + timeoutSeconds * 1000, kill);
      interrupted.addEventListener("abort", cancelKill, { once: true });
      container.onEnd.add(() => {
        cancelKill();
        resolve();
      });
    });
  }

  /** Kills the sandbox's processes. The result resolves when the statuses show it. */
  async #stopSandbox(sandbox: FakeSandbox): Promise<void> {
    const ends = this.#containersOf(sandbox).map((container) => this.#kill(container));
    if (ends.some((end) => end !== undefined)) await Promise.all(ends);
    this.#sandboxExited(sandbox);
    if (sandbox.unshownExit !== undefined) await sandbox.unshownExit.shown;
  }

  /** Kills a container. The result is undefined if the status shows it at once. */
  #kill(container: FakeContainer): Promise<void> | undefined {
    if (isRunning(container) || container.state === ContainerState.CONTAINER_UNKNOWN)
      this.#exited(container, { exitCode: 137, reason: "Error", message: "" });
    return container.unshownExit?.shown;
  }

  /** containerd sends no event for a container that failed to start: the failed call reports it. */
  #failStart(container: FakeContainer, message: string): void {
    const state = ContainerState.CONTAINER_EXITED;
    const finishedAt = this.#nanoseconds();
    Object.assign(container, { exitCode: 128, reason: "StartError", message, state, finishedAt });
    this.#record(container, "stopped");
  }

  #exited(container: FakeContainer, exit: Pick<FakeContainer, "exitCode" | "reason" | "message">): void {
    container.cancelTimer();
    const finishedAt = this.#nanoseconds();
    this.#stopped(container, { exitCode: exit.exitCode, finishedAt }, () => {
      Object.assign(container, exit, { state: ContainerState.CONTAINER_EXITED, finishedAt });
      for (const resolve of container.onEnd) resolve();
      container.onEnd.clear();
    });
  }

  #sandboxExited(sandbox: FakeSandbox): void {
    if (sandbox.state !== PodSandboxState.SANDBOX_READY || sandbox.unshownExit !== undefined) return;
    this.#stopped(sandbox, { exitCode: 137, finishedAt: this.#nanoseconds() }, () => {
      sandbox.state = PodSandboxState.SANDBOX_NOTREADY;
    });
  }

  /**
   * The process of a sandbox or container has exited; `setState` shows it in the status. containerd's events come first:
   * that of the exit at once, and that of the deletion of its task while the status still says that it runs.
   */
  #stopped(target: FakeSandbox | FakeContainer, exit: EventExit, setState: () => void): void {
    this.#record(target, "stopped");
    const lagMs = this.#exitLagMs();
    const isAhead = this.#source === "containerd-events";
    const show = () => {
      target.unshownExit = undefined;
      setState();
      if (!isAhead) this.#report(target, "stopped");
    };
    if (lagMs <= 0) {
      show();
      if (isAhead) this.#report(target, "stopped", exit);
      return;
    }
    const { promise: shown, resolve } = Promise.withResolvers<void>();
    const showOnce = () => {
      if (target.unshownExit === undefined) return;
      show();
      resolve();
    };
    target.unshownExit = { show: showOnce, shown };
    const { now, wakeAt } = this.#clock;
    wakeAt(now() + lagMs, showOnce);
    if (!isAhead) return;
    this.#report(target, "stopped", exit);
    wakeAt(now() + Math.floor(lagMs / 2), () => target.unshownExit && this.#report(target, "stopped"));
  }

  #remove(container: FakeContainer): void {
    this.containers.delete(container.id);
    this.#changed(container, "deleted");
  }

  #changed(target: FakeSandbox | FakeContainer, change: RuntimeChange["change"]): void {
    this.#record(target, change);
    this.#report(target, change);
  }

  /** Sends the event of a change. containerd's own event of an exit carries it. */
  #report(target: FakeSandbox | FakeContainer, change: RuntimeChange["change"], exit?: EventExit): void {
    if (this.losesEvents || this.#isDown || this.#source === "none") return;
    const sandbox = "sandbox" in target ? target.sandbox : target;
    const uid = sandbox.config.metadata?.uid;
    const isKnown = this.#source === "cri-events";
    // The agent does not subscribe to creations in containerd's own event service.
    if (change === "created" && !isKnown) return;
    this.#publish({
      kind: "container",
      change,
      containerId: target.id,
      isSandbox: isKnown ? target === sandbox : undefined,
      ...(exit && { exit }),
      ...(isKnown ? { podSandboxId: sandbox.id } : {}),
      ...(isKnown && uid !== undefined ? { podUid: uid as PodUid } : {}),
    });
  }

  #record(target: FakeSandbox | FakeContainer, change: RuntimeChange["change"]): void {
    const isContainer = "sandbox" in target;
    const uid = (isContainer ? target.sandbox : target).config.metadata?.uid ?? "";
    const role = isContainer ? `${uid}/${target.config.metadata?.name}` : uid;
    const at = this.#clock.now();
    this.timeline.push({ at, kind: isContainer ? "container" : "sandbox", change, id: target.id, role });
  }

  #publish(event: RuntimeEvent): void {
    for (const listener of [...this.#listeners]) listener(event);
  }

  #sandbox(verb: string, id: SandboxId): FakeSandbox {
    const sandbox = this.sandboxes.get(id);
    if (sandbox === undefined) throw notFound(verb, `sandbox "${id}"`);
    return sandbox;
  }

  #container(verb: string, id: ContainerId): FakeContainer {
    const container = this.containers.get(id);
    if (container === undefined) throw notFound(verb, `container "${id}"`);
    return container;
  }

  #containersOf(sandbox: FakeSandbox): FakeContainer[] {
    return [...this.containers.values()].filter((container) => container.sandbox === sandbox);
  }

  /** Finds an image by name or by id. */
  #image(image: string): Image | undefined {
    return this.images.get(image) ?? [...this.images.values()].find(({ id }) => id === image);
  }

  #programOf({ config }: FakeContainer): Program {
    return this.programs.get(config.metadata?.name ?? "") ?? this.programs.get(config.image?.image ?? "") ?? {};
  }

  #subjectOf(id: ContainerId): string {
    const container = this.containers.get(id);
    return container === undefined ? id : containerName(container.sandbox.config, container.config);
  }

  #featureStatus(): Pick<StatusResponse, "runtimeHandlers"> & Partial<Pick<StatusResponse, "features">> {
    if (this.features === undefined) return { runtimeHandlers: [] };
    const { userNamespaces, supplementalGroupsPolicy } = this.features;
    const features = { userNamespaces, recursiveReadOnlyMounts: false };
    return {
      runtimeHandlers: ["", "runc"].map((name) => ({ name, features })),
      features: { supplementalGroupsPolicy, userNamespacesHostNetwork: false },
    };
  }

  /**
   * The user of the first process, which newer runtimes report; as in containerd, supplementalGroups contains the
   * primary group.
   */
  #userOf({ linux }: ContainerConfig): { readonly user?: Pick<ContainerUser, "linux"> } {
    if (this.features === undefined) return {};
    const { runAsUser, runAsGroup, supplementalGroups = [], supplementalGroupsPolicy } = linux?.securityContext ?? {};
    const [uid, gid] = [runAsUser?.value ?? 0n, runAsGroup?.value ?? 0n];
    const isStrict = supplementalGroupsPolicy === SupplementalGroupsPolicy.Strict;
    const imageGroups = isStrict ? [] : (this.imageGroups.get(uid) ?? []);
    const groups = [...new Set([gid, ...supplementalGroups, ...imageGroups])];
    return { user: { linux: { uid, gid, supplementalGroups: groups } } };
  }

  /** The time, strictly growing, so that no two objects have equal timestamps. */
  #nanoseconds(): bigint {
    return BigInt(this.#clock.now()) * 1_000_000n + ++this.#ticks;
  }
}

const noop = () => {};
const notFound = (verb: string, what: string) => new CriError("NOT_FOUND", verb, `${what}: not found`);
const unknownError = (verb: string, message: string) => new CriError("UNKNOWN", verb, message);

function sandboxName({ metadata }: PodSandboxConfig): string {
  return `${metadata?.namespace}/${metadata?.name} #${metadata?.attempt}`;
}

/** The runtime reserves a sandbox name that contains the pod's uid, so pods of the same name do not conflict. */
function isSameSandbox(a: PodSandboxConfig, b: PodSandboxConfig): boolean {
  return sandboxName(a) === sandboxName(b) && a.metadata?.uid === b.metadata?.uid;
}

function containerName(sandbox: PodSandboxConfig, { metadata }: ContainerConfig): string {
  return `${sandbox.metadata?.namespace}/${sandbox.metadata?.name}/${metadata?.name} #${metadata?.attempt}`;
}

/** The pod's own user namespace; undefined if it uses the node's. */
function userNamespaceOf(linux: ContainerConfig["linux"] | PodSandboxConfig["linux"]): UserNamespace | undefined {
  const userNamespace = linux?.securityContext?.namespaceOptions?.usernsOptions;
  return userNamespace?.mode === NamespaceMode.POD && userNamespace.uids.length > 0 ? userNamespace : undefined;
}

/** Whether its process runs; its status may show that still when it does not any more. */
const isRunning = ({ state, unshownExit }: FakeContainer) =>
  state === ContainerState.CONTAINER_RUNNING && unshownExit === undefined;
