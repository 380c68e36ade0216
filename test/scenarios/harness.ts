import { toAdmissionNode } from "../../agent/decide/admission/admission-node.ts";
import type { ManifestPod } from "../../agent/decide/sources/merge-static.ts";
import type { DesiredPods } from "../../agent/desired/pods.ts";
import { createEventRecorder } from "../../agent/report/events/recorder.ts";
import type { PodReport } from "../../agent/report/local/pod-reports.ts";
import { createKubeletMetrics } from "../../agent/serve/metrics/kubelet-metrics.ts";
import { type Agent, createAgent } from "../../agent/wiring/agent.ts";
import { createClusterAccess } from "../../agent/wiring/cluster/cluster.ts";
import type { Clock } from "../../host/clock.ts";
import { events, pods, serviceAccounts } from "../../kube/resource.ts";
import type { ContainerId } from "../../proto/ids.ts";
import type { Container, EphemeralContainer, Node, Pod, PodSpec } from "../../proto/kubernetes/gen/types.ts";
// The agent imports these lazily, which takes real time; scenarios run in fake time only.
import "../../agent/act/probes/probe-executor.ts";
import "../../proto/kubernetes/decode/strict-decode.ts";
import { staticPod } from "../../proto/kubernetes/static-pod.ts";
import { FakeCgroups } from "../fakes/cgroups.ts";
import { FakeClock, settlePromises } from "../fakes/clock.ts";
import { FakeDisk } from "../fakes/files.ts";
import { fakeKeyPairs } from "../fakes/key-pairs.ts";
import { FakeKube } from "../fakes/kube.ts";
import { FakeMounts } from "../fakes/mounts.ts";
import { FakeNetworkFiles } from "../fakes/network-files.ts";
import { FakeNetworkMounts } from "../fakes/network-mounts.ts";
import { nodeSettings, observedMachine } from "../fakes/observed-node.ts";
import { FakeRuntime } from "../fakes/runtime.ts";
import { statusRegressions } from "../status-regressions.ts";
import { cgroupSeam } from "./harness/cgroup-seam.ts";
import { checkAtEnd } from "./harness/checks-at-end.ts";
import { type AgentLifetime, createDeaths, type Deaths } from "./harness/deaths.ts";
import { diskSeam } from "./harness/disk-seam.ts";
import { withLags } from "./harness/exit-lags.ts";
import type { HarnessOptions } from "./harness/harness-options.ts";
import { kubeSeam } from "./harness/kube-seam.ts";
import { harnessFacts, harnessNode } from "./harness/local-node.ts";
import { createLogLines, summarizeReport } from "./harness/log-lines.ts";
import { NodeNetwork } from "./harness/network-seam.ts";
import { runtimeSeam } from "./harness/runtime-seam.ts";
import { nodeSnapshot } from "./harness/snapshot.ts";
import { unseenMs } from "./harness/unseen-exits.ts";

/** How long the runtime's status lags behind an exit with `hasShortLag`. */
const EXIT_LAG_MS = 2;
/** Longer than any lag, and shorter than a loop of exits. */
const MAX_EXIT_MS = 20_000;
/** Small, so that a scenario goes on soon after the agent has seen an exit, which it does within a second. */
const EXIT_STEP_MS = 50;
/** The agent reads a status that does not show an exit again after this time. */
const EXIT_RECHECK_MS = 5;

/** A whole agent on a node of fakes, with a log of its actions, reports and messages. Only `advance` moves the time. */
export class AgentHarness {
  readonly clock = new FakeClock();
  readonly disk = new FakeDisk(this.clock.now);
  /** What is mounted on the node. It outlives the agent. */
  readonly mounts = new FakeMounts(this.disk);
  /** The cgroups of the node, if it has any. They outlive the agent. */
  readonly cgroups: FakeCgroups;
  /** The servers that volumes are on. */
  readonly networkMounts = new FakeNetworkMounts(this.mounts, this.clock);
  readonly networkFiles = new FakeNetworkFiles(this.disk, this.mounts, this.clock);
  /** The network of pods, if the agent owns it. It outlives the agent. */
  readonly network: NodeNetwork | undefined;
  readonly runtime: FakeRuntime;
  readonly kube = new FakeKube({ clock: this.clock });
  /** Actions, reports and log messages, each with its second: `5s report web Running: a running`. */
  readonly log: string[];
  agent!: Agent;
  /** The call after which an agent died because of `dieAfterCall`: `runtime.createContainer default/web/a #0`. */
  diedAfter: string | undefined;
  /** The node's addresses. After a change call `agent.wakeAll`, as the watch of the real addresses does. */
  hostIPs: readonly string[] = harnessFacts.hostIPs;
  /** The Node object that the agent has observed. After a change call `agent.clusterSync.onNodeChanged`, as the real watch does. */
  nodeObject: Node | undefined | "unknown";
  readonly keyPairs = fakeKeyPairs();
  /** The maxPods of the node; a change takes effect with the next agent. */
  maxPods: number;
  /** How often the agents have released unused memory. */
  memoryReleases = 0;
  /** Replaces a fresh read of the Node object; false: the read failed. */
  readNode: () => Promise<boolean> = async () => true;
  readonly #options: HarnessOptions;
  readonly #lines = createLogLines(() => this.clock.elapsedMs);
  readonly #deaths: Deaths;
  #lifetime: AgentLifetime | undefined;
  #stopped: Promise<void> = Promise.resolve();
  /** How many agents have been started. */
  starts = 0;
  #manifests: readonly ManifestPod[] = [];
  #desired: DesiredPods | undefined;

  constructor(options: HarnessOptions = {}) {
    this.#options = options;
    const { eventSource: source = "containerd-events", exitLagMs = () => EXIT_LAG_MS } = options;
    this.network = options.ownsNetwork === true ? new NodeNetwork(this.disk, this.clock) : undefined;
    this.runtime = new FakeRuntime({ clock: this.clock, source, exitLagMs, network: this.network });
    this.cgroups = new FakeCgroups({ driver: options.cgroupDriver ?? "cgroupfs" });
    this.log = this.#lines.lines;
    this.#deaths = createDeaths({
      dieAfterCall: options.dieAfterCall,
      onDeath: (call) => {
        this.diedAfter = call;
        this.#lines.appendDeath(`the agent dies after call ${options.dieAfterCall}, ${call}; the next one starts`);
        this.kill();
        void this.start();
      },
    });
    this.maxPods = options.maxPods ?? nodeSettings.maxPods;
    this.runtime.addImage("busybox:1");
    // The runtime writes the log files; the agent counts the instances by them when the runtime has lost a container.
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

  /** Starts an agent. Its file source reports the current manifests, also if there are none. */
  async start(): Promise<void> {
    const lifetime = this.#deaths.beginLifetime();
    this.#lifetime = lifetime;
    const clock: Clock = {
      now: this.clock.now,
      monotonicMs: this.clock.monotonicMs,
      wakeAt: (at, wake) => this.clock.wakeAt(at, () => (lifetime.signal.aborted ? undefined : wake())),
    };
    const log = this.#lines.createLog(lifetime.signal);
    const kube = kubeSeam(this.kube, lifetime);
    const runtime = runtimeSeam(this.runtime, lifetime);
    // Each agent begins at another number, so that no two events have the same name.
    const random = () => this.starts / 1000;
    this.starts += 1;
    const addresses = () => this.hostIPs;
    const cgroups = this.#options.hasCgroups === true ? cgroupSeam(this.cgroups, lifetime) : undefined;
    const rules = this.#options.nodeRules;
    const node = harnessNode({ runtime: runtime.runtime, clock, log, rules, addresses, cgroups: cgroups?.node });
    this.agent = createAgent({
      metrics: createKubeletMetrics(),
      ...runtime,
      ...diskSeam(this.disk, this, lifetime),
      runtimeStatus: node.runtimeStatus,
      clock,
      log,
      cgroups: cgroups?.pods,
      facts: () => ({
        ...harnessFacts,
        hostIPs: this.hostIPs,
        clusterDNS: this.#options.clusterDNS ?? harnessFacts.clusterDNS,
      }),
      idPool: { first: 65_536, length: 65_536 * (this.#options.userNamespaceSlots ?? 1000), idsPerPod: 65_536 },
      settings: () => ({
        maxContainerRestartPeriodMs: this.#options.maxContainerRestartPeriodMs ?? 300_000,
        hostIPs: this.hostIPs,
        ...(cgroups && { podCgroups: harnessFacts }),
        allowedUnsafeSysctls: this.#options.allowedUnsafeSysctls ?? [],
      }),
      admissionNode: (latestNode) =>
        toAdmissionNode(latestNode, observedMachine, { ...nodeSettings, nodeName: "node", maxPods: this.maxPods }),
      sources: [
        {
          kind: "file",
          follow: async (desired, signal) => {
            this.#desired = desired;
            await desired.replaceManifests("file", this.#manifests);
            await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
          },
        },
      ],
      hasNoSource: false,
      ...(this.#options.isInCluster === true && {
        clusterAccess: createClusterAccess({
          recorder: createEventRecorder({ kube, nodeName: "node", clock, log, random, delayMs: 0 }),
          kube,
          nodeName: "node",
          random: () => 0,
          clock,
          log,
          nodeObject: { latest: () => this.nodeObject, refresh: () => this.readNode() },
          keyPairs: this.keyPairs,
          certificateGates: { clusterTrustBundleProjection: true, podCertificateRequest: true },
          onMirror: () => {},
        }),
      }),
      dockerConfigs: [["/root/config.json", "config.json"]],
      pulls: { parallel: this.#options.parallelPulls, qps: 0, burst: 0 },
      earlyProbes: this.#options.earlyProbes ?? true,
      keepsReferencedObjects: this.#options.keepsReferencedObjects ?? false,
      changeDetection: { strategy: this.#options.changeDetectionStrategy ?? "Watch", syncFrequencyMs: 60_000 },
      onIdle: () => {
        this.memoryReleases += 1;
      },
      createCredentialProviders: this.#options.createCredentialProviders?.(this),
      imageVerification: { policy: this.#options.imageVerification ?? "NeverVerifyPreloadedImages", allowlist: [] },
      // The fake runtime writes no logs.
      logRotation: undefined,
      startSlots: this.#options.startSlots ?? 4,
    });
    this.network?.serve({ lifetime, clock, log, runtime: runtime.runtime, agent: this.agent });
    this.agent.podReports.subscribe(() => lifetime.signal.aborted || this.#lines.appendReports(this.podReports()));
    const ended = [
      node.run({ ...this.agent, recordEvent: () => {} }, lifetime.signal),
      this.agent.run(lifetime.signal),
    ];
    this.#stopped = Promise.all(ended).then(() => {});
    await this.#settle();
  }

  /** Stops the agent as SIGTERM does. */
  async stop(): Promise<void> {
    this.#lifetime?.end();
    await this.#stopped;
  }

  /** Kills the agent as SIGKILL does: its pending calls are never answered. */
  kill(): void {
    this.#lifetime?.end();
  }

  /** Replaces the manifests of the file source. */
  async setManifests(...pods: readonly Pod[]): Promise<void> {
    this.#manifests = pods.map((pod) => ({
      pod,
      source: { kind: "file" as const, path: `/manifests/${pod.metadata.name}` },
    }));
    void this.#desired?.replaceManifests("file", this.#manifests);
    await this.#settle();
  }

  /** Creates a pod in the API that is bound to this node. */
  async apply(name: string, spec: Partial<PodSpec> = {}, metadata: Pod["metadata"] = {}): Promise<void> {
    const containers = [
      { name: "a", image: "busybox:1", imagePullPolicy: "IfNotPresent" as const, ...mountsOfAll(spec) },
    ];
    const pod = {
      metadata: { name, namespace: "default", ...metadata },
      spec: { containers, nodeName: "node", ...spec },
    };
    await this.kube.user.create(pods("default"), pod);
    await this.#settle();
  }

  /** Adds an ephemeral container to a pod, as `kubectl debug` does. */
  async debug(name: string, container: EphemeralContainer): Promise<void> {
    const added = { imagePullPolicy: "IfNotPresent" as const, ...container };
    const spec = { ephemeralContainers: [added] };
    await this.kube.user.patch(pods("default"), name, { type: "merge", body: { spec } });
    await this.#settle();
  }

  /** Deletes a pod in the API, by default with its own grace period. */
  async deletePod(name: string, gracePeriodSeconds?: number): Promise<void> {
    const grace = gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds };
    await this.kube.user.delete(pods("default"), name, grace);
    await this.#settle();
  }

  /** The pods in the API: `web Running, ready: a running`. */
  async apiPods(): Promise<readonly string[]> {
    if (this.#options.waitsForExits === true) await this.showExits();
    const { items } = await this.kube.user.list(pods(), {});
    return items.map((pod) => summarizeReport({ pod, status: pod.status ?? {}, stage: "syncing" }));
  }

  /** The events of an object in order, as `kubectl describe` shows them: `2x Warning BackOff: …`. */
  async events(name: string): Promise<readonly string[]> {
    if (this.#options.waitsForExits === true) await this.showExits();
    const { items } = await this.kube.user.list(events("default"), {});
    return items
      .filter(({ involvedObject }) => involvedObject.name === name)
      .toSorted((a, b) => ((a.metadata.name ?? "") < (b.metadata.name ?? "") ? -1 : 1))
      .map(({ count, type, reason, message }) => `${count}x ${type} ${reason}: ${message}`);
  }

  async advance(time: string): Promise<void> {
    const [, amount, unit] = /^(\d+)(ms|s|m)$/.exec(time) ?? [];
    if (amount === undefined) throw new Error(`${time} is no time: 10ms, 10s or 10m`);
    const left = Number(amount) * { ms: 1, s: 1000, m: 60_000 }[unit as "ms" | "s" | "m"];
    const start = this.clock.now();
    await this.#settle();
    await this.clock.advance(left);
    if (this.#options.waitsForExits === true) await this.#advanceByLags(start, left);
    await this.#settle();
  }

  /** Advances until the time since `start` is `wantedMs`, without the time in which the agent has not seen an exit. */
  async #advanceByLags(start: number, wantedMs: number): Promise<void> {
    for (;;) {
      const missingMs = start + wantedMs + unseenMs(this.runtime.timeline, start) - this.clock.now();
      if (missingMs <= 0) return;
      await this.clock.advance(missingMs);
    }
  }

  async exit(container: string, exitCode: number): Promise<void> {
    this.runtime.exit(this.containerIdOf(container), exitCode);
    await this.#settle();
  }

  /** The id of the newest container of that name. Throws if there is none. */
  containerIdOf(name: string): ContainerId {
    const found = [...this.runtime.containers.values()].findLast(({ config }) => config.metadata?.name === name);
    if (found === undefined) throw new Error(`no container ${name} exists`);
    return found.id;
  }

  /** The number of mutating calls so far, by all agents. */
  get mutatingCalls(): number {
    return this.#deaths.mutatingCalls;
  }

  /** The log from the start, with the line where the agent died. */
  get course(): readonly string[] {
    return this.#lines.course;
  }

  podReports(): readonly PodReport[] {
    return this.agent.podReports.all();
  }

  /** How the statuses in the API have regressed; see `test/status-regressions.ts` for the pods that this is about. */
  statusRegressions(): readonly string[] {
    return this.kube.objects.history.flatMap(({ resource, type, object, before }) =>
      resource === "pods" && type === "MODIFIED"
        ? statusRegressions(before as unknown as Pod, object as unknown as Pod)
        : [],
    );
  }

  /**
   * Advances the time until the runtime shows every exit and the agent has seen it. A stop has no effect between an exit and
   * its status: then also until the agent has retried it.
   */
  async showExits(): Promise<void> {
    const since = this.clock.now();
    while (this.runtime.hasUnshownExit || this.#lines.hasRecentIneffectiveAction()) {
      if (this.clock.now() - since > MAX_EXIT_MS) throw new Error("the runtime never shows an exit");
      while (this.runtime.hasUnshownExit) await this.clock.advance(EXIT_STEP_MS);
      await this.advance("1s");
    }
  }

  /** Returns the log since the last call, and clears it. */
  takeLog(): string {
    return this.log.splice(0).join("\n");
  }

  /** The state of the node, sorted: sandboxes, containers, files and reports, without ids and times. */
  nodeSnapshot(): readonly string[] {
    const { runtime, disk, mounts, cgroups } = this;
    const network = this.network?.linesOf(runtime) ?? [];
    return nodeSnapshot({ runtime, disk, mounts, cgroups, network, reports: this.podReports() });
  }

  /** Waits for all promises, and fails the test if an agent has called a method that no table of verbs contains. */
  async #settle(): Promise<void> {
    await settlePromises();
    while (this.#options.exitLagMs === undefined && this.runtime.hasUnshownExit)
      await this.clock.advance(EXIT_RECHECK_MS);
    this.#deaths.throwIfUnknownVerb();
  }

  /** Adds lines of a scenario to the log. */
  appendLog(texts: readonly string[]): void {
    for (const text of texts) this.#lines.append(text);
  }
}

/** A pod leaves out the volumes that no container mounts. */
function mountsOfAll({ volumes }: Partial<PodSpec>): Partial<Container> {
  return volumes === undefined ? {} : { volumeMounts: volumes.map(({ name }) => ({ name, mountPath: `/${name}` })) };
}

/** A static pod as decoded from a manifest: the named containers with busybox, unless the spec has others. */
export function makePod(name: string, spec: Partial<PodSpec> = {}, containers: readonly string[] = ["a"]): Pod {
  const manifest: Pod = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name },
    spec: { containers: containers.map((each) => ({ name: each, image: "busybox:1", ...mountsOfAll(spec) })), ...spec },
  };
  return staticPod(manifest, { nodeName: "node", source: { kind: "file", path: `/manifests/${name}.yaml` } });
}

/** Creates a node for the test that runs. At its end `checkAtEnd` judges the run by the regressions that the options name. */
export async function createHarness(options: HarnessOptions = {}): Promise<AgentHarness> {
  const harness = new AgentHarness(withLags(options));
  if (options.dieAfterCall === undefined) checkAtEnd(harness, options.regressions);
  await harness.disk.at("/").makeFolder("root", 0o750);
  await harness.disk.at("/").makeFolder("logs", 0o755);
  await harness.network?.prepare(options.chainVersion);
  // The controller manager creates it in each namespace; the tokens of pods are tokens of this account.
  if (options.isInCluster === true)
    await harness.kube.user.create(serviceAccounts("default"), { metadata: { name: "default", namespace: "default" } });
  return harness;
}
