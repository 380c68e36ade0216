import { renameSync, unlinkSync } from "node:fs";
import { mkdir, readdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { type Agent, startAgent } from "../../bed/agent.ts";
import { bedPaths } from "../../bed/cleanup/bed-record.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { benchPod, nodeName } from "../bench-pod.ts";
import type { Subject } from "../measure-rounds.ts";
import type { MeasuredRuntime } from "../measured-runtime.ts";
import { type Usage, usageOf } from "../process-usage.ts";

/** The agent as a measured subject whose pods are static. */
export interface StaticPodAgent extends Subject {
  readonly pid: number;
  /** Stops the agent and starts the next one; its pods keep running. */
  restart(): Promise<void>;
  /** The agent as a subject that finds the manifests of its pods at its own start. */
  readonly startedWithPods: Subject;
  usage(): Promise<Usage>;
  logBytes(): Promise<number>;
  stop(): Promise<void>;
}

const QUIET_MS = 100;

export async function startStaticPodAgent(
  binary: string,
  runtime: MeasuredRuntime,
  stateDir: string,
): Promise<StaticPodAgent> {
  const { manifests, agentLog } = bedPaths(stateDir);
  const prepared = join(stateDir, "prepared");
  for (const folder of [manifests, prepared]) await mkdir(folder, { recursive: true });
  const launch = () => startAgent({ binary, stateDir, endpoint: runtime.containerd.endpoint });
  let agent: Agent = await launch();
  const usage = () => usageOf(agent.pid);

  /**
   * Waits until the agent uses no CPU, which means that it has finished its work. Reading its usage does not disturb
   * it.
   */
  async function settled(): Promise<void> {
    await pollUntil("the agent to be quiet", 60_000, async () => {
      const { cpuMs } = await usage();
      await pause(QUIET_MS);
      return (await usage()).cpuMs === cpuMs;
    });
  }

  /** Renames the manifests into place, so that the agent never reads half a file. */
  async function start(names: readonly string[]): Promise<ReadonlyMap<string, number>> {
    for (const name of names) await writeFile(join(prepared, fileOf(name)), JSON.stringify(benchPod(name)));
    const requestTimes = names.map((name) => {
      const requestedAt = Date.now();
      renameSync(join(prepared, fileOf(name)), join(manifests, fileOf(name)));
      return [`${name}-${nodeName}`, requestedAt] as const;
    });
    return new Map(requestTimes);
  }

  async function removeAll(): Promise<ReadonlyMap<string, number>> {
    const files = await readdir(manifests);
    const requestTimes = files.map((file) => {
      const requestedAt = Date.now();
      unlinkSync(join(manifests, file));
      return [`${file.replace(/\.json$/, "")}-${nodeName}`, requestedAt] as const;
    });
    return new Map(requestTimes);
  }

  async function startWithPods(names: readonly string[]): Promise<ReadonlyMap<string, number>> {
    await agent.stop();
    const pods = [...(await start(names)).keys()];
    const requestedAt = Date.now();
    agent = await launch();
    return new Map(pods.map((pod) => [pod, requestedAt]));
  }

  return {
    runtime,
    get pid() {
      return agent.pid;
    },
    start,
    removeAll,
    settled,
    async restart() {
      await agent.stop();
      agent = await launch();
      await settled();
    },
    startedWithPods: { runtime, start: startWithPods, removeAll, settled },
    usage,
    logBytes: async () => (await stat(agentLog)).size,
    stop: () => agent.stop(),
  };
}

const fileOf = (name: string) => `${name}.json`;
