import type { MakeProviders } from "../../agent/act/images/credential-providers.ts";
import { admittingNode } from "../../agent/decide/admission/admission-node.ts";
import type { ImageVerification } from "../../agent/decide/admission/image-verification.ts";
import type { OfferedPod } from "../../agent/decide/sources/merge-static.ts";
import type { DesiredPods } from "../../agent/desired/pods.ts";
import type { PodReport } from "../../agent/report/local/pod-reports.ts";
import type { NodeFacts } from "../../agent/translate/node-facts.ts";
import { type Agent, createAgent } from "../../agent/wiring/agent.ts";
import { type ClusterNeeds, createCluster } from "../../agent/wiring/cluster.ts";
import type { Runtime } from "../../cri/runtime.ts";
import type { Clock } from "../../host/clock.ts";
import type { Log } from "../../host/log.ts";
import type { Kube } from "../../kube/client.ts";
import { events, pods } from "../../kube/resource.ts";
import { type ContainerState, PodSandboxState } from "../../proto/cri/gen/api.ts";
import type { ContainerId } from "../../proto/ids.ts";
import type { ContainerStatus, EphemeralContainer, Node, Pod, PodSpec } from "../../proto/kubernetes/gen/types.ts";
// The agent loads them with the first probe and the first record, which takes real time: no play has any.
import "../../agent/act/probes/probe-executor.ts";
import "../../proto/kubernetes/decode/strict-decode.ts";
import { staticPod } from "../../proto/kubernetes/static-pod.ts";
import { FakeClock, rest } from "../fakes/clock.ts";
import { FakeDisk } from "../fakes/files.ts";
import { FakeKube } from "../fakes/kube.ts";
import { nodeFacts } from "../fakes/node-facts.ts";
import { nodeSettings, observedMachine } from "../fakes/observed-node.ts";
import { FakeRuntime } from "../fakes/runtime.ts";

export interface StageOptions {
  readonly startPlaces?: number;
  readonly maxContainerRestartPeriodMs?: number;
  readonly allowedUnsafeSysctls?: readonly string[];
  readonly parallelPulls?: number;
  /** The node's credential providers, for each of its agents. */
  readonly providers?: (stage: Stage) => MakeProviders;
  readonly verification?: ImageVerification["policy"];
  /** The cluster's own if left out. */
  readonly clusterDNS?: readonly string[];
  /** The node belongs to a cluster: its pods come from an API server too. */
  readonly isInCluster?: boolean;
  /** How many pods the node has places for; 110 if left out. */
  readonly maxPods?: number;
  /** The agent dies right after its n-th outside call that changes something; the next one starts at once. */
  readonly dieAfterCall?: number;
  /** How many pods may have users of their own at once; many if left out. */
  readonly userPlaces?: number;
}

const CHANGING_VERBS =
  /^(create|replace|patch|delete|runPodSandbox|stopPodSandbox|removePodSandbox|createContainer|startContainer|stopContainer|removeContainer|pullImage|write|makeFile|makeFolder|rename|link|remove)$/;

/**
 * A whole agent on a node of fakes, and the story of what it does. Time passes by `advance` alone, so that a play is the same
 * play each time.
 */
export class Stage {
  readonly clock = new FakeClock();
  readonly disk = new FakeDisk(this.clock.now);
  readonly runtime = new FakeRuntime({ clock: this.clock });
  readonly kube = new FakeKube({ clock: this.clock });
  /** What was done, reported and logged, each line with the second it happened in. */
  readonly story: string[] = [];
  agent!: Agent;
  /** Outside calls so far that changed something, by all agents. */
  calls = 0;
  deaths = 0;
  /** The node's addresses; whoever changes them calls `agent.wakeAll`, as the real node's network does. */
  hostIPs: readonly string[] = facts.hostIPs;
  /** The node's object, as the agent has heard it; whoever changes it calls `agent.cluster.node`, as the real watch does. */
  node: Node | undefined | "unknown";
  /** Why the runtime has no network for pods; whoever changes it calls `agent.wakeAll`, as who asks the real runtime does. */
  networkProblem: string | undefined;
  /** How many pods the node has places for, from the next agent on. */
  maxPods: number;
  /** Whoever asks the API server for the node's object waits for this; false: nobody answers. */
  askNode: () => Promise<boolean> = async () => true;
  readonly #options: StageOptions;
  #life = new AbortController();
  #ended: Promise<void> = Promise.resolve();
  #offered: readonly OfferedPod[] = [];
  #desired: DesiredPods | undefined;
  readonly #statuses = new Map<string, string>();

  constructor(options: StageOptions = {}) {
    this.#options = options;
    this.maxPods = options.maxPods ?? nodeSettings.maxPods;
    this.runtime.addImage("busybox:1");
    // The runtime writes the logs; what it has lost track of can still be counted by them.
    this.runtime.after.createContainer = async (about) => {
      const [, namespace, pod, name = "", attempt] = /^(.*)\/(.*)\/(.*) #(\d+)$/.exec(about) ?? [];
      const sandbox = [...this.runtime.sandboxes.values()].findLast(
        ({ config: { metadata } }) => metadata?.namespace === namespace && metadata?.name === pod,
      );
      const folder = `${sandbox?.config.logDirectory}/${name}`;
      await this.disk.at("/").makeFolder(folder, 0o755);
      await this.disk.at("/").write(`${folder}/${attempt}.log`, "", 0o640);
    };
  }

  /** Starts the agent; without pods offered it still knows that there are none. */
  async start(): Promise<void> {
    const life = new AbortController();
    this.#life = life;
    const alive = <T extends object>(target: T) => this.#mortal(target, life.signal);
    const clock: Clock = {
      now: this.clock.now,
      wakeAt: (at, wake) => this.clock.wakeAt(at, () => (life.signal.aborted ? undefined : wake())),
    };
    const log = this.#log(life.signal);
    this.agent = createAgent({
      runtime: alive(this.runtime as Runtime),
      clock,
      log,
      disk: {
        root: alive(this.disk.at("/root")),
        logs: alive(this.disk.at("/logs")),
        machine: alive(this.disk.at("/")),
      },
      mountsBelow: async () => [],
      facts: () => ({ ...facts, hostIPs: this.hostIPs, clusterDNS: this.#options.clusterDNS ?? facts.clusterDNS }),
      idSpace: { first: 65_536, length: 65_536 * (this.#options.userPlaces ?? 1000), idsPerPod: 65_536 },
      settings: () => ({
        maxContainerRestartPeriodMs: this.#options.maxContainerRestartPeriodMs ?? 300_000,
        hostIPs: this.hostIPs,
        allowedUnsafeSysctls: this.#options.allowedUnsafeSysctls ?? [],
      }),
      admittingNode: (told) =>
        admittingNode(told, observedMachine, { ...nodeSettings, nodeName: "node", maxPods: this.maxPods }),
      sources: [
        {
          kind: "file",
          follow: async (desired, signal) => {
            this.#desired = desired;
            await desired.offer("file", this.#offered);
            await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
          },
        },
      ],
      hasSilentSource: false,
      ...(this.#options.isInCluster === true && {
        join: (needs: ClusterNeeds) =>
          createCluster(
            {
              kube: alive<Kube>(this.kube),
              nodeName: "node",
              random: () => 0,
              clock,
              log,
              ownNode: { latest: () => this.node, ask: () => this.askNode() },
              networkProblem: () => this.networkProblem,
            },
            needs,
          ),
      }),
      loginFiles: [["/root/config.json", "config.json"]],
      pulls: { parallel: this.#options.parallelPulls, qps: 0, burst: 0 },
      random: () => 0,
      atRest: () => {},
      providers: this.#options.providers?.(this),
      imageVerification: { policy: this.#options.verification ?? "NeverVerifyPreloadedImages", allowlist: [] },
      startPlaces: this.#options.startPlaces ?? 4,
    });
    this.agent.stories.subscribe(() => life.signal.aborted || this.#tellStatuses());
    this.#ended = this.agent.run(life.signal);
    await rest();
  }

  /** The agent ends as by SIGTERM. */
  async stop(): Promise<void> {
    this.#life.abort();
    await this.#ended;
  }

  /** The agent ends as by SIGKILL: nothing that it began is ever answered. */
  kill(): void {
    this.deaths++;
    this.#life.abort();
  }

  /** The manifests that are there from now on. */
  async offer(...pods: readonly Pod[]): Promise<void> {
    this.#offered = pods.map((pod) => ({
      pod,
      source: { kind: "file" as const, path: `/manifests/${pod.metadata.name}` },
    }));
    void this.#desired?.offer("file", this.#offered);
    await rest();
  }

  /** A user makes a pod that is bound to this node. */
  async apply(name: string, spec: Partial<PodSpec> = {}): Promise<void> {
    const containers = [{ name: "a", image: "busybox:1", imagePullPolicy: "IfNotPresent" as const }];
    const pod = { metadata: { name, namespace: "default" }, spec: { containers, nodeName: "node", ...spec } };
    await this.kube.user.create(pods("default"), pod);
    await rest();
  }

  /** A user adds a container to a pod that is there, as `kubectl debug` does. */
  async debug(name: string, container: EphemeralContainer): Promise<void> {
    const added = { imagePullPolicy: "IfNotPresent" as const, ...container };
    const spec = { ephemeralContainers: [added] };
    await this.kube.user.patch(pods("default"), name, { type: "merge", body: { spec } });
    await rest();
  }

  /** A user deletes a pod; undefined is the grace that it asks for itself. */
  async remove(name: string, gracePeriodSeconds?: number): Promise<void> {
    const grace = gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds };
    await this.kube.user.delete(pods("default"), name, grace);
    await rest();
  }

  /** The pods that the API server has: `web Running, ready: a running`. */
  async shown(): Promise<readonly string[]> {
    const { items } = await this.kube.user.list(pods(), {});
    return items.map((pod) => summarizeReport({ pod, status: pod.status ?? {}, stage: "syncing" }));
  }

  /** What `kubectl describe` shows of a pod's life, in order: `2x Warning BackOff: …`. */
  async events(name: string): Promise<readonly string[]> {
    const { items } = await this.kube.user.list(events("default"), {});
    return items
      .filter(({ involvedObject }) => involvedObject.name === name)
      .toSorted((a, b) => ((a.metadata.name ?? "") < (b.metadata.name ?? "") ? -1 : 1))
      .map(({ count, type, reason, message }) => `${count}x ${type} ${reason}: ${message}`);
  }

  async advance(time: string): Promise<void> {
    const [, amount = "0", unit = "s"] = /^(\d+)(ms|s|m)$/.exec(time) ?? [];
    const left = Number(amount) * { ms: 1, s: 1000, m: 60_000 }[unit as "ms" | "s" | "m"];
    await rest();
    await this.clock.advance(left);
    await rest();
  }

  async exit(container: string, exitCode: number): Promise<void> {
    this.runtime.exit(this.idOf(container), exitCode);
    await rest();
  }

  /** The id of the newest container of that name. */
  idOf(name: string): ContainerId {
    const found = [...this.runtime.containers.values()].findLast(({ config }) => config.metadata?.name === name);
    if (found === undefined) throw new Error(`there is no container ${name}`);
    return found.id;
  }

  pods(): readonly PodReport[] {
    return this.agent.stories.all();
  }

  /** What was told since the last time. */
  told(): string {
    return this.story.splice(0).join("\n");
  }

  /** The node at rest: sandboxes, containers, files and reports, without ids and times. */
  scene(): readonly string[] {
    const sandboxes = [...this.runtime.sandboxes.values()].map(
      ({ config, state }) =>
        `sandbox ${config.metadata?.name} #${config.metadata?.attempt} ${state === PodSandboxState.SANDBOX_READY ? "ready" : "not ready"}`,
    );
    const containers = [...this.runtime.containers.values()].map(
      ({ config, sandbox, state, exitCode }) =>
        `container ${sandbox.config.metadata?.name}/${config.metadata?.name} #${config.metadata?.attempt} ${stateWords[state] ?? state}${stateWords[state] === "exited" ? ` ${exitCode}` : ""}`,
    );
    const ofPods = /^\/root\/pods\/[^/]+$|^\/logs\/[^/]+$|\.log$|\/berth\/pods\/.*\.json$/;
    const files = this.disk.paths().filter((path) => ofPods.test(path));
    const reports = this.pods().map((report) => `pod ${summarizeReport(report)}`);
    return [
      ...sandboxes,
      ...containers,
      ...files.map((path) =>
        path
          .replaceAll(/[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "UID")
          .replace(/-container-\d+\.log$/, "-ID.log"),
      ),
      ...reports,
    ].toSorted();
  }

  /** Calls by a dead agent have no effect and no answer; its last call had an effect and has no answer. */
  #mortal<T extends object>(target: T, life: AbortSignal): T {
    const never = new Promise<never>(() => {});
    return new Proxy(target, {
      get: (_, name) => {
        const value: unknown = Reflect.get(target, name);
        if (typeof value !== "function") return value;
        const bound = value.bind(target) as (...args: unknown[]) => unknown;
        if (name === "events") return bound;
        if (!CHANGING_VERBS.test(String(name)))
          return (...args: unknown[]) => (life.aborted && name !== "path" ? never : bound(...args));
        return async (...args: unknown[]) => {
          if (life.aborted) return await never;
          const isLast = this.calls++ === this.#options.dieAfterCall;
          try {
            const result = await bound(...args);
            return isLast || life.aborted ? await this.#die(isLast) : result;
          } catch (error) {
            if (isLast || life.aborted) return await this.#die(isLast);
            throw error;
          }
        };
      },
    });
  }

  /** Whoever waits for this waits for ever, as the dead do. */
  async #die(isLast: boolean): Promise<never> {
    if (isLast) {
      this.kill();
      void this.start();
    }
    return await new Promise<never>(() => {});
  }

  #tellStatuses(): void {
    for (const report of this.pods()) {
      const text = summarizeReport(report);
      const { uid = "" } = report.pod.metadata;
      if (this.#statuses.get(uid) === text) continue;
      this.#statuses.set(uid, text);
      this.#tell(`report ${text}`);
    }
  }

  /** Adds to the story what a play asks for besides. */
  tell(texts: readonly string[]): void {
    for (const text of texts) this.#tell(text);
  }

  #tell(text: string): void {
    this.story.push(`${Math.floor(this.clock.elapsedMs / 1000)}s ${text}`);
  }

  #log(life: AbortSignal): Log {
    const say = (fields: Readonly<Record<string, unknown>>, message: string) => {
      if (life.aborted) return;
      const pod = typeof fields["pod"] === "string" ? `${fields["pod"].replace(/^default\/(.*)-node$/, "$1")}: ` : "";
      // What a report says anyway is not said twice.
      if (!message.startsWith("the pod is ") && !message.startsWith("the pod has failed")) this.#tell(pod + message);
    };
    // Each try that fails is part of the story, although the log tells the same failure once.
    const debug: Log["debug"] = (fields, message) =>
      message.startsWith("failed to ") ? say(fields, message) : undefined;
    const log: Log = { debug, info: say, warn: say, error: say, child: () => log };
    return log;
  }
}

const stateWords: Readonly<Record<ContainerState, string>> = { 0: "created", 1: "running", 2: "exited", 3: "unknown" };

/** `web Running, ready: a running, b waiting CrashLoopBackOff (3 restarts)` */
function summarizeReport({ pod, status, stage }: Pick<PodReport, "pod" | "status" | "stage">): string {
  const words = ({ name, state, restartCount }: ContainerStatus) => {
    const detail =
      state?.waiting?.reason ?? (state?.terminated && `${state.terminated.reason} ${state.terminated.exitCode}`);
    const word = state?.running ? "running" : state?.waiting ? "waiting" : "terminated";
    const restarts = restartCount === 0 ? "" : ` (restarts: ${restartCount})`;
    return `${name} ${word}${detail === undefined ? "" : ` ${detail}`}${restarts}`;
  };
  const ofInit = (status.initContainerStatuses ?? []).map((each) => `init ${words(each)}`);
  const ofEphemeral = (status.ephemeralContainerStatuses ?? []).map((each) => `ephemeral ${words(each)}`);
  const containers = [...ofInit, ...(status.containerStatuses ?? []).map(words), ...ofEphemeral];
  const reason = status.reason === undefined ? "" : ` (${status.reason})`;
  const isReady = status.conditions?.some(({ type, status: value }) => type === "Ready" && value === "True");
  const name = (pod.metadata.name ?? "").replace(/-node$/, "");
  const ending = stage === "syncing" ? "" : `, ${stage}`;
  return `${name} ${status.phase}${reason}${isReady ? ", ready" : ""}${ending}: ${containers.join(", ") || "no containers"}`;
}

const facts: NodeFacts = {
  ...nodeFacts,
  hostIPs: ["192.0.2.1"],
  thermalThrottlePaths: [],
  rootDir: "/root",
  hostResolvConf: { nameservers: ["192.0.2.53"], searches: [], options: [] },
};

/** A static pod as a manifest would give it: containers `a`, `b` … of busybox unless the spec says otherwise. */
export function makePod(name: string, spec: Partial<PodSpec> = {}, containers: readonly string[] = ["a"]): Pod {
  const manifest: Pod = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name },
    spec: { containers: containers.map((each) => ({ name: each, image: "busybox:1" })), ...spec },
  };
  return staticPod(manifest, { nodeName: "node", source: { kind: "file", path: `/manifests/${name}.yaml` } });
}

export async function createStage(options: StageOptions = {}): Promise<Stage> {
  const stage = new Stage(options);
  await stage.disk.at("/").makeFolder("root", 0o750);
  await stage.disk.at("/").makeFolder("logs", 0o755);
  return stage;
}
