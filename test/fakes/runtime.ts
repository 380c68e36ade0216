import { CriError } from "../../cri/error.ts";
import type {
  ContainerFilter,
  CriCallOptions,
  PullOptions,
  Runtime,
  RuntimeEventListener,
  SandboxFilter,
} from "../../cri/runtime.ts";
import { type Clock, sleep } from "../../host/clock.ts";
import {
  type AuthConfig,
  type Container,
  type ContainerConfig,
  ContainerState,
  type ContainerStatus,
  ExecSyncResponse,
  type Image,
  ImageFsInfoResponse,
  type PodSandbox,
  type PodSandboxConfig,
  PodSandboxState,
  type PodSandboxStatus,
  StatusResponse,
  VersionResponse,
} from "../../proto/cri/gen/api.ts";
import type { ContainerId, ImageRef, SandboxId } from "../../proto/ids.ts";
import { FakeRuntimeEvents, type FakeRuntimeEventsOptions } from "./runtime-events.ts";
import { FakeImages } from "./runtime-images.ts";
import {
  containerName,
  type FakeCommand,
  haveSameUserNamespace,
  isRunning,
  matchesContainerFilter,
  matchesSandboxFilter,
  notFound,
  type SandboxNetwork,
  sandboxName,
  toConditions,
  toContainerStatus,
  toContainerUser,
  toListedContainer,
  toPodSandbox,
  toPodSandboxStatus,
  unknownError,
} from "./runtime-objects.ts";
import { FakeProcesses } from "./runtime-processes.ts";
import { FakeRuntimeResources } from "./runtime-resources.ts";

export interface FakeRuntimeOptions extends Partial<FakeRuntimeEventsOptions> {
  readonly clock: Clock;
  readonly requestTimeoutMs?: number;
  /** Without one each sandbox has an address at once. */
  readonly network?: SandboxNetwork | undefined;
}

/** A container runtime in memory that behaves as containerd does, as far as the contract suite checks. */
export class FakeRuntime extends FakeRuntimeResources implements Runtime {
  readonly sandboxes: FakeProcesses["sandboxes"];
  readonly containers: FakeProcesses["containers"];
  /** By container name or by image; the name takes precedence. */
  readonly programs: FakeProcesses["programs"];
  /** The images on the node, by name; `addImage` adds one. */
  readonly images: FakeImages["onNode"];
  readonly registry: FakeImages["registry"];
  readonly privateImages: FakeImages["privateImages"];
  readonly pullAnnotations: FakeImages["pullAnnotations"];
  readonly pullCredentials: FakeImages["pullCredentials"];
  readonly timeline: FakeRuntimeEvents["timeline"];
  /** By the arguments, joined with spaces; an unknown command exits with 0 at once, without output. */
  readonly commands = new Map<string, FakeCommand>();
  conditions: Parameters<typeof toConditions>[0] = { RuntimeReady: true, NetworkReady: true };
  /**
   * The features that Status reports, for the default handler and one called `runc`; undefined for a runtime too old to
   * report them.
   */
  features:
    | { userNamespaces: boolean; recursiveReadOnlyMounts?: boolean; supplementalGroupsPolicy: boolean }
    | undefined = {
    userNamespaces: true,
    recursiveReadOnlyMounts: true,
    supplementalGroupsPolicy: true,
  };
  /** The supplementary groups that the image's /etc/group gives to a user. */
  readonly imageGroups = new Map<bigint, readonly bigint[]>();

  readonly #clock: Clock;
  readonly #events: FakeRuntimeEvents;
  readonly #processes: FakeProcesses;
  readonly #images = new FakeImages();
  #featureAnswers = 0;

  constructor(options: FakeRuntimeOptions) {
    const { clock, source = "containerd-events", exitLagMs = () => 0, requestTimeoutMs = 120_000 } = options;
    const runtimeEvents = new FakeRuntimeEvents({ clock, source, exitLagMs });
    const processes = new FakeProcesses(clock, runtimeEvents, options.network);
    super(clock, requestTimeoutMs, processes);
    this.#clock = clock;
    this.#events = runtimeEvents;
    this.#processes = processes;
    this.sandboxes = this.#processes.sandboxes;
    this.containers = this.#processes.containers;
    this.programs = this.#processes.programs;
    this.images = this.#images.onNode;
    this.registry = this.#images.registry;
    this.privateImages = this.#images.privateImages;
    this.pullAnnotations = this.#images.pullAnnotations;
    this.pullCredentials = this.#images.pullCredentials;
    this.timeline = this.#events.timeline;
  }

  /** While true, changes cause no events. */
  get losesEvents(): boolean {
    return this.#events.losesEvents;
  }

  set losesEvents(losesEvents: boolean) {
    this.#events.losesEvents = losesEvents;
  }

  version(options?: CriCallOptions): Promise<VersionResponse> {
    return this.call("version", "", options, () =>
      VersionResponse.fromPartial({
        version: "0.1.0",
        runtimeName: "fake",
        runtimeVersion: "1.0.0",
        runtimeApiVersion: "v1",
      }),
    );
  }

  status(options?: CriCallOptions): Promise<StatusResponse> {
    return this.call("status", "", options, () =>
      StatusResponse.fromPartial({
        status: { conditions: toConditions(this.conditions) },
        ...this.#featureStatus(),
      }),
    );
  }

  runPodSandbox(config: PodSandboxConfig, runtimeHandler: string, options?: CriCallOptions): Promise<SandboxId> {
    const subject = sandboxName(config);
    return this.call(
      "runPodSandbox",
      subject,
      options,
      () => {
        if (config.metadata === undefined) throw unknownError("runPodSandbox", "sandbox config must include metadata");
        return this.#processes.startSandbox(config, runtimeHandler);
      },
      2 * this.requestTimeoutMs,
    );
  }

  stopPodSandbox(id: SandboxId, options?: CriCallOptions): Promise<void> {
    return this.call("stopPodSandbox", id, options, () => {
      const sandbox = this.sandboxes.get(id);
      return sandbox && this.#processes.stopSandbox(sandbox);
    });
  }

  removePodSandbox(id: SandboxId, options?: CriCallOptions): Promise<void> {
    return this.call("removePodSandbox", id, options, async (interrupted) => {
      const sandbox = this.sandboxes.get(id);
      if (sandbox === undefined) return;
      await this.#processes.stopSandbox(sandbox);
      if (!interrupted.aborted && this.sandboxes.has(id)) this.#processes.removeSandbox(sandbox);
    });
  }

  podSandboxStatus(id: SandboxId, options?: CriCallOptions): Promise<PodSandboxStatus> {
    return this.call("podSandboxStatus", id, options, () =>
      toPodSandboxStatus(this.#processes.sandbox("podSandboxStatus", id)),
    );
  }

  listPodSandbox(filter: SandboxFilter, options?: CriCallOptions): Promise<readonly PodSandbox[]> {
    return this.call("listPodSandbox", filter.podUid ?? filter.id ?? "", options, () =>
      [...this.sandboxes.values()].filter((sandbox) => matchesSandboxFilter(sandbox, filter)).map(toPodSandbox),
    );
  }

  createContainer(
    sandboxId: SandboxId,
    config: ContainerConfig,
    sandboxConfig: PodSandboxConfig,
    options?: CriCallOptions,
  ): Promise<ContainerId> {
    const subject = containerName(sandboxConfig, config);
    return this.call("createContainer", subject, options, () => {
      const sandbox = this.#processes.sandbox("createContainer", sandboxId);
      if (sandbox.state !== PodSandboxState.SANDBOX_READY || sandbox.unshownExit !== undefined)
        throw notFound("createContainer", `no running task found for sandbox "${sandboxId}"`);
      const image = config.image?.image ?? "";
      const found = this.#images.find(image);
      if (found === undefined) throw notFound("createContainer", `failed to resolve image "${image}"`);
      if (!haveSameUserNamespace(config.linux, sandbox.config.linux))
        throw unknownError("createContainer", "user namespace config for sandbox is different from container");
      for (const other of this.#processes.containersOf(sandbox))
        if (containerName(sandbox.config, other.config) === subject)
          throw unknownError("createContainer", `name "${subject}" is reserved for "${other.id}"`);
      return this.#processes.create(sandbox, config, found.id).id;
    });
  }

  startContainer(id: ContainerId, options?: CriCallOptions): Promise<void> {
    return this.call("startContainer", this.#processes.subjectOf(id), options, () => {
      const container = this.#processes.container("startContainer", id);
      if (container.state !== ContainerState.CONTAINER_CREATED)
        throw unknownError("startContainer", `container "${id}" is in another state than created`);
      this.#processes.start(container);
    });
  }

  stopContainer(id: ContainerId, timeoutSeconds: number, options?: CriCallOptions): Promise<void> {
    const deadlineMs = this.requestTimeoutMs + timeoutSeconds * 1000;
    const subject = `${this.#processes.subjectOf(id)} within ${timeoutSeconds}s`;
    return this.call(
      "stopContainer",
      subject,
      options,
      (interrupted) => this.#processes.stop(id, timeoutSeconds, interrupted),
      deadlineMs,
    );
  }

  removeContainer(id: ContainerId, options?: CriCallOptions): Promise<void> {
    return this.call("removeContainer", this.#processes.subjectOf(id), options, async (interrupted) => {
      const container = this.containers.get(id);
      if (container === undefined) return;
      await this.#processes.kill(container);
      if (!interrupted.aborted && this.containers.has(id)) this.#processes.remove("removeContainer", container);
    });
  }

  execSync(
    id: ContainerId,
    cmd: readonly string[],
    timeoutSeconds: number,
    options?: CriCallOptions,
  ): Promise<ExecSyncResponse> {
    return this.call("execSync", `${this.#processes.subjectOf(id)}: ${cmd.join(" ")}`, options, async (interrupted) => {
      if (!isRunning(this.#processes.container("execSync", id)))
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
    return this.call("containerStatus", this.#processes.subjectOf(id), options, () => {
      const container = this.#processes.container("containerStatus", id);
      const imageName = this.#images.find(container.imageRef)?.repoTags[0];
      const user = this.features === undefined ? undefined : toContainerUser(container.config, this.imageGroups);
      return toContainerStatus(container, imageName, user);
    });
  }

  listContainers(filter: ContainerFilter, options?: CriCallOptions): Promise<readonly Container[]> {
    const { id, podSandboxId, podUid } = filter;
    return this.call("listContainers", podUid ?? podSandboxId ?? id ?? "", options, () =>
      [...this.containers.values()]
        .filter((container) => matchesContainerFilter(container, filter))
        .map(toListedContainer),
    );
  }

  imageStatus(image: string, options?: CriCallOptions): Promise<Image | undefined> {
    return this.call("imageStatus", image, options, () => this.#images.find(image));
  }

  pullImage(
    image: string,
    auth: AuthConfig | undefined,
    _sandboxConfig: PodSandboxConfig | undefined,
    options?: PullOptions,
  ): Promise<ImageRef> {
    const pull = () => this.#images.pull(image, auth, options);
    return this.call("pullImage", image, options, pull, Number.POSITIVE_INFINITY);
  }

  listImages(options?: CriCallOptions): Promise<readonly Image[]> {
    return this.call("listImages", "", options, () => [...this.images.values()]);
  }

  removeImage(image: string, options?: CriCallOptions): Promise<void> {
    return this.call("removeImage", image, options, () => this.#images.remove(image));
  }

  imageFsInfo(options?: CriCallOptions): Promise<ImageFsInfoResponse> {
    const fsId = { mountpoint: "/var/lib/fake/images" };
    return this.call("imageFsInfo", "", options, () =>
      ImageFsInfoResponse.fromPartial({ imageFilesystems: [{ timestamp: 0n, fsId }] }),
    );
  }

  events(listener: RuntimeEventListener, signal: AbortSignal): Promise<void> {
    return this.#events.follow(listener, signal);
  }

  /** Whether a process has exited and its status does not show that yet. */
  get hasUnshownExit(): boolean {
    return this.#processes.unshownExits().length > 0;
  }

  // Methods for tests: what happens to the runtime without a call of the agent.

  /** Puts an image on the node, as if it had been pulled. */
  addImage(name: string): ImageRef {
    return this.#images.add(name);
  }

  /** Lets a running container exit by itself. */
  exit(id: ContainerId, exitCode: number, reason?: string): void {
    this.#processes.exit(this.#processes.container("exit", id), exitCode, reason);
  }

  /** Sets the reason of an exit after the exit was reported, without an event. */
  setExitReason(id: ContainerId, reason: string): void {
    this.#processes.container("setExitReason", id).reason = reason;
  }

  /** Lets the sandbox's pause process exit; its containers keep running. */
  exitSandbox(id: SandboxId): void {
    this.#processes.exitSandbox(this.#processes.sandbox("exitSandbox", id));
  }

  /** Removes a container from the runtime without an event. */
  loseContainer(id: ContainerId): void {
    this.#processes.lose(this.#processes.container("loseContainer", id));
  }

  /**
   * Kills a running container and shows it as created, without an event: as the next containerd does to a task whose
   * start the last one, which was killed, has not confirmed.
   */
  undoStart(id: ContainerId): void {
    this.#processes.undoStart(this.#processes.container("undoStart", id));
  }

  /** Sets the state of a container to unknown. */
  setUnknown(id: ContainerId): void {
    this.#processes.container("setUnknown", id).state = ContainerState.CONTAINER_UNKNOWN;
  }

  /** Adds a sandbox of another client: without Kubernetes' labels unless the configuration has them. */
  addForeignSandbox(config: PodSandboxConfig): SandboxId {
    return this.#processes.runSandbox(config, "");
  }

  /** Adds a running container of another client. */
  addForeignContainer(sandboxId: SandboxId, config: ContainerConfig): ContainerId {
    const sandbox = this.#processes.sandbox("addForeignContainer", sandboxId);
    const imageRef = this.#images.find(config.image?.image ?? "")?.id ?? "";
    const container = this.#processes.create(sandbox, config, imageRef);
    this.#processes.setRunning(container);
    return container.id;
  }

  /**
   * Kills the runtime process; containers keep running. Calls fail with UNAVAILABLE until `comeBack`. Again with another
   * `reason`: the reason of the outage changes.
   */
  goDown(reason = "the runtime is down"): void {
    this.refuseCalls(new CriError("UNAVAILABLE", "events", reason));
    this.#events.disconnect(reason);
  }

  comeBack(): void {
    // Before it answers, the runtime looks for what has exited meanwhile; it sends no event of that.
    for (const { show } of this.#processes.unshownExits()) show();
    this.answerAgain();
    this.#events.connect();
  }

  /** Kills the runtime process and starts it again at once. */
  restart(): void {
    this.goDown();
    this.comeBack();
  }

  #featureStatus(): Pick<StatusResponse, "runtimeHandlers"> & Partial<Pick<StatusResponse, "features">> {
    if (this.features === undefined) return { runtimeHandlers: [] };
    const { userNamespaces, recursiveReadOnlyMounts = false, supplementalGroupsPolicy } = this.features;
    const features = { userNamespaces, recursiveReadOnlyMounts };
    // containerd 2.0 lists them in random order.
    const names = ++this.#featureAnswers % 2 === 0 ? ["", "runc"] : ["runc", ""];
    return {
      runtimeHandlers: names.map((name) => ({ name, features })),
      features: { supplementalGroupsPolicy, userNamespacesHostNetwork: false },
    };
  }
}
