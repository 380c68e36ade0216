import { type CriRuntime, createRuntime } from "../cri/client.ts";
import { type Clock, createClock, sleep } from "../host/clock.ts";
import { createExec } from "../host/exec.ts";
import { createFiles, type Files } from "../host/fs/files.ts";
import { createMounts } from "../host/fs/mounts.ts";
import { createKernelLog } from "../host/kernel-log.ts";
import type { Log } from "../host/log.ts";
import { type Machine, readMachine } from "../host/machine.ts";
import { createNet, resolveName } from "../host/net.ts";
import { createProc } from "../host/proc.ts";
import { createGiveBack } from "../host/release-memory.ts";
import type { Node, Pod } from "../proto/kubernetes/gen/types.ts";
import { loginFiles } from "./act/images/docker-config.ts";
import type { Config } from "./config/config.ts";
import { localSocket } from "./config/local-socket.ts";
import { type AdmittingNode, admittingNode } from "./decide/admission/admission-node.ts";
import type { Refusal } from "./decide/node/local-node-report.ts";
import type { ObservedMachine } from "./decide/node/observed-node.ts";
import type { OfferedPod } from "./decide/sources/merge-static.ts";
import { followStaticPath } from "./desired/static/static-files.ts";
import type { JoinParts, Membership } from "./join.ts";
import { kubeletVersion } from "./kubelet-version.ts";
import { followHostIPs } from "./observed/node/host-ips.ts";
import { followSystemOoms } from "./observed/node/system-oom.ts";
import { checkCgroups } from "./preflight/cgroup-version.ts";
import { ownRoot, ownRuntime } from "./preflight/instance-locks.ts";
import { failStart, inOrder } from "./preflight/start-error.ts";
import { readIdSpace } from "./preflight/subordinate-ids.ts";
import { agentStatus } from "./serve/local/agent-status.ts";
import { type LocalServer, serveLocal } from "./serve/local/local-server.ts";
import { summarize } from "./serve/local/pod-list.ts";
import { type Agent, type AgentParts, createAgent, type PodSource } from "./wiring/agent.ts";
import { providersOf } from "./wiring/credential-provider-plugins.ts";
import { factsOf, readFigures } from "./wiring/node-facts.ts";

const STOP_WITHIN_MS = 5_000;

/**
 * Runs the agent until the signal aborts; its pods go on without it. Throws `StartError` when it cannot begin: another agent
 * runs on the same root directory or container runtime, or the machine lacks what the configuration asks for.
 */
export async function runAgent(config: Config, log: Log, signal: AbortSignal): Promise<void> {
  const machine = createFiles("/");
  const root = await ownRoot(config, machine);
  const thisMachine = readMachine(machine.root);
  checkCgroups(config, thisMachine, log);
  const giveBack = await ownRuntime(config, machine, log);
  try {
    await runOn(config, { machine, thisMachine, root }, log, signal);
  } finally {
    giveBack();
  }
}

async function runOn(
  config: Config,
  { machine, thisMachine, root }: { readonly machine: Files; readonly thisMachine: Machine; readonly root: Files },
  log: Log,
  signal: AbortSignal,
): Promise<void> {
  const clock = createClock();
  const proc = createProc();
  const figures = await readFigures(proc, root, thisMachine);
  const exec = createExec();
  const idSpace = await readIdSpace(config, { machine, exec, path: process.env["PATH"] ?? "" });
  const runtime = runtimeOf(config, clock, log);
  const { nodeIPs: told, nodeName } = config;
  const observedMachine = { ...thisMachine, storageBytes: figures.storageCapacityBytes };
  // News of addresses may come before there is anybody to hear them; who begins later asks for them then.
  let agent: Agent | undefined;
  let membership: Membership | undefined;
  const ownIPs = followHostIPs(
    {
      told,
      nodeName,
      net: createNet(),
      clock,
      arrived: () => agent?.wakeAll(),
      ...(config.clusterPlace !== undefined && { changed: () => membership?.doubtAddresses(), resolve: resolveName }),
    },
    signal,
  );
  membership = await memberOf(config, { machine, proc, observedMachine, runtime, addresses: ownIPs, clock, log });
  const hostIPs = membership?.hostIPs ?? ownIPs;
  const judging = createAdmittingNode(config, observedMachine);
  agent = createAgent({
    runtime,
    clock,
    log,
    disk: { root, logs: createFiles(config.podLogsDir), machine },
    mountsBelow: createMounts().below,
    facts: factsOf(config, { ...figures, allocatable: judging("unknown").allocatable }, hostIPs, clock),
    idSpace,
    settings: () => ({ ...settingsOf(config), hostIPs: hostIPs() }),
    admittingNode: judging,
    hasSilentSource: isAnySourceSilent(config, log),
    sources: sourcesOf(config, clock, log),
    ...(membership && { join: membership.join }),
    pulls: { parallel: config.maxParallelImagePulls, qps: config.registryPullQPS, burst: config.registryBurst },
    loginFiles: loginFiles(config.rootDir, workingDir(), process.env["HOME"]),
    providers: await providersOf(config, { machine, exec, environment: process.env, clock, log }),
    imageVerification: config.imageVerification,
    startPlaces: Math.max(2, 2 * proc.cpuCount()),
    random: Math.random,
    atRest: createGiveBack(),
  });
  if (membership !== undefined) onRuntimeChange(agent, membership.doubtRuntime);
  const server = listen(root, agent, clock, { nodeName, membership });
  log.info({ node: config.nodeName, rootDir: config.rootDir, pid: process.pid }, "berth is running");
  try {
    const ended = membership?.run(signal);
    void followSystemOoms({ kernelLog: createKernelLog(clock), log, tell: (event) => membership?.tell(event) }, signal);
    await runToEnd(agent, clock, signal).catch(failStart("the records of earlier pods cannot be read", inOrder));
    await ended;
  } finally {
    await server.stop();
    membership?.close();
    runtime.close();
  }
  log.info({}, "berth has stopped; its pods go on");
}

function runtimeOf(config: Config, clock: Clock, log: Log): CriRuntime {
  return createRuntime({
    endpoint: config.containerRuntimeEndpoint,
    imageEndpoint: config.imageServiceEndpoint,
    requestTimeoutMs: config.runtimeRequestTimeoutMs,
    clock,
    log,
    random: Math.random,
  });
}

function settingsOf({ maxContainerRestartPeriodMs, containerStopSignals, allowedUnsafeSysctls }: Config) {
  return { maxContainerRestartPeriodMs, tellsStopSignals: containerStopSignals, allowedUnsafeSysctls };
}

function workingDir(): string | undefined {
  try {
    return process.cwd();
  } catch {
    // Somebody has removed it, which is no reason not to begin.
    return undefined;
  }
}

type Belongings = Pick<JoinParts, "machine" | "proc" | "observedMachine" | "runtime" | "addresses" | "clock" | "log">;

/** It is made anew only when the API server tells of another Node: a hundred pods at once are held against one. */
function createAdmittingNode({ nodeName, node }: Config, machine: ObservedMachine): AgentParts["admittingNode"] {
  let last: { readonly told: Node | undefined | "unknown"; readonly node: AdmittingNode } | undefined;
  return (told) => {
    if (last === undefined || last.told !== told)
      last = { told, node: admittingNode(told, machine, { ...node, nodeName }) };
    return last.node;
  };
}

/** What makes this machine a node of the cluster that it is told of. Throws `StartError` where that cannot be used. */
async function memberOf(config: Config, parts: Belongings): Promise<Membership | undefined> {
  const { clusterPlace: place } = config;
  if (place === undefined) return undefined;
  // Loaded only where it is used: a node that stands alone has no need of it in its memory.
  const { becomeMember } = await import("./join.ts");
  return await becomeMember({ ...parts, config, place, random: Math.random });
}

/** Calls whenever the container runtime came or went. */
function onRuntimeChange({ node }: Agent, changed: () => void): void {
  let before = node.report().runtime.state;
  node.subscribe(() => {
    const { state } = node.report().runtime;
    if (state !== before) changed();
    before = state;
  });
}

interface Standing {
  readonly nodeName: string;
  readonly membership: Membership | undefined;
}

/** What `berth pods` and `berth status` ask. */
function listen(root: Files, { stories, node }: Agent, clock: Clock, { nodeName, membership }: Standing): LocalServer {
  const path = root.path(localSocket);
  const pods = () => ({ pods: stories.all().map(summarize), ...node.report() });
  const status = () =>
    agentStatus({
      node: { name: nodeName, version: kubeletVersion },
      report: node.report(),
      cluster: membership?.state(),
      pods: stories.all().map(summarize),
      pulls: stories.all().flatMap((story) => story.pulls),
    });
  const subscribe = (changed: () => void) => {
    const ends = [stories.subscribe(changed), node.subscribe(changed)];
    return () => {
      for (const end of ends) end();
    };
  };
  try {
    return serveLocal({ path, clock, pods, status, subscribe });
  } catch (error) {
    return failStart("berth pods could not be answered", inOrder)(error);
  }
}

/** Resolves when the agent has ended, or has not within a while after the signal. */
async function runToEnd(agent: Agent, clock: Clock, signal: AbortSignal): Promise<void> {
  const patience = new AbortController();
  const outOfPatience = aborted(signal).then(() => sleep(clock, STOP_WITHIN_MS, patience.signal));
  await Promise.race([agent.run(signal), outOfPatience]);
  patience.abort();
  await outOfPatience.catch(() => {
    // Patience was not needed: the last calls have ended by themselves.
  });
}

/** Without any source nothing can be unwanted: pods of others on this node are none of our business then. */
function isAnySourceSilent({ clusterPlace, staticPodPath, staticPodURL }: Config, log: Log): boolean {
  const hasSource = [clusterPlace, staticPodPath, staticPodURL].some((source) => source !== undefined);
  if (!hasSource)
    log.warn(
      {},
      "no source of pods is configured (--kubeconfig, staticPodPath, staticPodURL): nothing will be started",
    );
  return !hasSource;
}

function sourcesOf(config: Config, clock: Clock, log: Log): readonly PodSource[] {
  const { staticPodPath: path, staticPodURL: url, staticPodURLHeader: headers, nodeName } = config;
  const sources: PodSource[] = [];
  if (path !== undefined)
    sources.push({
      kind: "file",
      follow: (desired, signal) =>
        followStaticPath(
          { path, nodeName, checkEveryMs: config.fileCheckFrequencyMs, filesAt: createFiles, clock, log, desired },
          signal,
        ),
    });
  if (url !== undefined)
    sources.push({
      kind: "http",
      async follow(desired, signal) {
        // Loaded only where it is used: most nodes have no such URL.
        const { followStaticUrl } = await import("./desired/static/static-url.ts");
        const offer = (pods: readonly OfferedPod[]) => desired.offer("http", pods);
        const refuse = (refused: readonly Refusal[], namesakes: readonly Pod[]) =>
          desired.refuse("http", refused, namesakes);
        await followStaticUrl(
          { url, headers, nodeName, checkEveryMs: config.httpCheckFrequencyMs, fetch, clock, log, offer, refuse },
          signal,
        );
      },
    });
  return sources;
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
