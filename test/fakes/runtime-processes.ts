// What runs in the fake runtime: its sandboxes and containers, and how their processes start and end.
import type { Clock } from "../../host/clock.ts";
import {
  type ContainerConfig,
  ContainerState,
  LinuxContainerResources,
  NamespaceMode,
  type PodSandboxConfig,
  PodSandboxState,
} from "../../proto/cri/gen/api.ts";
import type { ContainerId, SandboxId } from "../../proto/ids.ts";
import type { FakeRuntimeEvents } from "./runtime-events.ts";
import {
  containerName,
  type FakeContainer,
  type FakeSandbox,
  isRunning,
  isSameSandbox,
  noop,
  notFound,
  type Program,
  type SandboxNetwork,
  sandboxName,
  unknownError,
} from "./runtime-objects.ts";

export class FakeProcesses {
  readonly sandboxes = new Map<SandboxId, FakeSandbox>();
  readonly containers = new Map<ContainerId, FakeContainer>();
  /** By container name or by image; the name takes precedence. */
  readonly programs = new Map<string, Program>();

  readonly #clock: Clock;
  readonly #events: FakeRuntimeEvents;
  readonly #network: SandboxNetwork | undefined;
  /** The sandboxes whose network is being set up; the runtime does not list them yet. */
  readonly #starting = new Map<SandboxId, PodSandboxConfig>();
  #ids = 0;
  #ticks = 0n;

  constructor(clock: Clock, events: FakeRuntimeEvents, network: SandboxNetwork | undefined) {
    this.#clock = clock;
    this.#events = events;
    this.#network = network;
  }

  sandbox(verb: string, id: SandboxId): FakeSandbox {
    const sandbox = this.sandboxes.get(id);
    if (sandbox === undefined) throw notFound(verb, `sandbox "${id}"`);
    return sandbox;
  }

  container(verb: string, id: ContainerId): FakeContainer {
    const container = this.containers.get(id);
    if (container === undefined) throw notFound(verb, `container "${id}"`);
    return container;
  }

  containersOf(sandbox: FakeSandbox): FakeContainer[] {
    return [...this.containers.values()].filter((container) => container.sandbox === sandbox);
  }

  /** The exits that the statuses do not show yet. */
  unshownExits() {
    return [...this.sandboxes.values(), ...this.containers.values()].flatMap(({ unshownExit }) => unshownExit ?? []);
  }

  subjectOf(id: ContainerId): string {
    const container = this.containers.get(id);
    return container === undefined ? id : containerName(container.sandbox.config, container.config);
  }

  /** Runs a sandbox, after its network is set up. Throws if its name is reserved, and rejects as the network does. */
  startSandbox(config: PodSandboxConfig, runtimeHandler: string): SandboxId | Promise<SandboxId> {
    const others = [...[...this.sandboxes.values()].map((each) => [each.id, each.config] as const), ...this.#starting];
    for (const [id, other] of others)
      if (isSameSandbox(other, config))
        throw unknownError("runPodSandbox", `name "${sandboxName(config)}" is reserved for "${id}"`);
    if (this.#network === undefined || usesHostNetwork(config)) return this.runSandbox(config, runtimeHandler);
    return this.#startInNetwork(this.#network, config, runtimeHandler);
  }

  async #startInNetwork(network: SandboxNetwork, config: PodSandboxConfig, runtimeHandler: string): Promise<SandboxId> {
    const number = ++this.#ids;
    const id = sandboxId(number);
    this.#starting.set(id, config);
    try {
      const ip = await network.setUp(id, config);
      return this.runSandbox(config, runtimeHandler, number, ip);
    } finally {
      this.#starting.delete(id);
    }
  }

  runSandbox(
    config: PodSandboxConfig,
    runtimeHandler: string,
    number = ++this.#ids,
    ip = usesHostNetwork(config) ? "" : `10.88.${number >> 8}.${number & 255}`,
  ): SandboxId {
    const sandbox: FakeSandbox = {
      id: sandboxId(number),
      config,
      runtimeHandler,
      createdAt: this.#nanoseconds(),
      ip,
      state: PodSandboxState.SANDBOX_READY,
      unshownExit: undefined,
    };
    this.sandboxes.set(sandbox.id, sandbox);
    this.#events.changed(sandbox, "created");
    this.#events.changed(sandbox, "started");
    return sandbox.id;
  }

  create(sandbox: FakeSandbox, config: ContainerConfig, imageRef: string): FakeContainer {
    const container: FakeContainer = {
      id: `container-${++this.#ids}` as ContainerId,
      sandbox,
      config,
      imageRef,
      createdAt: this.#nanoseconds(),
      resources: config.linux?.resources ?? LinuxContainerResources.fromPartial({}),
      memoryUsageBytes: 1_048_576n,
      writableBytes: 4096n,
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
    this.#events.changed(container, "created");
    return container;
  }

  /** Starts the container's program. Throws if that cannot be started. */
  start(container: FakeContainer): void {
    const { exitsAfterMs, exitCode = 0, startError, writtenBytes = 0 } = this.#programOf(container);
    if (startError !== undefined) {
      const message = `failed to create containerd task: ${startError}`;
      this.#failStart(container, message);
      throw unknownError("startContainer", message);
    }
    this.setRunning(container);
    container.writableBytes += BigInt(writtenBytes);
    if (exitsAfterMs !== undefined)
      container.cancelTimer = this.#clock.wakeAt(this.#clock.now() + exitsAfterMs, () =>
        this.exit(container, exitCode),
      );
  }

  setRunning(container: FakeContainer): void {
    container.state = ContainerState.CONTAINER_RUNNING;
    container.startedAt = this.#nanoseconds();
    this.#events.changed(container, "started");
  }

  /** Lets a container exit by itself. Does nothing to one that does not run. */
  exit(container: FakeContainer, exitCode: number, reason = exitCode === 0 ? "Completed" : "Error"): void {
    if (isRunning(container)) this.#exited(container, { exitCode, reason, message: "" });
  }

  /** As containerd does it: SIGTERM, the grace period, SIGKILL. Does nothing to a container that does not run. */
  stop(id: ContainerId, timeoutSeconds: number, interrupted: AbortSignal): Promise<void> | void {
    const container = this.containers.get(id);
    if (container === undefined) return;
    if (!isRunning(container) || timeoutSeconds <= 0) return this.kill(container);
    if (this.#programOf(container).onTerm !== "ignores") {
      this.exit(container, 143);
      return untilExitShown(container);
    }
    return new Promise((resolve) => {
      const kill = () => void this.kill(container);
      const cancelKill = this.#clock.wakeAt(this.#clock.now() + timeoutSeconds * 1000, kill);
      interrupted.addEventListener("abort", cancelKill, { once: true });
      container.onEnd.add(() => {
        cancelKill();
        resolve();
      });
    });
  }

  /** Kills the sandbox's processes, waits as StopPodSandbox does, and tears the network down. */
  async stopSandbox(sandbox: FakeSandbox): Promise<void> {
    const ends = this.containersOf(sandbox).map((container) => this.kill(container));
    if (ends.some((end) => end !== undefined)) await Promise.all(ends);
    this.exitSandbox(sandbox);
    const sandboxEnd = untilExitShown(sandbox);
    if (sandboxEnd !== undefined) await sandboxEnd;
    if (this.#network !== undefined && !usesHostNetwork(sandbox.config))
      await this.#network.tearDown(sandbox.id, sandbox.config);
  }

  /** Lets the sandbox's pause process exit; its containers keep running. */
  exitSandbox(sandbox: FakeSandbox): void {
    if (sandbox.state !== PodSandboxState.SANDBOX_READY || sandbox.unshownExit !== undefined) return;
    this.#events.stopped(sandbox, { exitCode: 137, finishedAt: this.#nanoseconds() }, () => {
      sandbox.state = PodSandboxState.SANDBOX_NOTREADY;
    });
  }

  /** Kills a container. Undefined if the call returns at once. */
  kill(container: FakeContainer): Promise<void> | undefined {
    if (isRunning(container) || container.state === ContainerState.CONTAINER_UNKNOWN)
      this.#exited(container, { exitCode: 137, reason: "Error", message: "" });
    return untilExitShown(container);
  }

  /** Removes a container. As in containerd, the call fails while the status says that it runs. */
  remove(verb: string, container: FakeContainer): void {
    if (container.state === ContainerState.CONTAINER_RUNNING)
      throw unknownError(
        verb,
        `failed to set removing state for container "${container.id}": container is still running, to stop first`,
      );
    this.containers.delete(container.id);
    this.#events.changed(container, "deleted");
  }

  /** Removes a container without an event. */
  lose(container: FakeContainer): void {
    container.cancelTimer();
    this.containers.delete(container.id);
    this.#events.record(container, "deleted");
  }

  undoStart(container: FakeContainer): void {
    container.cancelTimer();
    container.state = ContainerState.CONTAINER_CREATED;
    container.startedAt = 0n;
  }

  removeSandbox(sandbox: FakeSandbox): void {
    for (const container of this.containersOf(sandbox)) this.remove("removePodSandbox", container);
    this.sandboxes.delete(sandbox.id);
    this.#events.changed(sandbox, "deleted");
  }

  #exited(container: FakeContainer, exit: Pick<FakeContainer, "exitCode" | "reason" | "message">): void {
    container.cancelTimer();
    const finishedAt = this.#nanoseconds();
    this.#events.stopped(container, { exitCode: exit.exitCode, finishedAt }, () => {
      Object.assign(container, exit, { state: ContainerState.CONTAINER_EXITED, finishedAt });
      for (const resolve of container.onEnd) resolve();
      container.onEnd.clear();
    });
  }

  /** containerd sends no event for a container that failed to start: the failed call reports it. */
  #failStart(container: FakeContainer, message: string): void {
    const state = ContainerState.CONTAINER_EXITED;
    const finishedAt = this.#nanoseconds();
    Object.assign(container, { exitCode: 128, reason: "StartError", message, state, finishedAt });
    this.#events.record(container, "stopped");
  }

  #programOf({ config }: FakeContainer): Program {
    return this.programs.get(config.metadata?.name ?? "") ?? this.programs.get(config.image?.image ?? "") ?? {};
  }

  /** The time, strictly growing, so that no two objects have equal timestamps. */
  #nanoseconds(): bigint {
    return BigInt(this.#clock.now()) * 1_000_000n + ++this.#ticks;
  }
}

/** What a call that stops something waits for: the status that shows the exit, unless the task is deleted already. */
const untilExitShown = ({ unshownExit }: FakeSandbox | FakeContainer): Promise<void> | undefined =>
  unshownExit?.hasTask === true ? unshownExit.shown : undefined;

const sandboxId = (number: number) => `sandbox-${number}` as SandboxId;
const usesHostNetwork = ({ linux }: PodSandboxConfig) =>
  linux?.securityContext?.namespaceOptions?.network === NamespaceMode.NODE;
