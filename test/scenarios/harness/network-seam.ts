// The network of pods on the node of a scenario: the agent executes a chain of plugins for the delegate of the runtime.
import { createNetworkAudit } from "../../../agent/act/network/network-audit.ts";
import { definitionsOfStandaloneNode } from "../../../agent/serve/network/network-definitions.ts";
import type { Agent } from "../../../agent/wiring/agent.ts";
import type { AttachmentLocks } from "../../../cni/attachment-locks.ts";
import { YOUNG_FOR_MS } from "../../../cni/attachment-state.ts";
import type { RecordedAttachment } from "../../../cni/builtin/recorded-attachments.ts";
import type { ConfDirs } from "../../../cni/conf-dir.ts";
import type { AgentAnswer } from "../../../cni/delegate/ask-agent.ts";
import { type AttachmentAges, createAttachmentAges } from "../../../cni/delegate/attachment-ages.ts";
import { collectGarbage } from "../../../cni/delegate/collect-garbage.ts";
import { type DelegateCall, decodeDelegateCall, encodeDelegateCall } from "../../../cni/delegate/delegate-call.ts";
import { type DelegateConf, formatDelegateList } from "../../../cni/delegate/delegate-conf.ts";
import { createDeletedAttachments, type DeletedAttachments } from "../../../cni/delegate/deleted-attachments.ts";
import { executeCall } from "../../../cni/delegate/execute-call.ts";
import { type DelegateExit, runDelegate } from "../../../cni/delegate/run-delegate.ts";
import { DELEGATE_NETWORK } from "../../../cni/delegate-network.ts";
import { type Cni, createCni } from "../../../cni/network.ts";
import { createPluginBinaries } from "../../../cni/plugin-binaries.ts";
import { createPluginCalls } from "../../../cni/plugin-calls.ts";
import { createResultCache, type ResultCache } from "../../../cni/result-cache.ts";
import { type TimeLimit, unlimited } from "../../../cni/time-limit.ts";
import type { CniVersion } from "../../../cni/version.ts";
import { CriError } from "../../../cri/error.ts";
import type { Runtime } from "../../../cri/runtime.ts";
import { aborted, onAbort } from "../../../host/async/abort.ts";
import type { Clock } from "../../../host/clock.ts";
import type { Exec, ExecOptions } from "../../../host/exec.ts";
import type { Files } from "../../../host/fs/files.ts";
import type { Log } from "../../../host/log/log.ts";
import { type PodSandboxConfig, PodSandboxState } from "../../../proto/cri/gen/api.ts";
import type { SandboxId } from "../../../proto/ids.ts";
import { FakeAttachmentLocks } from "../../fakes/attachment-locks.ts";
import type { FakeDisk } from "../../fakes/files.ts";
import { describePluginCall, FakeNetworkPlugins } from "../../fakes/network-plugins.ts";
import type { FakeRuntime } from "../../fakes/runtime.ts";
import { type SandboxNetwork, unknownError } from "../../fakes/runtime-objects.ts";
import type { VerbsOf } from "./adapter-verbs.ts";
import type { AgentLifetime } from "./deaths.ts";
import { filesVerbs } from "./disk-seam.ts";

const conf: DelegateConf = {
  socket: "/root/cni.sock",
  confDir: "/etc/cni/net.d",
  binDirs: ["/opt/cni/bin"],
  cacheDir: "/var/lib/cni",
  timeoutMs: 120_000,
};
const PLUGINS = ["bridge", "portmap"] as const;
const chainOf = (cniVersion: CniVersion) => ({ cniVersion, name: "pods", plugins: PLUGINS.map((type) => ({ type })) });

const execVerbs = { run: "mutates" } as const satisfies VerbsOf<Exec>;

/** A process that executes the chain: an agent, or the delegate itself. */
interface Executor {
  readonly cni: Cni;
  readonly cache: ResultCache;
  readonly locks: AttachmentLocks;
  /** Rooted at `/`. */
  readonly files: Files;
  readonly confDirs: ConfDirs;
  readonly chainDir: string;
  readonly recordedAttachments: () => readonly RecordedAttachment[];
  readonly timeLimit: TimeLimit;
}

interface ServingAgent {
  readonly executor: Executor;
  readonly deleted: DeletedAttachments;
  readonly ages: AttachmentAges;
  readonly lifetime: AgentLifetime;
}

interface ServeDeps {
  readonly lifetime: AgentLifetime;
  /** The clock of the agent, which ends with it. */
  readonly clock: Clock;
  readonly log: Log;
  readonly runtime: Pick<Runtime, "listPodSandbox">;
  readonly agent: Pick<Agent, "networkAuditDue">;
}

/** Plugins, the cache of results, locks and network namespaces of a node. They outlive the agent. */
export class NodeNetwork implements SandboxNetwork {
  readonly plugins: FakeNetworkPlugins;
  readonly #locks: FakeAttachmentLocks;
  readonly #disk: FakeDisk;
  readonly #clock: Clock;
  readonly #namespaces = new Set<string>();
  #agent: ServingAgent | undefined;
  /** How often the runtime was killed. */
  #runtimeDeaths = 0;

  constructor(disk: FakeDisk, clock: Clock) {
    this.#locks = new FakeAttachmentLocks(clock);
    this.plugins = new FakeNetworkPlugins(clock, this.#locks);
    this.#disk = disk;
    this.#clock = clock;
  }

  /** Writes the list of the chain, and the binaries of its plugins. Version 1.1.0 has GC. */
  async prepare(cniVersion: CniVersion = "1.1.0"): Promise<void> {
    const machine = this.#disk.at("/");
    for (const folder of [...conf.binDirs, conf.confDir, conf.cacheDir]) await machine.makeFolder(folder, 0o755);
    for (const type of PLUGINS) await machine.write(`${conf.binDirs[0]}/${type}`, "", 0o755);
    await machine.write(`${conf.confDir}/10-pods.conflist`, JSON.stringify(chainOf(cniVersion)), 0o644);
  }

  /** Lets an agent execute the chain until it ends, and delete what has outlived its sandbox whenever an audit is due. */
  serve({ lifetime, clock, log, runtime, agent }: ServeDeps): void {
    const subjectOf = (verb: string, [first, options]: readonly unknown[]) =>
      verb === "run" ? describePluginCall(String(first), options as ExecOptions) : String(first);
    const exec = lifetime.wrap<Exec>({ name: "exec", adapter: this.plugins, verbs: execVerbs, subjectOf });
    const filesBelow = (root: string) =>
      lifetime.wrap<Files>({ name: "network", adapter: this.#disk.at(root), verbs: filesVerbs, subjectOf });
    const executor = this.#createExecutor({ exec, filesBelow, clock, process: lifetime.signal });
    const ages = createAttachmentAges(clock);
    this.#agent = { executor, deleted: createDeletedAttachments(), ages, lifetime };
    const isNamespace = async (path: string) => this.#namespaces.has(path);
    const garbageDeps = { ...executor, ages, socket: conf.socket, youngForMs: YOUNG_FOR_MS, isNamespace };
    const audit = createNetworkAudit({
      async listSandboxes() {
        const listedAtMs = clock.monotonicMs();
        const sandboxes = await runtime.listPodSandbox({});
        const isReady = new Map(sandboxes.map(({ id, state }) => [id, state === PodSandboxState.SANDBOX_READY]));
        return { isReady, listedAtMs };
      },
      collectGarbage: (sandboxes, signal) => collectGarbage(garbageDeps, sandboxes, signal),
      ...{ clock, log },
    });
    agent.networkAuditDue.subscribe(audit.wake);
  }

  /** As containerd: it calls DEL after an ADD that has failed, and caches the result of the delegate as libcni does. */
  async setUp(id: SandboxId, config: PodSandboxConfig): Promise<string> {
    this.#namespaces.add(namespaceOf(id));
    const deaths = this.#runtimeDeaths;
    const { stdout, exitCode } = await this.#callDelegate("ADD", id, config);
    if (deaths !== this.#runtimeDeaths) {
      this.#namespaces.delete(namespaceOf(id));
      throw new CriError("UNAVAILABLE", "runPodSandbox", "the runtime was killed");
    }
    const output = JSON.parse(stdout) as { readonly ips?: readonly { readonly address: string }[] };
    const address = output.ips?.[0]?.address.replace(/\/\d+$/, "");
    if (exitCode === 0 && address !== undefined) {
      const { args, ...attachment } = attachmentOf(id, config);
      await this.#runtimeCache().write({
        ...{ network: DELEGATE_NETWORK, ...attachment, args: new Map(args), capabilityArgs: {} },
        ...{ config: formatDelegateList(conf), result: { ...output } },
      });
      return address;
    }
    await this.tearDown(id, config);
    throw unknownError("runPodSandbox", `failed to setup network for sandbox "${id}": ${stdout.trim()}`);
  }

  /** The runtime is killed. As containerd 1.6 it has no record of a sandbox whose ADD runs: it calls no DEL. The namespace goes with it. */
  killRuntimeDuringAdd(): void {
    this.#runtimeDeaths += 1;
  }

  async tearDown(id: SandboxId, config: PodSandboxConfig): Promise<void> {
    const { stdout, exitCode } = await this.#callDelegate("DEL", id, config);
    if (exitCode !== 0) throw unknownError("stopPodSandbox", `failed to destroy network: ${stdout.trim()}`);
    const { containerId, ifName } = attachmentOf(id, config);
    await this.#runtimeCache().remove({ network: DELEGATE_NETWORK, containerId, ifName });
    this.#namespaces.delete(namespaceOf(id));
  }

  /** What is left of each sandbox, sorted, without ids: `address of web, ready`, and what no executor may do. */
  linesOf({ sandboxes }: Pick<FakeRuntime, "sandboxes">): readonly string[] {
    const sandboxText = (id: string) => {
      const sandbox = sandboxes.get(id as SandboxId);
      if (sandbox === undefined) return "a sandbox that is gone";
      const state = sandbox.state === PodSandboxState.SANDBOX_READY ? "ready" : "not ready";
      return `${sandbox.config.metadata?.name} #${sandbox.config.metadata?.attempt}, ${state}`;
    };
    const made = [...this.plugins.made.values()].map(
      ({ plugin, containerId, address }) =>
        `network: ${address === undefined ? plugin : "address"} of ${sandboxText(containerId)}`,
    );
    const cached = this.#disk.paths().flatMap((path) => {
      const [, network, id = ""] = /^\/var\/lib\/cni\/results\/(.*)-(sandbox-\d+)-eth0$/.exec(path) ?? [];
      return network === undefined ? [] : [`network: entry of ${network} in the cache, of ${sandboxText(id)}`];
    });
    const namespaces = [...this.#namespaces].map(
      (path) => `network: namespace of ${sandboxText(path.slice(path.lastIndexOf("/") + 1))}`,
    );
    return [...made, ...cached, ...namespaces, ...this.plugins.violations.map((line) => `network: ${line}`)];
  }

  /** One process of the delegate: it asks the agent, and executes the chain itself when the agent is away or has died. */
  #callDelegate(verb: string, id: SandboxId, config: PodSandboxConfig): Promise<DelegateExit> {
    const { containerId, netns, ifName, args } = attachmentOf(id, config);
    const [plugin] = (JSON.parse(formatDelegateList(conf)) as { plugins: [object] }).plugins;
    const input = { cniVersion: "1.0.0", name: DELEGATE_NETWORK, ...plugin };
    return runDelegate({
      args: [],
      env: {
        CNI_COMMAND: verb,
        CNI_CONTAINERID: containerId,
        CNI_NETNS: this.#namespaces.has(netns) ? netns : "",
        CNI_IFNAME: ifName,
        CNI_ARGS: args.map((pair) => pair.join("=")).join(";"),
      },
      readStdin: async () => JSON.stringify(input),
      clock: this.#clock,
      askAgent: (_socket, call, signal) => this.#askAgent(call, signal),
      execute: (_conf, call, signal) => this.#executeWithoutAgent(call, signal),
    });
  }

  /** As the agent's socket: the delegate loses an agent that dies before it answers, and the agent sees when the delegate leaves. */
  async #askAgent(call: DelegateCall, signal: AbortSignal): Promise<AgentAnswer> {
    const agent = this.#agent;
    if (agent === undefined || agent.lifetime.signal.aborted) return { kind: "away" };
    const { executor, deleted, ages, lifetime } = agent;
    const left = new AbortController();
    const remove = onAbort(signal, () => lifetime.signal.aborted || left.abort());
    const lost = aborted(lifetime.signal).then(() => ({ kind: "lost", reason: "the connection is closed" }) as const);
    const definitions = definitionsOfStandaloneNode;
    const sent = decodeDelegateCall(encodeDelegateCall(call));
    const deps = { ...executor, deleted, ages, definitions, setDefaultRoute: refuseDefaultRoute };
    const executed = executeCall(deps, sent, left.signal, new AbortController().signal);
    const answered = executed.then((output) => ({ kind: "answered", output: output ?? {} }) as const);
    try {
      return await Promise.race([answered, lost]);
    } finally {
      remove();
    }
  }

  async #executeWithoutAgent(call: DelegateCall, signal: AbortSignal) {
    const ended = new AbortController();
    const executor = this.#createExecutor({
      exec: this.plugins,
      filesBelow: (root) => this.#disk.at(root),
      clock: this.#clock,
      process: ended.signal,
    });
    const deps = { ...executor, definitions: definitionsOfStandaloneNode, setDefaultRoute: refuseDefaultRoute };
    return await executeCall(deps, call, signal);
  }

  #createExecutor(options: {
    readonly exec: Exec;
    readonly filesBelow: (root: string) => Files;
    readonly clock: Clock;
    readonly process: AbortSignal;
  }): Executor {
    const { exec, filesBelow, clock, process } = options;
    const { binDirs, cacheDir, confDir } = conf;
    const files = filesBelow("/");
    const cache = createResultCache({ files: filesBelow(cacheDir), clock });
    const binaries = createPluginBinaries({ exec, files, binDirs, env: {}, timeoutMs: 90_000 });
    const locks = this.#locks.ofProcess(process);
    const cni = createCni({
      createCallPlugin: (share) =>
        createPluginCalls({ binaries: binaries.forCall(share, unlimited), inProcess: new Map(), clock }),
      ...{ cache, locks, timeLimit: unlimited },
    });
    // The chain has no built-in network.
    return {
      cni,
      cache,
      locks,
      timeLimit: unlimited,
      files,
      confDirs: [confDir],
      chainDir: confDir,
      recordedAttachments: () => [],
    };
  }

  /** The cache as the runtime's own libcni writes it. */
  #runtimeCache(): ResultCache {
    return createResultCache({ files: this.#disk.at(conf.cacheDir), clock: this.#clock });
  }
}

const namespaceOf = (id: SandboxId) => `/run/netns/${id}`;

const attachmentOf = (id: SandboxId, { metadata }: PodSandboxConfig) => ({
  containerId: id,
  netns: namespaceOf(id),
  ifName: "eth0",
  args: [
    ["K8S_POD_NAMESPACE", metadata?.namespace ?? ""],
    ["K8S_POD_NAME", metadata?.name ?? ""],
    ["K8S_POD_INFRA_CONTAINER_ID", id],
  ] as [string, string][],
});

/** Only pods with secondary networks move their default route, and the scenarios have none. */
const refuseDefaultRoute = async () => {
  throw new Error("no pod of these scenarios has a secondary network");
};
